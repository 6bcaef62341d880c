"""Several workers of a phase in one Slurm job, each on a host of its own."""

from __future__ import annotations

import pytest
from support.kills import SOON
from support.slurm.workspace import SlurmWorkspace
from support.waiting import exit_code, wait_until

from storewise.metrics.schema import read_conditions

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.all_cells]

STUDY = """\
workload: ycsb
engines: [sqlite]
retries: 0
factors: {workers: 3}
workers_per_job: 2
phases:
  - load: {recordcount: 300}
  - c: {seconds: 0.3}
"""


@pytest.mark.long("a run that is broken off, and a whole one after it", limit=900)
def test_each_worker_has_a_host_and_a_killed_one_ends_the_trial(place: SlurmWorkspace) -> None:
    place.write_study(STUDY.replace("seconds: 0.3", "seconds: 600, target: 20"))
    run = place.start()
    place.await_work(run, "c", 300)
    # A session's own process, and on each host of its job one for its worker.
    expected = {"c.0.workers", "c.0", "c.1", "c.2.workers", "c.2"}
    wait_until(lambda: expected <= set(place.job_members()), 60, "every worker")
    members = place.job_members()
    assert members["c.0"].host != members["c.1"].host
    worker = place.process(members["c.1"])
    assert worker is not None
    worker.kill()
    place.nothing_left(SOON)
    assert exit_code(run, SOON) != 0
    (reason,) = place.failures()
    assert reason == f"c.1 on host {members['c.1'].host} was ended by SIGKILL"

    place.write_study(STUDY)
    done = place.snakemake(timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    (trial,) = (place.results / "trials").iterdir()
    hosts = [read_conditions(trial / f"c.{k}.parquet")["host"]["name"] for k in range(3)]
    assert len(set(hosts[:2])) == 2
    assert place.left_behind() == []
    place.nothing_left(SOON)
