"""Several workers of a phase in one job: as many results as without, and one end for all."""

import json
import os
import signal

import psutil
import pytest
from support.waiting import wait_until
from support.workflow import planned, snakemake
from support.workspace import Workspace

STUDY = """\
inputs: {paths: data}
engines: [sqlite]
factors: {workers: 3}
workers_per_job: 2
phases:
  - write: {batch_size: 500}
  - read: {operations: 500}
verify: 50
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    place = Workspace(tmp_path_factory.mktemp("shared"))
    place.copy_inputs()
    place.write_study(STUDY)
    done = place.snakemake("--omit-from", "analyse")
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = planned(done.stdout + done.stderr)
    assert (jobs["load"], jobs["phase"]) == (2, 2), "two jobs a phase for three workers"
    return place


def test_each_worker_has_its_results_and_each_document_is_counted(measured):
    (trial,) = (measured.results / "trials").iterdir()
    parts = {path.name for path in trial.glob("*.[0-9].parquet")}
    assert parts == {f"{p}.{k}.parquet" for p in ("write", "written", "read") for k in range(3)}
    index = (trial / "write.0.workers").read_text().split()
    assert sorted(index) == sorted(
        f"{name.format(k)}"
        for k in (0, 1)
        for name in ("write.{}.parquet", "write.{}.hlog", "written.{}.parquet")
    )
    expected = measured.documents()
    assert list(measured.counts().values()) == [(expected, expected)]
    assert not list(trial.glob("store.*")), "stores are temporary"
    assert measured.left_behind() == []


def test_a_lost_result_of_one_worker_is_measured_again(measured):
    (trial,) = (measured.results / "trials").iterdir()
    part = trial / "read.1.parquet"
    content = part.read_bytes()
    part.unlink()
    try:
        done = snakemake(measured.command("-n"), measured.directory)
        said = done.stdout + done.stderr
        assert planned(said)["load"] == 2
        assert "read.0.workers named a result that is not there" in said
    finally:
        part.write_bytes(content)


@pytest.mark.slow
def test_a_killed_worker_ends_its_job_and_the_trial(tmp_path):
    place = Workspace(tmp_path)
    place.copy_inputs()
    place.write_study(STUDY.replace("{operations: 500}", "{seconds: 300}"))
    run = place.start()
    wait_until(lambda: place.working("read.1") or run.poll() is not None, 240, "a reader at work")
    worker = place.members()["read.1"]
    parent = psutil.Process(worker).parent()
    assert parent.pid == place.members()["read.0.workers"]
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not place.processes(), 60, "the end of all processes")
    assert run.wait() != 0
    (failures,) = place.results.glob("failures/*.jsonl")
    reason = json.loads(failures.read_text().splitlines()[-1])["reason"]
    assert reason.startswith("read.1 (pid"), reason
    assert "was ended by SIGKILL" in reason
    assert place.left_behind() == []
