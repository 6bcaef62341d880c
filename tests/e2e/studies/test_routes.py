"""Other ways through the workflow: from FASTA, quarantine, several processes, kept stores, a full
disk, and the commands around it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from support.paths import ROOT, SAMPLE, SMALL
from support.workspace import Workspace

from storewise.ssearch.stream import open_input

REQUIRED = os.environ.get("STOREWISE_REQUIRE_ALL") == "1"


@pytest.fixture
def place(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


SEARCH = """\
inputs:
  search:
    queries: queries.fa.gz
    libraries: [{library}]
    queries_per_file: 2
    jobs: 2
engines: [sqlite]
phases: [write, read: {{operations: 100}}]
"""


def fasta(place: Workspace) -> None:
    """Six queries and a library of the sample."""
    source = sorted((SAMPLE / "fasta").glob("queries*"))[0]
    shutil.copy(source, place.directory / "queries.fa.gz")
    library = next((SAMPLE / "fasta").glob("*yersinia*"))
    shutil.copy(library, place.directory / "library.fa.gz")


def test_from_fasta_to_a_report(place: Workspace) -> None:
    if shutil.which("ssearch36") is None:
        assert not REQUIRED, "ssearch36 is missing (Debian: fasta3)"
        pytest.skip("ssearch36 is missing")
    fasta(place)
    place.write_study(SEARCH.format(library="library.fa.gz"))
    done(place.snakemake())
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
    done(place.snakemake())
    assert {path: path.stat().st_mtime_ns for path in outputs} == before


@pytest.mark.parametrize(
    ("library", "words"),
    [("missing.fa", "missing.fa"), ("empty.fa", "empty"), ("queries.txt", "FASTA")],
)
def test_a_library_that_cannot_be_searched(place: Workspace, library: str, words: str) -> None:
    if shutil.which("ssearch36") is None:
        assert not REQUIRED, "ssearch36 is missing (Debian: fasta3)"
        pytest.skip("ssearch36 is missing")
    fasta(place)
    (place.directory / "empty.fa").touch()
    (place.directory / "queries.txt").write_text("this is no sequence\n")
    place.write_study(SEARCH.format(library=library))
    result = place.snakemake()
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert library in text
    assert words in text
    assert "Traceback" not in text
    assert not list(place.results.glob("search/outputs/*.m10*"))


STUDY = """\
inputs: {paths: data}
engines: [sqlite, duckdb, parquet]
factors: {processes: 2, threads: 2}
indexes: [align.e, gs.seqid]
phases:
  - write: {batch_size: 200}
  - read: {operations: 200, steps: [{threads: 1}, {threads: 2, batch: 10}]}
