"""FASTA: records, parts and what is refused."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.errors import InputError
from storewise.ssearch.search.fasta import read_fasta, split_fasta

RECORDS = st.lists(
    st.tuples(st.text("abc>; =é\t", max_size=12), st.text("ACGTNacgt-*", min_size=1, max_size=200)),
    min_size=1,
    max_size=25,
)


@given(records=RECORDS, per_part=st.integers(1, 9))
def test_parts_hold_every_record_once(tmp_path_factory, records, per_part):
    place = tmp_path_factory.mktemp("split")
    named = [(f"id{i} {text.strip()}".rstrip(), seq) for i, (text, seq) in enumerate(records)]
    source = place / "all.fa.gz"
    text = "".join(f">{title}\n{sequence}\n" for title, sequence in named)
    source.write_bytes(gzip.compress(text.encode()))
    parts = split_fasta(source, place / "parts", per_part)
    assert len(parts) == -(-len(named) // per_part)
    result = [list(read_fasta(part)) for part in parts]
    assert [record for part in result for record in part] == named
    assert all(len(part) == per_part for part in result[:-1])
    assert not list((place / "parts").glob("*.tmp*"))


def test_bad_fasta_is_named(tmp_path):
    source = tmp_path / "bad.fa"
    for text, message in (
        ("\n\n", "no sequence in the file"),
        ("hello\nworld\n", "line 1: not a FASTA file.*'>'.*'hello'"),
        ("\n\nLOCUS x\n", "line 3: not a FASTA file"),
        (">a\nAC\n>b\nGT\n>a\nGG\n", "records 1 and 3 have the same id a"),
        (">a\n>b\nAC\n", r"record 1 \(a\) has no sequence"),
        (">a\nAC\n>b\n", r"record 2 \(b\) has no sequence"),
        ("> a\nAC\n", "record 1 has no id"),
        (">a\nACGT\nAC1T\n", "line 3: not a sequence line.*'1'"),
    ):
        source.write_text(text)
        with pytest.raises(InputError, match=message):
            split_fasta(source, tmp_path / "parts")
        assert list((tmp_path / "parts").iterdir()) == []
    # A description need not be text.
    source.write_bytes(b">a caf\xe9\nACGT\n")
    (part,) = split_fasta(source, tmp_path / "parts")
    assert part.read_bytes() == b">a caf\xe9\nACGT\n"
