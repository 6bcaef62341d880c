"""A Slurm that lets a run wait: a partition that starts nothing, a controller that does not
answer."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from support.kills import SOON
from support.slurm.workspace import SlurmWorkspace
from support.waiting import exit_code, wait_until

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.all_cells]

STUDY = """\
workload: ycsb
engines: [sqlite]
factors: {workers: 2}
phases:
  - load: {recordcount: 20}
  - c: {seconds: 100, target: 20}
"""
#: Seconds for which the controller is silent.
SILENT = 60.0


@pytest.mark.long("the controller of Slurm is silent for a minute", limit=900)
def test_a_stopped_partition_and_a_silent_controller_cost_only_time(place: SlurmWorkspace) -> None:
    place.write_study(STUDY)
    (partition,) = {
        line.rstrip("*")
        for line in place.slurm.command("sinfo", "-ho", "%P").split()
        if "*" in line
    }
    place.slurm.command("scontrol", "update", f"PartitionName={partition}", "State=DOWN")
    run = place.start()
    wait_until(lambda: len(place.slurm.jobs("load")) == 2, 120, "two waiting jobs")
    assert {job.reason for job in place.slurm.jobs("load")} == {"PartitionDown"}
    place.slurm.command("scontrol", "update", f"PartitionName={partition}", "State=UP")
    # While workers work. A job that starts just then fails: srun cannot ask for its allocation.
    place.await_work(run, "c", 240)
    controller = int((place.slurm.directory / "slurmctld.pid").read_text())
    os.kill(controller, signal.SIGSTOP)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(SILENT)
    finally:
        os.kill(controller, signal.SIGCONT)
    assert exit_code(run, 600) == 0, place.output()
    place.nothing_left(SOON)
    assert place.failures() == []
    assert place.registered() == []
    assert place.left_behind() == []
