"""`storewise convert --to hits` beside the table that ssearch36 writes of the same search."""

import csv
import gzip
import subprocess

import pytest
from support.commands import storewise
from support.needs import program
from support.paths import SAMPLE


def searched(directory, query, library, *options):
    """The rows of ``-m 8``, and in ``out.m10`` the same search with ``-m 10``."""
    (directory / "q.fa").write_text(query)
    (directory / "l.fa").write_text(library)
    both = ("-m", "F10 out.m10", "-m", "F8 out.m8")
    command = [program("ssearch36"), "-q", "-H", *options, *both, "q.fa", "l.fa"]
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    return list(csv.reader((directory / "out.m8").open(), delimiter="\t"))


def sequences(name, count):
    with gzip.open(SAMPLE / "fasta" / f"{name}.fa.gz", "rt") as file:
        records = file.read().split(">")[1:]
    return "".join(f">{record}" for record in records[:count])


PROTEINS = (
    ">p1 long\nMKVLAADTWGQRNPSFYHICEMSTNPKPQRKTKRNTNRRPQDVKFPGGGQIVGGVYLLPRRGPRLGVRATRKT\n",
    ">s1\nMKVLADTWGQRRNPSFYHICEMSTNPKPQRKTKRNTYRRPQDVKFPGQIVGGVYLPRRGPRLGVRA\n"
    ">s2\nMSTNPKPQRKTKRNTNRRPQDVKFPGGGQIVGGVYLLPRRGPR\n",
)


@pytest.mark.needs("ssearch36")
@pytest.mark.parametrize("molecules", ["nucleotides", "proteins"])
def test_all_twelve_columns_are_those_of_the_program(tmp_path, molecules):
    query, library, option = *PROTEINS, "-p"
    if molecules == "nucleotides":
        query, library, option = sequences("queries", 6), sequences("arabidopsis", 60), "-n"
    theirs = searched(tmp_path, query, library, option, "-E", "1000000000 -1")
    for form in ("tsv", "csv"):
        request = ("convert", "out.m10", "--to", "hits", "-j", "1", "-o", f"hits.{form}")
        done = storewise(*request, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    ours = list(csv.reader((tmp_path / "hits.tsv").open(), delimiter="\t"))
    more = list(csv.DictReader((tmp_path / "hits.csv").open()))
    assert len(ours) == len(theirs) == len(more) > 1
    minus = 0
    for hit, row, its in zip(ours, more, theirs, strict=True):
        gaps, length, mismatch = int(row["gaps"]), int(hit[3]), int(hit[4])
        identical = length - gaps - mismatch
        assert hit[:2] == its[:2]
        assert float(hit[2]) == pytest.approx(100 * identical / length, abs=0.00051)
        # The program leaves gaps out of length and identity, and counts their columns.
        assert (f"{100 * identical / (length - gaps):.2f}", length - gaps) == (its[2], int(its[3]))
        assert (mismatch, gaps) == (int(its[4]), int(its[5]))
        assert (int(hit[5]) == 0) == (gaps == 0)
        assert int(hit[5]) <= gaps
        # It turns the query round on the minus strand, BLAST turns the subject.
        q_start, q_end, s_start, s_end = map(int, its[6:10])
        if q_start > q_end:
            q_start, q_end, s_start, s_end = q_end, q_start, s_end, s_start
            minus += 1
        assert list(map(int, hit[6:10])) == [q_start, q_end, s_start, s_end]
        assert row["sstrand"] == ("minus" if s_start > s_end else "plus")
        assert [float(word) for word in hit[10:]] == [float(word) for word in its[10:]]
    assert (minus > 0) == (molecules == "nucleotides")
