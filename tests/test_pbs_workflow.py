"""The workflow through profiles/pbs and stand-ins for the commands of PBS."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import ROOT, Workspace, interrupt_group, wait_until
from pbs_standin import Config, Pbs

pytestmark = pytest.mark.e2e

STUDY = """\
inputs: {paths: data, jobs: 2}
engines: [sqlite]
factors: {workers: [2]}
phases:
  - write: {batch_size: 500}
  - read: {seconds: %s}
verify: 50
"""


class Cluster:
    """A workspace whose shell finds the stand-ins."""

    def __init__(self, directory: Path) -> None:
        self.place = Workspace(directory / "work")
        self.place.directory.mkdir()
        self.pbs = Pbs(directory / "pbs")
        commands = self.pbs.install(Config(start_delay=0.5))
        self.environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}

    def command(self, *arguments: str) -> list[str]:
        """Snakemake with the profile as it is, but for pauses that suit a test."""
        scripts = Path(sys.executable).parent
        return [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            str(ROOT / "Snakefile"),
            "--profile",
            str(ROOT / "profiles" / "pbs"),
            "--cluster-generic-status-cmd",
            f"{scripts}/storewise-pbs-status --every 1",
            "--seconds-between-status-checks",
            "1",
            "--config",
            f"study={self.place.study}.yaml",
            *arguments,
        ]

    def start(self) -> subprocess.Popen[str]:
        log = (self.place.directory / "snakemake.out").open("w")
        return subprocess.Popen(
            self.command(),
            cwd=self.place.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def names(self, states: str) -> list[str]:
        return [job["name"] for job in self.pbs.jobs().values() if job["state"] in states]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    found.place.copy_inputs()
    yield found
    alive = found.pbs.alive()
    if alive:
        subprocess.run(["qdel", *alive], env=found.environment, capture_output=True)
        wait_until(lambda: not found.pbs.alive(), 60, "the end of the stand-in's jobs")


@pytest.mark.slow
def test_a_study_runs_as_jobs_of_pbs(cluster: Cluster) -> None:
    place = cluster.place
    place.write_study(STUDY % 1)
    started = time.monotonic()
    done = place.run(cluster.command(), timeout=500, env=cluster.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"{time.monotonic() - started:.0f} s, {len(cluster.pbs.calls('qstat'))} qstat")
    [(expected, counted)] = place.counts().values()
    assert expected == counted == place.documents()
    assert place.left_behind() == []

    jobs = cluster.pbs.jobs().values()
    assert {job["state"] for job in jobs} == {"F"}
    assert {job["exit"] for job in jobs} == {0}
    rules = {job["name"].split("-")[0] for job in jobs}
    assert {"digest", "load", "phase", "verify"} <= rules
    assert "open_session" not in rules
    load = next(job for job in jobs if job["name"].startswith("load-"))
    assert load["resources"] == {
        "select": "1:ncpus=1:mem=2000mb",
        "place": "free",
        "walltime": "12:00:00",
    }
    assert Path(load["output"]).is_file()
    # The registry is empty, so that nothing would be cancelled.
    registry = place.directory / ".snakemake" / "storewise" / "jobs"
    assert [p.name for p in registry.glob("*/[0-9]*")] == []


@pytest.mark.slow
def test_ctrl_c_leaves_no_job(cluster: Cluster) -> None:
    place = cluster.place
    place.write_study(STUDY % 300)
    process = cluster.start()

    def readers() -> bool:
        assert process.poll() is None, place.output()
        return sum(name.startswith("phase-") for name in cluster.names("R")) == 2

    wait_until(readers, 400, "both readers at work")
    interrupt_group(process)
    since = time.monotonic()
    assert process.wait(90) != 0
    wait_until(lambda: not cluster.pbs.alive(), 60, "an empty queue")
    print(f"queue empty {time.monotonic() - since:.1f} s after Ctrl-C")
    assert time.monotonic() - since < 60
    wait_until(lambda: not place.processes(), 30, "the end of all processes")
    assert place.left_behind() == []
