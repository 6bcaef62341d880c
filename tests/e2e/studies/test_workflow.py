"""The workflow as a user meets it: what is planned, what is rerun, what is refused, on a copy of
the study of embedded stores; Snakemake in this process."""

import json
import os
import re
import shutil

import pytest
from support.embedded_study import EMBEDDED, POSTGRES
from support.paths import SMALL
from support.workflow import MEASURING, edited_workflow, plan, refusal, snakemake

pytestmark = [
    pytest.mark.xdist_group("embedded"),
    pytest.mark.long("the first of them measures the whole study for all others", limit=900),
]


def changed(*changes):
    """The text of the study with other words."""
    text = EMBEDDED
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def measuring(jobs):
    return {name: number for name, number in jobs.items() if name in MEASURING}


def test_touched_inputs_and_a_second_parse_plan_nothing(copy):
    for path in (copy.directory / "data").iterdir():
        path.touch()
    (copy.directory / "s.yaml").touch()
    assert plan(copy) == {}


def test_analysis_never_plans_a_measuring_rule(copy):
    for path in [*(copy.directory / "data").iterdir(), *copy.results.glob("inputs/*.parquet")]:
        path.touch()
    copy.write_study(changed(("verify: 20", "verify: 60"), ("100, steps", "700, steps")))
    snakefile = edited_workflow(copy)

    for target in ("analysis", "report"):
        assert plan(copy, target, snakefile=snakefile) == {target: 1}
    shutil.rmtree(next(copy.results.glob("trials/files-w1-*")))
    assert plan(copy, "analysis", snakefile=snakefile) == {"analysis": 1}


def test_snakemake_makes_its_own_report_with_our_captions(copy):
    done = snakemake(copy.command("--report", "snakemake.html"), copy.directory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Documents per second" in (copy.directory / "snakemake.html").read_text()


def test_what_is_new_is_measured_alone(copy, monkeypatch):
    """An engine, a level and a repeat at once: all but the four trials that are there."""
    more = changed(
        ("sqlite, parquet, postgres]", "sqlite, duckdb, parquet, postgres]"),
        ("[1, 2]", "[1, 2, 3]"),
        ("repeats: 1", "repeats: 2"),
        ("exclude:", "exclude:\n  - {workers: 3, index: before}"),
    )
    copy.write_study(more)
    jobs = plan(copy)
    # null, files and parquet with 1 and 3 workers, SQLite with 2 and 3, DuckDB with all three.
    assert jobs["open_session"] == jobs["verify"] == 2 * (4 * 2 + 3) - 4
    # PostgreSQL, once the host has it.
    copy.write_study(EMBEDDED)
    monkeypatch.delenv(POSTGRES)
    monkeypatch.setattr("storewise.run.doctor.missing_engines", lambda names: {})
    assert measuring(plan(copy)) == {"open_session": 1, "load": 1, "phase": 2, "verify": 1}


def test_new_files_are_found_when_the_manifest_is_renewed(copy):
    before = copy.documents()
    larger = sorted(SMALL[0].parent.glob("*.m10.*"), key=lambda p: p.stat().st_size)[-1]
    shutil.copy(larger, copy.directory / "data")
    assert plan(copy) == {}
    # Asked for up to the manifest: the trials are not of interest here.
    target = f"{copy.results.relative_to(copy.directory)}/inputs/manifest.parquet"
    done = snakemake(copy.command("-R", "manifest", "--", target), copy.directory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert copy.documents() > before
    assert plan(copy)["load"] == 5


def test_a_part_of_a_trial_is_refused(copy):
    trial = next(copy.results.glob("trials/sqlite-w2-*"))
    for path in trial.glob("*.parquet"):
        path.unlink()
    said = refusal(copy, f"results/s/trials/{trial.name}/write.0.parquet")
    assert "a trial is measured whole" in said


#: Makes DuckDB refuse to open any file, in every process that a test starts with it.
BROKEN_DUCKDB = """
import duckdb
in_memory = duckdb.connect
def connect(place, *args, **options):
    if place == ":memory:":
        return in_memory(place, *args, **options)
    raise duckdb.IOException("the disk is broken")
duckdb.connect = connect
"""


@pytest.mark.slow  # what is planned and tried again: test_goes_on.py
def test_a_failing_engine_is_given_up_and_the_report_made(copy):
    with_duckdb = changed(("sqlite, parquet", "sqlite, duckdb, parquet"))
    copy.write_study(with_duckdb.replace("exclude:", "exclude:\n  - {engine: duckdb, workers: 2}"))
    broken = copy.directory / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(BROKEN_DUCKDB)
    path = os.pathsep.join([str(broken), os.environ.get("PYTHONPATH", "")])
    done = copy.storewise("run", "s.yaml", env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "Next: storewise run s.yaml --retry-failed"
    fails = [line for line in lines if line.startswith("FAIL DuckDB, 1 worker")]
    assert len(fails) == 2 and all("the disk is broken" in line for line in fails)
    assert any(line.startswith("     | ") for line in lines)
    assert not re.search(r"Traceback|WorkflowError|Job \d+|\x1b", done.stdout + done.stderr)
    (path,) = copy.results.glob("trials/*/failed.json")
    failure = json.loads(path.read_text())
    assert failure["attempts"] == 2 and failure["log_tail"]
    page = (copy.results / "report.html").read_text()
    assert failure["trial"] in page and "the disk is broken" in page
    # It stays given up until it is asked for again, with what made it fail mended.
    assert plan(copy) == {}
    again = copy.storewise("run", "s.yaml", "--retry-failed", "--", "--omit-from", "analyse")
    assert again.returncode == 0, again.stdout + again.stderr
    assert list(copy.results.glob("trials/*/failed.json")) == []
    assert list(copy.results.glob(f"trials/{failure['trial']}/verify.parquet"))
