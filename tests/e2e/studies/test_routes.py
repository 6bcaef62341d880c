"""Other ways through the workflow: from FASTA, on one host, a full disk."""

import json
import shutil

import pytest
from support.paths import SAMPLE
from support.workspace import Workspace


@pytest.fixture
def place(tmp_path):
    return Workspace(tmp_path)


def done(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


SEARCH = """\
inputs:
  search:
    queries: queries.fa.gz
    libraries: [{library}]
    queries_per_file: 2
    jobs: 2
engines: [parquet]
factors: {{processes: 2, threads: 2}}
embedded: one_host
indexes: [align.e, gs.seqid]
study_fields: true
phases: [write, read: {{operations: 100}}]
"""


@pytest.mark.slow
@pytest.mark.needs("ssearch36")
def test_from_fasta_to_results_with_the_phases_of_a_trial_in_one_job(place):
    """With several processes, and the fields of the published study alone."""
    # Six queries and a library of the sample.
    source = sorted((SAMPLE / "fasta").glob("queries*"))[0]
    shutil.copy(source, place.directory / "queries.fa.gz")
    library = next((SAMPLE / "fasta").glob("*yersinia*"))
    shutil.copy(library, place.directory / "library.fa.gz")
    place.write_study(SEARCH.format(library="library.fa.gz"))
    done(place.snakemake("--omit-from", "analyse"))
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    outputs = sorted(place.results.glob("search/outputs/*.m10.gz"))
    assert outputs
    record = json.loads(outputs[0].with_name(f"{outputs[0].name}.json").read_text())
    assert record["version"].startswith("36.")
    assert "-m 10" in record["command"]
    assert not [p for p in place.results.glob("search/outputs/*") if p.is_dir()]
    # A lost list of outputs does not search again what is complete.
    before = {path: path.stat().st_mtime_ns for path in outputs}
    (place.results / "search" / "0.list").unlink()
    done(place.snakemake("--omit-from", "analyse"))
    assert {path: path.stat().st_mtime_ns for path in outputs} == before
