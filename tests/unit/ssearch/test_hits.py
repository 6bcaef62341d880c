"""One table of hits: what is counted by hand, its forms, and what it does with bad files."""

import csv
import re

import pyarrow.parquet as pq
from support.commands import storewise
from support.paths import DATA, SMALL

from storewise.ssearch.hits import COLUMNS, _count_columns

OUTFMT_6 = "qseqid sseqid pident length mismatch gapopen qstart qend sstart send evalue bitscore"


def test_rows_are_counted():
    for query, subject, expected in (
        ("ACGT", "ACGT", (4, 0, 0)),
        ("AC--GT", "ACTTGA", (3, 2, 1)),
        # Two gaps that touch are two openings; case and U do not count.
        ("ACG--Tu", "A--CCtT", (3, 4, 2)),
        # A frame shift stands in both rows.
        ("AC/GT", "AC-GT", (4, 1, 1)),
        ("ACNT", "ACGT", (3, 0, 0)),
    ):
        # A gap at the end of one pair is not that at the start of the next.
        counts = _count_columns(["A-", query, "-A"], ["AA", subject, "AA"])
        assert tuple(column[1] for column in counts) == expected
        assert [column[2] for column in counts] == [1, 1, 1]


def test_one_table_of_several_files_in_each_form(tmp_path):
    bad = tmp_path / "bad.m10"
    bad.write_text("no output\n")
    inputs = (*SMALL[:2], bad)
    for form in ("parquet", "csv", "tsv"):
        request = ("convert", *inputs, "--to", "hits", "--jobs", "1", "-o")
        done = storewise(*request, tmp_path / f"hits.{form}", "--quarantine")
        assert done.returncode == 0
        assert "bad.m10" in done.stderr
    table = pq.read_table(tmp_path / "hits.parquet")
    assert table.schema.names == COLUMNS.names
    assert COLUMNS.names[:12] == OUTFMT_6.split()
    rows = list(csv.DictReader((tmp_path / "hits.csv").open()))
    assert [row["sseqid"] for row in rows] == table["sseqid"].to_pylist()
    lines = [line.split("\t") for line in (tmp_path / "hits.tsv").read_text().splitlines()]
    assert len(lines) == len(rows)
    assert {len(line) for line in lines} == {12}
    assert [int(line[8]) for line in lines] == table["sstart"].to_pylist()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_scores_that_were_not_printed_and_a_strand_of_a_query_that_is_translated(tmp_path):
    rows = []
    for name in ("ssearch36_nostats.m10", "fastx36.m10"):
        out = tmp_path / f"{name}.tsv"
        storewise("convert", DATA / name, "--to", "hits", "-j", "1", "-o", out)
        rows.append([line.split("\t") for line in out.read_text().splitlines()])
    plain, translated = rows
    assert {(*row[10:],) for row in plain} == {("NaN", "NaN")}
    assert all(int(row[8]) < int(row[9]) for row in translated)
    assert {int(row[6]) < int(row[7]) for row in translated} == {True, False}


def hits(tmp_path, *sources):
    out = tmp_path / "hits.tsv"
    assert storewise("convert", *sources, "--to", "hits", "-j", "1", "-o", out).returncode == 0
    return [line.split("\t") for line in out.read_text().splitlines()]


def test_identical_columns_are_counted_where_the_program_rounds_down(tmp_path):
    """With -XI it prints 0.999 for 2,099 of 2,100."""
    (row,) = hits(tmp_path, DATA / "ssearch36_identity_floor.m10")
    assert (row[3], row[4], row[5]) == ("2100", "1", "0")


def test_each_hit_has_the_strand_of_its_own_program(tmp_path):
    """The second search of the file is one of fastx36, whose query is translated."""
    content = (DATA / "mixed_programs.m10").read_bytes()
    alone = tmp_path / "fastx.m10"
    alone.write_bytes(content[content.index(b"# fastx36") :])
    mixed = hits(tmp_path, DATA / "mixed_programs.m10")
    assert mixed[1:] == hits(tmp_path, alone)
    assert [int(row[6]) < int(row[7]) for row in mixed] == [True, False, True]
    assert all(int(row[8]) < int(row[9]) for row in mixed)


def test_a_query_without_a_name_is_called_by_its_place(tmp_path):
    content = (DATA / "ssearch36_list.m10").read_bytes()
    unnamed = tmp_path / "unnamed.m10"
    unnamed.write_bytes(re.sub(rb"(?m)^( +[0-9]>>>).*(?= - )", rb"\1", content))
    assert [row[0] for row in hits(tmp_path, unnamed)] == ["Query_1", "Query_3"]


def test_directories_and_lists_are_inputs_too(tmp_path):
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    for path in SMALL[:2]:
        (outputs / path.name).symlink_to(path)
    (tmp_path / "names.list").write_text(f"{SMALL[0]}\n")
    assert len(storewise("inspect", outputs).stdout.splitlines()) == 2
    assert len(storewise("inspect", f"@{tmp_path / 'names.list'}", outputs).stdout.split("\n")) == 4
    done = storewise("inspect", tmp_path / "none.m10")
    assert done.returncode == 1
    assert '"complete":false' in done.stdout
    request = ("convert", outputs, "--to", "jsonl", "-j", "1", "-o", tmp_path / "documents")
    assert len(storewise(*request).stdout.splitlines()) == 8
    done = storewise("convert", SMALL[0], "--to", "hits", "-o", tmp_path / "hits.xls")
    assert done.returncode == 2
    assert "hits.parquet, hits.tsv, hits.csv" in done.stderr
