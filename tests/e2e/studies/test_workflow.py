"""The workflow as a user meets it: what is planned, what is rerun, what is refused; on one
small study of embedded stores that is measured once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.paths import SMALL
from support.workflow import MEASURING, edited_workflow, planned
from support.workspace import Workspace

from storewise.analysis.files.parts import trial_files
from storewise.metrics.pack import read_pack

STUDY = """\
inputs: {paths: data}
engines: [null, sqlite]
factors: {workers: [1, 2]}
exclude: [{engine: "null", workers: 2}]
phases:
  - write: {batch_size: 500}
  - read: {operations: 500}
verify: 50
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A small study, measured once by plain Snakemake, and then analysed by its target.

    No profile, no --cores: two workers and the trial that waits for them fit on two cores.
    """
    place = Workspace(tmp_path_factory.mktemp("measured"))
    place.copy_inputs()
    place.write_study(STUDY)
    bare = [a for a in place.command() if a != "--profile" and not a.endswith("profiles/local")]
    done = place.run([*bare, "--omit-from", "analyse"])
    assert done.returncode == 0, done.stdout + done.stderr
    done = place.snakemake("analysis")
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture
def copy(measured: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """The measured study in a directory of its own, with all times as they were."""
    place = Workspace(tmp_path / "copy")
    shutil.copytree(measured.directory, place.directory, symlinks=True)
    yield place


def plan(place: Workspace, *arguments: str) -> dict[str, int]:
    done = place.snakemake("-n", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return planned(done.stdout + done.stderr)


def test_every_document_is_counted_and_nothing_is_left(measured: Workspace) -> None:
    counts = measured.counts()
    assert len(counts) == 3
    for trial, result in counts.items():
        expected = measured.documents()
        assert result == ((0, 0) if trial.startswith("null") else (expected, expected))
    assert measured.left_behind() == []
    assert measured.processes() == []


def test_the_results_that_the_readme_names_are_there(measured: Workspace) -> None:
    for name in (
        "report.html",
        "summary.csv",
        "figures",
        "analysis",
        "trials",
        "inputs/manifest.parquet",
        "inputs/quarantine.tsv",
        "logs",
    ):
        assert (measured.results / name).exists(), name
    part = next(measured.results.glob("trials/sqlite-w2-*/read.1.parquet"))
    conditions = json.loads(pq.read_schema(part).metadata[b"storewise"])
    assert conditions["versions"]["sqlite.sqlite"]
    assert conditions["trial"]["factors"]["engine"] == "sqlite"


def test_each_trial_is_packed_for_the_analysis(measured: Workspace) -> None:
    trials = [trial_files(path) for path in measured.results.glob("trials/*")]
    assert trials
    for one in trials:
        parts = [name for name in one.parts if name.count(".") == 2]
        pack = read_pack(one.directory, parts, [log.name for log in one.logs])
        assert pack is not None
        assert list(pack.conditions) == parts


def test_touched_inputs_and_a_second_parse_plan_nothing(copy: Workspace) -> None:
    """Nor does the target `analysis`, which has made tables and page of the study."""
    for path in (copy.directory / "data").iterdir():
        path.touch()
    (copy.directory / "s.yaml").touch()
    assert plan(copy) == {}


def test_analysis_never_plans_a_measuring_rule(copy: Workspace) -> None:
    for path in [*(copy.directory / "data").iterdir(), *copy.results.glob("inputs/*.parquet")]:
        path.touch()
    copy.write_study(STUDY.replace("verify: 50", "verify: 60").replace("500}", "700}"))
    snakefile = edited_workflow(copy)

    def jobs_of(target: str) -> dict[str, int]:
        done = copy.run(copy.command("-n", target, snakefile=snakefile))
        assert done.returncode == 0, done.stdout + done.stderr
        jobs = planned(done.stdout + done.stderr)
        assert not MEASURING & set(jobs), jobs
        assert jobs["report"] == 1
        return jobs

    assert "analyse" in jobs_of("analysis")
    shutil.rmtree(next(copy.results.glob("trials/sqlite-w1-*")))
    assert "analyse" in jobs_of("analysis")
    assert "analyse" not in jobs_of("report")


def test_analysis_of_results_alone_in_an_empty_directory(copy: Workspace, tmp_path: Path) -> None:
    """What changed since is a warning, while a plain run would measure again."""
    place = Workspace(tmp_path / "empty")
    place.directory.mkdir()
    changed = STUDY.replace("operations: 500", "operations: 700")
    copy.write_study(changed)
    assert plan(copy)["load"] == 4
    place.write_study(changed)
    for name in ("trials", "inputs"):
        shutil.copytree(copy.results / name, place.results / name)
    done = place.snakemake("analysis")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place.results / "report.html").exists()
    assert "operations" in (place.results / "analysis" / "warnings.csv").read_text()
    assert place.snakemake("report").returncode == 0
    assert {p.name for p in place.results.glob("trials/*")} == {
        p.name for p in copy.results.glob("trials/*")
    }


def test_snakemake_makes_its_own_report_with_our_captions(copy: Workspace) -> None:
    done = copy.snakemake("--report", "snakemake.html")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Documents per second" in (copy.directory / "snakemake.html").read_text()


def test_what_is_new_is_measured_alone(copy: Workspace) -> None:
    """An engine, a level and a repeat at once: all but the three trials that are there."""
    more = STUDY.replace("[null, sqlite]", "[null, sqlite, parquet]").replace("[1, 2]", "[1, 2, 3]")
    copy.write_study(more + "repeats: 2\n")
    jobs = plan(copy)
    assert jobs["open_session"] == jobs["verify"] == 2 * (3 * 3 - 1) - 3


def test_a_lost_result_measures_its_whole_trial_again_and_no_other(copy: Workspace) -> None:
    next(copy.results.glob("trials/sqlite-w2-*/read.1.parquet")).unlink()
    jobs = plan(copy)
    assert {name: jobs[name] for name in sorted(MEASURING)} == {
        "load": 2,
        "open_session": 1,
        "phase": 2,
        "verify": 1,
    }


def test_new_files_are_found_when_the_manifest_is_renewed(copy: Workspace) -> None:
    before = copy.documents()
    larger = sorted(SMALL[0].parent.glob("*.m10.*"), key=lambda p: p.stat().st_size)[-1]
    shutil.copy(larger, copy.directory / "data")
    assert plan(copy) == {}
    # Asked for up to the manifest: the trials are not of interest here.
    target = f"{copy.results.relative_to(copy.directory)}/inputs/manifest.parquet"
    done = copy.snakemake("-R", "manifest", "--", target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert copy.documents() > before
    assert plan(copy)["load"] == 4


def test_a_part_of_a_trial_is_refused(copy: Workspace) -> None:
    trial = next(copy.results.glob("trials/sqlite-w2-*"))
    shutil.rmtree(trial)
    done = copy.snakemake(f"results/s/trials/{trial.name}/write.0.parquet")
    assert done.returncode != 0
    assert "a trial is measured whole" in done.stdout + done.stderr
    assert copy.left_behind() == []


def test_too_few_slots_are_refused_before_anything_starts(copy: Workspace) -> None:
    copy.write_study(STUDY.replace("[1, 2]", "[2, 9]"))
    done = copy.snakemake("--cores", "2")
    assert done.returncode != 0
    assert "9 workers" in done.stdout + done.stderr
    assert "--cores 5" in done.stdout + done.stderr
    assert copy.left_behind() == []


#: Makes DuckDB refuse to open anything, in every process that a test starts with it.
BROKEN_DUCKDB = """
import duckdb
def connect(*args, **options):
    raise duckdb.IOException("the disk is broken")
