"""Valid outputs that look incomplete, ids that look like marks: reader and scanner agree."""

import pytest
from support.inputs.ssearch import DATA, REAL, agreed, read, scan

from storewise.documents import Kind
from storewise.errors import InputError
from storewise.ssearch.inspect import inspect_file

#: Outputs of layouts of their own.
LAYOUTS = (
    "ssearch36_to_file.m10",
    "ssearch36_identities.m10",
    "ssearch36_scores.m10",
    "ssearch36_identities_scores.m10",
    "ssearch36_list.m10",
    "ggsearch36_no_length.m10",
    "ssearch36_marks.m10",
    "ssearch36_identities_marks.m10",
)


def content_of(name):
    return (DATA / name).read_bytes()


@pytest.mark.parametrize("name", REAL)
def test_the_scanner_agrees_whatever_the_pieces(name):
    assert not isinstance(agreed(content_of(name), 1, 777, 1 << 20), str)


def test_scores_without_alignments_are_counted_with_zero_hits_and_a_warning():
    for name in ("ssearch36_scores.m10", "ssearch36_identities_scores.m10"):
        assert agreed(content_of(name)) == (3, 0, 0)
        assert (
            "2 of 3 queries have best scores and no alignments"
            in scan(content_of(name)).warnings[0]
        )
        result = inspect_file(DATA / name)
        assert result["complete"] and result["warnings"] == list(scan(content_of(name)).warnings)


def test_a_lost_block_of_alignments_is_not_taken_for_scores_only():
    for name in ("ssearch36_to_file.m10", "ssearch36_identities.m10"):
        content = content_of(name)
        start = content.index(b"\n>>>part1") + 1
        end = content.index(b"  2>>>")
        for lost in (content[:start] + content[end:], content[: start - 1] + content[end:]):
            assert "best scores, but no alignments" in str(agreed(lost))
            with pytest.raises(InputError, match="best scores, but no alignments"):
                scan(lost)


def test_a_query_lost_is_noticed_in_every_layout():
    for name in LAYOUTS[:5]:
        content = content_of(name)
        third, second = content.index(b"  3>>>"), content.index(b"  2>>>")
        end = content.index(b">>>///")
        for lost in (content[:second] + content[third:], content[:third] + content[end:]):
            assert "queries are missing" in str(agreed(lost)), name
            with pytest.raises(InputError, match="queries are missing"):
                scan(lost)


def test_end_marks_behind_some_queries_only_are_refused():
    content = content_of("ssearch36_to_file.m10")
    for mark in (b"  2>>>", b"  3>>>"):
        at = content.index(mark)
        mixed = content[:at] + b">>><<<\n" + content[at:]
        assert ">>><<<" in str(agreed(mixed))
        with pytest.raises(InputError, match=">>><<<"):
            scan(mixed)


def test_a_list_of_libraries_whose_last_line_is_none():
    content = content_of("ssearch36_list.m10")
    assert b"232 residues in 1 query" in content
    assert agreed(content) == (3, 2, 2)
    assert "all 3 queries are there" in scan(content).warnings[0]
    wrong = content.replace(b"232 residues in 1 query", b"532 residues in 1 query")
    assert "queries are missing" in str(agreed(wrong))


def test_ids_that_look_like_marks():
    _, result = read(DATA / "ssearch36_marks.m10")
    assert [task["q"] for task in result[Kind.TASKS]] == [">lead2", "1>>>q", "><<<"]
    assert {">lead2", ">>lead3", "1>>>q", "2>>>q", "><<<", ">///", ">--", ";", ">q,"} <= {
        gs["seqid"] for gs in result[Kind.GS]
    }


def test_sets_of_peptides_are_refused_by_name():
    content = content_of("fasta36_protein.m10").replace(b"FASTA searches", b"FASTS compares")
    assert "an output of fasts, whose queries are sets of peptides" in str(agreed(content))
    with pytest.raises(InputError, match="sets of peptides"):
        scan(content)