"""


def test_several_processes_and_threads_steps_and_kept_stores(place: Workspace) -> None:
    place.copy_inputs()
    place.write_study(STUDY + "keep_data: true\nstudy_fields: true\n")
    done(place.snakemake())
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    kept = sorted(place.results.glob("trials/sqlite-*/store.0/p*"))
    assert [path.name for path in kept] == ["p0", "p1"]
    part = next(place.results.glob("trials/sqlite-*/read.0.parquet"))
    steps = duckdb.sql(f"select distinct step from '{part}' order by 1").fetchall()
    assert steps == [(0,), (1,)]
    assert not (place.results / "live").exists()


def test_quarantine_goes_on_without_bad_files_and_names_them(place: Workspace) -> None:
    inputs = place.copy_inputs()
    (inputs / "empty.m10").touch()
    whole = SMALL[0].read_bytes()
    (inputs / "cut.m10.gz").write_bytes(whole[: len(whole) // 2])
    shutil.copy(SMALL[1], inputs / "copy-of-another.m10.gz")
    place.write_study(STUDY.replace("[sqlite, duckdb, parquet]", "[sqlite]"))
    refused = place.snakemake()
    assert refused.returncode != 0
    assert "2 of" in refused.stdout + refused.stderr
    place.write_study(
        STUDY.replace("[sqlite, duckdb, parquet]", "[sqlite]") + "on_bad_input: quarantine\n"
    )
    done(place.snakemake())
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    listed = (place.results / "inputs" / "quarantine.tsv").read_text()
    page = (place.results / "report.html").read_text()
    for name in ("empty.m10", "cut.m10.gz"):
        assert name in listed
        assert name in page
    assert "copy-of-another" in page


@pytest.fixture
def small_disk(place: Workspace) -> Iterator[Workspace]:
    """A workspace whose results lie on a file system of a few MB."""
    if os.geteuid() != 0:
        assert not REQUIRED, "needs root to mount a small file system"
        pytest.skip("needs root to mount a small file system")
    mount = place.directory / "results" / "s" / "trials"
    mount.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(mount)]
    subprocess.run(command, check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


def test_a_full_disk_is_named_and_nothing_is_corrupted(small_disk: Workspace) -> None:
    place = small_disk
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
    subprocess.run(["mount", "-o", "remount,size=500m", str(place.results / "trials")], check=True)
    done(place.snakemake("--omit-from", "analyse"))
    assert set(place.counts().values()) == {(place.documents(), place.documents())}


def test_init_writes_a_study_that_runs(place: Workspace) -> None:
    inputs = place.copy_inputs([])
    for path in SMALL[:3]:
        # Plain text, as ssearch36 writes it.
        with open_input(path) as stream, (inputs / path.stem).open("wb") as plain:
            while data := stream.read(1 << 20):
                plain.write(data)
    done(place.storewise("init", str(inputs), "-o", "mine.yaml"))
    text = (place.directory / "mine.yaml").read_text()
    assert "# config/README.md explains every key." in text
    again = place.storewise("init", str(inputs), "-o", "mine.yaml")
    assert again.returncode == 2
    assert "--force" in again.stderr
    # As written it would take minutes; what is measured is the same with less of it.
    (place.directory / "small.yaml").write_text(
        "extends: mine.yaml\nengines: [parquet]\nfactors: {workers: 1}\nrepeats: 1\n"
        "phases: [write, read: {operations: 100}]\n"
    )
    said = place.storewise("run", "small.yaml")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "For these inputs, on this machine" in said.stdout
    assert said.stdout.strip().endswith("Report: results/small/report.html")


def test_every_command_shows_an_example(place: Workspace) -> None:
    listing = done(place.storewise("--help"))
    commands = [c for c in ("inspect", "convert", "manifest", "init", "run") if c in listing]
    assert len(commands) == 5
    for command in commands:
        assert "Example:" in done(place.storewise(command, "--help"))


def test_init_on_what_is_no_directory_of_outputs(place: Workspace) -> None:
    empty = place.directory / "empty"
    empty.mkdir()
    (empty / "a.txt").write_text("nothing")
    for directory, words in ((empty, "none of the first 1 files"), (ROOT / "no", "no such")):
        result = place.storewise("init", str(directory), "-o", "x.yaml")
        assert result.returncode == 2
        assert words in result.stderr
        assert "Traceback" not in result.stderr
    assert not (place.directory / "x.yaml").exists()


def test_snakemake_makes_its_own_report_with_our_captions(place: Workspace) -> None:
    place.copy_inputs()
    place.write_study("""\
inputs: {paths: data}
engines: [null, sqlite]
phases: [write, read: {operations: 100}]
""")
    done(place.snakemake())
    done(place.snakemake("--report", "snakemake.html"))
    page = (place.directory / "snakemake.html").read_text()
    assert "Documents per second" in page


def test_one_host_puts_the_phases_of_a_trial_into_one_job(place: Workspace) -> None:
    place.copy_inputs()
    text = STUDY.replace("[sqlite, duckdb, parquet]", "[sqlite]") + "embedded: one_host\n"
    place.write_study(text)
    done(place.snakemake("--omit-from", "analyse"))
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
