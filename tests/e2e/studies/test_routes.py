"""Other ways through the workflow: from FASTA, on one host, a full disk."""

import json
import shutil
import subprocess

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

    # A library that cannot be searched, in the job that reads it; others: ssearch/test_search.py.
    (place.directory / "queries.txt").write_text("this is no sequence\n")
    place.write_study(SEARCH.format(library="queries.txt"))
    shutil.rmtree(place.results)
    result = place.snakemake()
    text = result.stdout + result.stderr
    assert result.returncode != 0
    assert "queries.txt" in text and "FASTA" in text and "Traceback" not in text
    assert not list(place.results.glob("search/outputs/*.m10*"))


@pytest.mark.slow
@pytest.mark.needs("root")
def test_a_full_disk_is_named_and_nothing_is_corrupted(small_disk, place):
    """All that Snakemake measures lies on a file system of a few MB."""
    disk = small_disk("3m")
    place.results.mkdir(parents=True)
    (place.results / "trials").symlink_to(disk)
    large = sorted(SAMPLE.glob("*.m10.*"), key=lambda path: -path.stat().st_size)[:6]
    place.copy_inputs(large)
    place.write_study("""\
inputs: {paths: data}
engines: [sqlite]
phases: [write, read: {operations: 100}]
""")
    result = place.snakemake()
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert "storewise: trial sqlite-" in text
    assert "full" in text or "No space left" in text
    assert place.left_behind() == []
    assert not list(place.results.glob("trials/*/*.parquet"))
    subprocess.run(["mount", "-o", "remount,size=500m", str(disk)], check=True)
    done(place.snakemake("--omit-from", "analyse"))
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
