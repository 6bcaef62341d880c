"""The bundled sample: real, within its bounds, and made again with the same alignments."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from storewise.documents import Document
from storewise.ssearch.manifest import build_manifest, list_inputs
from storewise.ssearch.reader import DocumentReader
from storewise.ssearch.scan import scan_file
from storewise.ssearch.search import run_search, split_fasta
from storewise.ssearch.stream import open_input

SAMPLE = Path(__file__).parents[1] / "resources" / "sample"
OUTPUTS = sorted(SAMPLE.glob("*.m10.*"))


def need(program: str) -> None:
    if shutil.which(program) is None:
        if os.environ.get("STOREWISE_REQUIRE_ALL") == "1":
            pytest.fail(f"{program} is needed and not installed (Debian: fasta3)")
        pytest.skip(f"{program} is not installed")


def content(path: Path) -> bytes:
    with open_input(path) as stream:
        return b"".join(iter(lambda: stream.read(1 << 20), b""))


def test_size_and_number(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: path.name)
def test_outputs_name_no_place(path: Path) -> None:
    argv = re.findall(rb"^# (.*)$", content(path), re.MULTILINE)
    assert argv
    for command in argv:
        assert re.fullmatch(
            rb'ssearch36 -Q -H -m 10 -W 0 -E "1000000000 -1" queries_\d\d\.fa \w+\.fa', command
        )


def alignments(path: Path) -> Counter[tuple[object, ...]]:
    """What an alignment is, apart from ids and from the statistics.

    ssearch36 estimates its statistics from scores of randomly drawn and shuffled sequences: bits,
    e-values and the order of hits differ from run to run, the alignments do not.
    """
    rna: dict[object, Document] = {}
    gs: dict[object, Document] = {}
    found: Counter[tuple[object, ...]] = Counter()
    for batch in DocumentReader(path, scan_file(path).digest):
        rna |= {document["_id"]: document for document in batch.rna}
        gs |= {document["_id"]: document for document in batch.gs}
        for align in batch.align:
            query, library = rna[align["rna"]], gs[align["gs"]]
            found[
                (
                    *(align[key] for key in ("q", "gene", "chr", "f", "s_w", "p", "i", "si", "o")),
                    *(query[key] for key in ("b", "e", "s")),
                    *(library[key] for key in ("seqid", "b", "e", "s")),
                )
            ] += 1
    return found


@pytest.mark.parametrize("number, library", [(1, "orchids"), (4, "yersinia"), (15, "arabidopsis")])
def test_one_file_made_again(tmp_path: Path, number: int, library: str) -> None:
    need("ssearch36")
    part = split_fasta(SAMPLE / "fasta" / "queries.fa.gz", tmp_path, 4)[number - 1]
    kept = next(SAMPLE.glob(f"queries_{number:02}__{library}.m10.*"))
    made = tmp_path / "made.m10.gz"
    run_search(part, SAMPLE / "fasta" / f"{library}.fa.gz", made)
    expected = alignments(kept)
    assert sum(expected.values()) == scan_file(kept).alignments
    assert alignments(made) == expected


def test_genes_and_chromosomes_are_found() -> None:
    genes, chromosomes = set(), set()
    for path in SAMPLE.glob("queries_01__*.m10.*"):
        for batch in DocumentReader(path, scan_file(path).digest):
            genes |= {align["gene"] for align in batch.align}
            chromosomes |= {align["chr"] for align in batch.align}
    assert {"rbcL", "psbA", "T25K16.1", "5.8S rRNA", "pla"} <= genes
    assert {"Pltd", "1", "pPCP1", None} == chromosomes


def test_fasta_is_packed_without_time() -> None:
    for path in (SAMPLE / "fasta").glob("*.gz"):
        packed = path.read_bytes()
        assert packed[4:8] == bytes(4), "a time in the gzip header changes the file at each making"
        assert gzip.decompress(packed).startswith(b">")
