"""Tables of BLAST through the whole workflow, with questions of the study's own."""

import gzip
import json

import pyarrow.parquet as pq
import pytest
from support.paths import DATA
from support.workspace import Workspace

TABLES = DATA / "tables"
STUDY = """\
inputs: {{paths: data, format: {form}}}
engines: [{engines}]
factors: {{index: [after]}}
questions:
  long: {{where: ["o > 60", "q = :q"], values: {{q: q}}, order: b, limit: 5}}
  queries: {{where: ["e < 1e-5"], group: q}}
verify: 50
phases:
  - write: {{batch_size: 100, leave: 0.3}}
  - read: {{operations: 20}}
  - query: {{operations: 10, questions: [best_hits, strong_hits, bits_histogram, long, queries]}}
  - mixed: {{operations: 10, batch_size: 20}}
"""
CELLS = [
    pytest.param("blast7", ["blast_blastp.fmt7", "blast_tblastn.fmt7"], ["sqlite", "duckdb"]),
    pytest.param(
        "fasta8",
        ["fasta36_ssearch_p.m8"],
        ["postgres"],
        marks=[pytest.mark.all_cells, pytest.mark.needs("postgres")],
    ),
    pytest.param(
        "mmseqs2",
        ["mmseqs_p.m8", "mmseqs_p.fmt4"],
        ["mariadb"],
        marks=[pytest.mark.all_cells, pytest.mark.needs("mariadb")],
    ),
]


@pytest.mark.long("each store is measured, and verified against a fresh parse", limit=400)
@pytest.mark.parametrize(("form", "files", "engines"), CELLS)
def test_tables_are_stored_asked_and_verified(tmp_path, form, files, engines):
    place = Workspace(tmp_path)
    inputs = place.copy_inputs([])
    for name in files:
        content = gzip.decompress((TABLES / f"{name}.gz").read_bytes())
        (inputs / name).write_bytes(content)
        if len(files) == 1:  # a mixed phase needs a file that the load leaves
            (inputs / "more").write_bytes(content.replace(b"\n", b"0\n"))
    place.write_study(STUDY.format(form=form, engines=", ".join(engines)))
    done = place.storewise("run", "s.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = pq.read_table(place.results / "inputs" / "manifest.parquet")
    assert set(manifest["format"].to_pylist()) == {form}
    counts = place.counts()
    assert [name.split("-")[0] for name in sorted(counts)] == sorted(engines)
    verdict = json.loads((place.results / "analysis" / "verdict.json").read_text())
    assert {"load", "read", "scan"} <= {one["name"] for one in verdict["criteria"]}
    page = (place.results / "report.html").read_text()
    searches = "sequence searches (format fasta8) [1]" if form == "fasta8" else f"(format {form})."
    for words in (">queries<", ">long<", searches):
        assert words in page
    assert ("end not visible" in page) == (form != "blast7")


def test_what_tables_do_not_allow_is_said_when_the_study_is_read(tmp_path):
    place = Workspace(tmp_path)
    inputs = place.copy_inputs([])
    name = "blast_blastp.fmt7"
    (inputs / name).write_bytes(gzip.decompress((TABLES / f"{name}.gz").read_bytes()))
    text = STUDY.format(form="blast7", engines="sqlite")
    place.write_study(text.replace("questions: [best_hits,", "questions: [gene_hits,"))
    done = place.storewise("run", "s.yaml", "--dry-run")
    assert done.returncode != 0
    assert "question 'gene_hits' is about genes, which" in done.stderr
    assert "needs a column `stitle`; ask `questions: [best_hits" in done.stderr
    # Files of two formats.
    (inputs / "f.m8C").write_bytes(
        gzip.decompress((TABLES / "fasta36_ssearch_p.m8C.gz").read_bytes())
    )
    place.write_study(text.replace(", format: blast7", ""))
    done = place.storewise("run", "s.yaml")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "the inputs have several formats: blast7" in said and "fasta8c" in said


def test_init_writes_a_study_for_tables(tmp_path):
    place = Workspace(tmp_path)
    inputs = place.copy_inputs([])
    name = "fasta36_ssearch_p.m8"
    (inputs / name).write_bytes(gzip.decompress((TABLES / f"{name}.gz").read_bytes()))
    done = place.storewise("init", str(inputs), "-o", "s.yaml")
    assert done.returncode != 0 and "--format fasta8" in done.stderr
    done = place.storewise("init", str(inputs), "-o", "s.yaml", "--format", "fasta8")
    assert done.returncode == 0, done.stderr
    text = (place.directory / "s.yaml").read_text()
    assert "\n  format: fasta8\n" in text and "gene_hits" not in text
