"""How a job of several workers finds its hosts, and how their results are awaited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.fake_time import FakeTime

from storewise.atomic import read_as
from storewise.driver.phase_job import PhaseJob, as_order, await_files, hosts_of_job, launch_command
from storewise.errors import Aborted, StorewiseError
from storewise.study.trial import Phase, Trial


def programs(directory: Path, *names: str) -> str:
    directory.mkdir()
    for name in names:
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    return str(directory)


def test_hosts_are_those_of_the_scheduler(tmp_path: Path) -> None:
    listing = tmp_path / "nodefile"
    listing.write_text("n1\nn1\nn2\n")
    assert hosts_of_job({}) == 1
    assert hosts_of_job({"PBS_NODEFILE": str(listing)}) == 2


def test_each_scheduler_has_its_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = programs(tmp_path / "bin", "srun", "pbsdsh")
    monkeypatch.setenv("PATH", path)
    program = Path("/live/jobs/read.0.sh")
    slurm = launch_command({"SLURM_JOB_ID": "7"}, 3, program)
    assert slurm[0] == f"{path}/srun"
    assert {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--overlap"} < set(slurm)
    assert launch_command({"PBS_JOBID": "7.login"}, 3, program) == [
        f"{path}/pbsdsh",
        "--",
        str(program),
    ]
    with pytest.raises(StorewiseError, match="neither srun nor pbsdsh"):
        launch_command({}, 3, program)


def test_an_order_is_read_again_as_it_was(tmp_path: Path) -> None:
    trial = Trial(
        study="s",
        id="sqlite-w4-r1-0",
        engine="sqlite",
        workload="alignments",
        repeat=1,
        seed=7,
        factors={"engine": "sqlite", "workers": 4},
        workers=4,
        phases=[Phase(name="write"), Phase(name="read", params={"operations": 5})],
    )
    job = PhaseJob(
        trial=trial,
        phase="read",
        first=2,
        per_job=2,
        results=tmp_path,
        session=tmp_path / "live" / "session.json",
        logs=tmp_path / "logs",
        served=False,
        loads=False,
        shards=None,
        inputs=(tmp_path / "a",),
    )
    order = tmp_path / "order.json"
    order.write_text(as_order(job))
    assert read_as(PhaseJob, order) == job
    assert list(job.share.members(job.first)) == [2, 3]
    assert job.earlier == ["write"]


def test_files_of_other_hosts_are_awaited(tmp_path: Path) -> None:
    time, late = FakeTime(), tmp_path / "write.1.parquet"
    time.after(30, late.touch)
    await_files([late], lambda: None, clock=time.clock, sleep=time.sleep)
    assert 1030 <= time.now < 1031


def test_a_file_that_never_comes_is_named(tmp_path: Path) -> None:
    time, lost = FakeTime(), tmp_path / "write.1.parquet"
    with pytest.raises(StorewiseError, match=r"write\.1\.parquet.*all hosts share"):
        await_files([lost], lambda: None, clock=time.clock, sleep=time.sleep)
    assert 1120 <= time.now < 1125


def test_the_wait_ends_with_the_trial(tmp_path: Path) -> None:
    def check() -> None:
        raise Aborted("data0 failed")

    with pytest.raises(Aborted, match="data0 failed"):
        await_files([tmp_path / "write.1.parquet"], check, sleep=lambda _: os.abort())
