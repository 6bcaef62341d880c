"""Names of files, changes and crafted lines: each gets a clear answer in linear time."""

import gzip
import io

import pytest
from support.inputs.ssearch import DATA, DIGEST, outcome

from storewise.errors import InputError
from storewise.ssearch import convert
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.parse.grammar import header_library, library_name, query_line, read_hit
from storewise.ssearch.reader import DocumentReader

CONTENT = (DATA / "ssearch36.m10").read_bytes()


def test_names_with_control_characters_are_refused_and_quoted(tmp_path):
    for name in ("new\nline", "a\rb", "tab\there", "\x1b[2J", "\x85", "\u2028"):
        path = tmp_path / name
        path.write_bytes(CONTENT)
        for spec in (tmp_path, tmp_path / "*"):
            with pytest.raises(InputError, match="control characters") as caught:
                list_inputs([spec])
            assert len(str(caught.value).splitlines()) == 1
            assert "\\x" in str(caught.value) and name not in str(caught.value)
        with pytest.raises(InputError, match="control characters"):
            list(DocumentReader(path, DIGEST))
        path.unlink()


def test_a_file_that_changes_between_digest_and_documents(tmp_path, monkeypatch):
    path = tmp_path / "a.m10"
    path.write_bytes(CONTENT)
    digest_of = convert.content_digest

    def changed_behind(source):
        result = digest_of(source)
        path.write_bytes(CONTENT.replace(b"; sw_score: 370", b"; sw_score: 371"))
        return result

    monkeypatch.setattr(convert, "content_digest", changed_behind)
    with pytest.raises(InputError, match="changed while it was read"):
        convert.convert_file(path, "jsonl", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_crafted_lines_take_linear_time():
    """With a step back for each byte these would take hours."""
    for unit in (b" ", b" vs ", b", 1 nt vs ", b" - 1 nt ", b" 1 residues in ", b"1"):
        much = unit * (200_000 // len(unit))
        assert library_name(b"Library: " + much) is not None
        assert library_name(b"Query library " + much) is None
        assert header_library(b">>>q" + much) is None
        assert header_library(b">>>q" + much + b" library ") is None
        query_line(b"  1>>>" + much)
        query_line(much)
        at = CONTENT.index(b"Library: ")
        for crafted in (b"Library: " + much, much, b"Query library" + much, b">>>q" + much):
            content = CONTENT[:at] + crafted + b"\n" + CONTENT[at:]
            assert outcome(content)[0] in ("documents", "error")
    for unit in ("[gene=", "[chromosome=", "chromosome:", "gene:", "chromosome:1:"):
        read_hit(b"id " + unit.encode() * (200_000 // len(unit)))


def test_numbers_of_any_length_and_very_many_keys_are_refused_alike():
    keys = b"".join(b"; sw_k%d: 1\n" % i for i in range(50_000))
    for old, new in (
        (b"  2>>>", b"  " + b"2" * 5000 + b">>>"),
        (b"3377 residues in 3 query", b"3377 residues in " + b"3" * 5000 + b" query"),
        (b" version 36", b" version " + b"3" * 5000),
        (b"1125 nt vs", b"1" * 5000 + b" nt vs"),
        (b"; sw_score", keys + b"; sw_score"),
    ):
        content = CONTENT.replace(old, new, 1)
        assert content != CONTENT
        assert outcome(content, mode="fast") == outcome(content, mode="reference")


def test_content_that_expands_much_is_given_out_in_linear_time():
    packed = io.BytesIO(gzip.compress(CONTENT[:1] + b" " * 60_000_000, compresslevel=1))
    with pytest.raises(InputError):
        list(DocumentReader(packed, DIGEST, chunk_bytes=4096))