duckdb.connect = connect
"""


def test_a_failing_engine_is_given_up_and_the_report_made(copy: Workspace) -> None:
    with_duckdb = STUDY.replace("[null, sqlite]", "[null, sqlite, duckdb]")
    with_duckdb = with_duckdb.replace("exclude: [", "exclude: [{engine: duckdb, workers: 2}, ")
    copy.write_study(with_duckdb + "retries: 1\n")
    broken = copy.directory / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(BROKEN_DUCKDB)
    path = os.pathsep.join([str(broken), os.environ.get("PYTHONPATH", "")])
    done = copy.storewise("run", "s.yaml", env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "Page: results/s/report.html" in lines and "Log: results/s/logs/run.log" in lines
    assert lines[-1] == "Next: storewise run s.yaml --retry-failed"
    # A line for each attempt, its reason, and the end of its log; nothing of Snakemake.
    fails = [line for line in lines if line.startswith("FAIL DuckDB, 1 worker: write.0: ")]
    assert len(fails) == 2 and all("the disk is broken" in line for line in fails)
    assert any(line.startswith("     | ") for line in lines)
    assert not re.search(r"Traceback|WorkflowError|Job \d+|\x1b", done.stdout + done.stderr)
    log = (copy.results / "logs" / "run.log").read_text()
    assert log.count("Building DAG of jobs") == 3, "all passes are in it"
    failed = [json.loads(p.read_text()) for p in copy.results.glob("trials/*/failed.json")]
    (failure,) = failed
    assert failure["attempts"] == 2
    assert "the disk is broken" in failure["reason"] and failure["log_tail"]
    page = (copy.results / "report.html").read_text()
    assert failure["trial"] in page and "the disk is broken" in page
    assert copy.left_behind() == []
    # It stays given up until it is asked for again, with what made it fail mended.
    assert plan(copy) == {}
    again = copy.storewise("run", "s.yaml", "--retry-failed")
    assert again.returncode == 0, again.stdout + again.stderr
    assert list(copy.results.glob("trials/*/failed.json")) == []
    assert list(copy.results.glob(f"trials/{failure['trial']}/verify.parquet"))


@pytest.mark.needs("root")
def test_results_that_cannot_be_written_are_one_clear_error(copy: Workspace) -> None:
    shutil.rmtree(copy.results)
    copy.results.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(copy.results)]
    subprocess.run(mount, check=True)
    try:
        done = copy.snakemake()
    finally:
        subprocess.run(["umount", str(copy.results)], check=True)
    text = done.stdout + done.stderr
    assert done.returncode != 0
    assert "cannot be written" in text
    assert str(copy.results) in text
