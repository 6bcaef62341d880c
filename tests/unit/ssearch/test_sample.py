"""The bundled sample: real, within its bounds, without a place or a time in it."""

import re

from support.inputs.ssearch import content
from support.paths import SAMPLE

from storewise.ssearch.inputs.manifest import build_manifest
from storewise.ssearch.inputs.paths import list_inputs
from storewise.ssearch.inputs.scan import scan_file
from storewise.ssearch.reader import DocumentReader

OUTPUTS = sorted(SAMPLE.glob("*.m10.*"))


def test_size_and_number(tmp_path):
    stored = sum(path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file())
    assert stored <= 3_000_000
    summary = build_manifest(list_inputs([str(SAMPLE / "*.m10.*")]), tmp_path / "m.parquet")
    assert summary.files == len(OUTPUTS) >= 12
    assert not summary.duplicates
    assert summary.documents is not None and summary.documents >= 30_000
    assert {path.suffix for path in OUTPUTS} == {".gz", ".zst"}
    readme = (SAMPLE / "README.md").read_text()
    assert f"| {summary.documents:,} " in readme
    assert f"| {summary.files}: " in readme


def test_genes_and_chromosomes_are_found():
    genes, chromosomes = set(), set()
    for path in SAMPLE.glob("queries_01__*.m10.*"):
        for batch in DocumentReader(path, scan_file(path).digest):
            genes |= {align["gene"] for align in batch.align}
            chromosomes |= {align["chr"] for align in batch.align}
    assert {"rbcL", "psbA", "T25K16.1", "5.8S rRNA", "pla"} <= genes
    assert {"Pltd", "1", "pPCP1", None} == chromosomes


def test_it_names_no_place_and_no_time():
    command = rb'# ssearch36 -Q -H -m 10 -W 0 -E "1000000000 -1" queries_\d\d\.fa \w+\.fa'
    for path in OUTPUTS:
        assert content(path).startswith(b"# ssearch36")
        assert all(re.fullmatch(command, one) for one in re.findall(rb"(?m)^# .*$", content(path)))
    # A time in the gzip header would change the file at each making.
    assert all(path.read_bytes()[4:8] == bytes(4) for path in (SAMPLE / "fasta").glob("*.gz"))
