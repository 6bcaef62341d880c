"""The scan of new outputs of the installed programs, equal to the full parse."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.inputs.scans import content, parsed
from support.paths import ROOT

from storewise.ssearch.inputs.scan import scan_file

pytestmark = pytest.mark.needs("ssearch36")  # and its siblings, of one package

SAMPLE = ROOT / "resources" / "sample"

PROTEIN = (
    ">prot1 first\nMKLVWTRHGGSLKPAAYDEQRMWVHNNRTLE\n>prot2 other\nMSTNPKPQRKTKRNTNRRPQDVKFPGG\n"
)

PROGRAMS = {
    "every alternative": ["ssearch36", "-Q", "-H", "-m", "10", "-W", "0", "-E", "1000000000 1.0"],
    "no hit": ["ssearch36", "-Q", "-H", "-m", "10", "-E", "1e-200 -1"],
    "no statistics": ["ssearch36", "-Q", "-H", "-m", "10", "-z", "-1", "-b", "20"],
    "context": ["ssearch36", "-Q", "-m", "10", "-E", "10 0.1"],
    "heuristic": ["fasta36", "-Q", "-H", "-m", "10", "-E", "100"],
    "local": ["lalign36", "-Q", "-m", "10", "-E", "10"],
    "translated": ["tfastx36", "-Q", "-H", "-m", "10", "-E", "1000000"],
}


@pytest.fixture(scope="module")
def fasta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fasta")
    for name in ("queries", "yersinia"):
        (place / f"{name}.fa").write_bytes(content(SAMPLE / "fasta" / f"{name}.fa.gz"))
    lines = (place / "queries.fa").read_text().split(">")
    (place / "few.fa").write_text(">" + ">".join(lines[1:4]))
    (place / "protein.fa").write_text(PROTEIN)
    return place


def output_of(case: str, fasta: Path) -> bytes:
    command = PROGRAMS[case]
    query = "protein.fa" if case == "translated" else "few.fa"
    return subprocess.run(
        [*command, query, "yersinia.fa"], cwd=fasta, check=True, capture_output=True
    ).stdout


@pytest.mark.parametrize("case", PROGRAMS)
def test_scan_agrees_with_the_reader_on_new_outputs(tmp_path: Path, fasta: Path, case: str) -> None:
    data = output_of(case, fasta)
    path = tmp_path / "one.m10"
    path.write_bytes(data)
    result = scan_file(path)
    assert (result.queries, result.hits, result.alignments) == parsed(path)
    assert result.queries == (2 if case == "translated" else 3)
    if case == "every alternative":
        assert result.hits is not None and result.alignments is not None
        assert result.alignments > result.hits
    # Several searches in one file, as `cat` makes them.
    path.write_bytes(data * 3)
    again = scan_file(path)
    assert (again.queries, again.hits, again.alignments) == parsed(path)
    assert result.queries is not None and again.queries == 3 * result.queries
