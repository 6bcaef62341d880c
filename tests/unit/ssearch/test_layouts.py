"""Valid outputs that look incomplete, ids that look like marks: both readers agree."""

import re

import pytest
from support.inputs.ssearch import DATA, agreed, read

from storewise.documents import Kind
from storewise.ssearch.inspect import inspect_file


def content_of(name):
    return (DATA / name).read_bytes()


def both_refuse(content, says):
    assert says in str(agreed(content))


def test_scores_without_alignments_are_counted_with_zero_hits_and_a_warning():
    for name in ("ssearch36_scores.m10", "ssearch36_identities_scores.m10"):
        assert agreed(content_of(name)) == (3, 0, 0)
        (warning,) = read(content_of(name))[0].warnings
        assert "2 of 3 queries have best scores and no alignments" in warning
        result = inspect_file(DATA / name)
        assert result["complete"] and result["warnings"] == [warning]


def test_a_lost_block_of_alignments_is_not_taken_for_scores_only():
    for name in ("ssearch36_to_file.m10", "ssearch36_identities.m10"):
        content = content_of(name)
        start = content.index(b"\n>>>part1") + 1
        end = content.index(b"  2>>>")
        for lost in (content[:start] + content[end:], content[: start - 1] + content[end:]):
            both_refuse(lost, "best scores, but no alignments")


def test_a_query_lost_is_noticed_in_every_layout():
    for name in ("to_file", "identities", "scores", "identities_scores", "list"):
        content = content_of(f"ssearch36_{name}.m10")
        third, second = content.index(b"  3>>>"), content.index(b"  2>>>")
        end = content.index(b">>>///")
        for lost in (content[:second] + content[third:], content[:third] + content[end:]):
            both_refuse(lost, "queries are missing")


def test_end_marks_behind_some_queries_only_are_refused():
    content = content_of("ssearch36_to_file.m10")
    for mark in (b"  2>>>", b"  3>>>"):
        at = content.index(mark)
        both_refuse(content[:at] + b">>><<<\n" + content[at:], ">>><<<")


def test_a_list_of_libraries_whose_last_line_is_none():
    content = content_of("ssearch36_list.m10")
    assert b"232 residues in 1 query" in content
    assert agreed(content) == (3, 2, 2)
    assert "all 3 queries are there" in read(content)[0].warnings[0]
    wrong = content.replace(b"232 residues in 1 query", b"532 residues in 1 query")
    assert "queries are missing" in str(agreed(wrong))


def test_ids_that_look_like_marks():
    _, result = read(DATA / "ssearch36_marks.m10")
    assert [task["q"] for task in result[Kind.TASKS]] == [">lead2", "1>>>q", "><<<"]
    assert {">lead2", ">>lead3", "1>>>q", "2>>>q", "><<<", ">///", ">--", ";", ">q,"} <= {
        gs["seqid"] for gs in result[Kind.GS]
    }


def test_leading_gaps_lengths_without_gaps_and_dashes_that_are_residues():
    """Of each file one alignment: its columns, both starts and stops, and a piece of each row."""
    expected = {
        "glsearch36_overhang": (46, (1, 46), (1, 40), "TTTGGGGG", "------GG"),
        "ssearch36_blast_lengths": (60, (1, 60), (1, 57), "CAAGNPDM", "CAA---DM"),
        "ssearch36_dashes": (62, (1, 60), (1, 62), "CAA--GNP", "CAA--GNP"),
    }
    for name, (columns, *places, query, library) in expected.items():
        assert agreed(content_of(f"{name}.m10")) == (1, 1, 1)
        result = read(DATA / f"{name}.m10")[1]
        (rna,), (gs,) = result[Kind.RNA], result[Kind.GS]
        assert len(rna["s"]) == len(gs["s"]) == columns
        assert [(one["b"], one["e"]) for one in (rna, gs)] == places
        assert rna["s"].index(query) == gs["s"].index(library)
    # Only with -S may a dash be a residue.
    content = content_of("ssearch36_dashes.m10").replace(b"(15:-5)xS", b"(15:-5)")
    assert "expected 62 for al_start 1 and al_stop 62; found 60" in str(agreed(content))


def test_the_first_lines_of_versions_3_3_and_3_4():
    """Up to 3.3 the only query has no number; the rest of the output is as that of version 34."""
    content = content_of("fasta34.m10")
    first = content[content.index(b"\n       opt") : content.index(b"  2>>>")] + b">>><<<\n"
    start = b" FASTA searches a protein or DNA sequence data bank\n version 3.3t08 Jan. 17, 2001\n"
    cited = b"Please cite:\n W.R. Pearson & D.J. Lipman PNAS (1988) 85:2444-2448\n\n"
    query = content[content.index(b"  1>>>") : content.index(b"\n vs ")]
    smith = b" SSEARCH searches a sequence database\n using the Smith-Waterman algorithm\n"
    for begin, named, ids in (
        (start, b" CISY_ECOLI, 107 aa\n vs SWALL library\n", ("CISY_ECOLI", "SWALL")),
        (start, b"a.fa: 107 aa\n >CISY x\n vs  SWALL library\n", ("CISY", "SWALL")),
        (smith + b" version 3.4t20 Sep 26, 2002\n", query + b"\n vs  L library\n",
         ("gi|10955263|ref|NP_052604.1|", "L")),
    ):  # fmt: skip
        whole = begin + cited + named + first
        assert agreed(whole, 1 << 20, 50) == (1, 2, 2)
        (task,) = read(whole)[1][Kind.TASKS]
        assert (task["q"], task["lib"]) == ids
    both_refuse(whole.replace(b"3.4t20 Sep", b"2.0u53 Sep"), "an output of version 2.0u53")


@pytest.mark.parametrize("mode", ["auto", "reference"])
def test_further_alignments_that_repeat_the_statistics_of_the_first_are_counted(mode):
    reader, _ = read(DATA / "tfastx36_old.m10", mode=mode)
    (warning,) = reader.warnings
    assert warning.startswith("3 further alignments of hits (>--) repeat")
    # As an old ssearch36 would write it, over the ends of batches.
    content = content_of("ssearch36_context.m10")
    assert read(content, mode=mode)[0].warnings == []
    first = re.search(rb"; sw_z-score.*\n; sw_bits.*\n; sw_expect.*\n", content)[0]
    old = re.sub(rb"; sw_z-score.*\n; sw_bits.*\n; sw_expect.*\n", first, content)
    counted = {
        size: read(old, mode=mode, alignments_per_batch=size)[0].warnings[0].split()[0]
        for size in (1, 5, 1000)
    }
    assert len(set(counted.values())) == 1 and 10 < int(counted[1]) <= 17


def test_sets_of_peptides_are_refused_by_name():
    content = content_of("fasta36_protein.m10").replace(b"FASTA searches", b"FASTS compares")
    both_refuse(content, "an output of fasts, whose queries are sets of peptides")
