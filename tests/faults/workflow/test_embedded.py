"""Whatever is killed: nothing is left behind, and the next plain run finishes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.memory_cgroup import without_memory
from support.paths import SAMPLE, SMALL
from support.waiting import wait_until
from support.workspace import Workspace, interrupt_group

#: Of the contract: within 60 s of the cause; for SIGKILL of Snakemake at most lease + 60 s.
SOON, AFTER_LEASE = 60.0, 25.0 + 60.0

#: A load that outlasts the lease: each document becomes a Parquet file of its own, on disk.
STUDY = """\
inputs: {{paths: data}}
engines: [parquet]
factors: {{workers: 2}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {{seconds: {seconds}}}
"""
LONG_WRITE = STUDY.format(batch=1, seconds=0.3)
LONG_READ = STUDY.format(batch=1000, seconds=600)
SHORT = STUDY.format(batch=1000, seconds=0.3)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    place = Workspace(tmp_path)
    yield place
    for process in place.processes():
        process.kill()


def begin(
    place: Workspace, phase: str, engine: str = "parquet", read: str = LONG_READ
) -> tuple[int, object]:
    """Start a run and wait until worker 1 of `phase` is at work; returns its pid and the run."""
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    text = LONG_WRITE if phase == "write" else read
    place.write_study(text.replace("parquet", engine))
    run = place.start()
    pid = wait_until(lambda: place.working(f"{phase}.1"), 150, f"{phase}.1 at work")
    return pid, run


def kill_worker(place: Workspace, pid: int, run: psutil.Popen) -> float:
    os.kill(pid, signal.SIGKILL)
    return SOON


def crash_worker(place: Workspace, pid: int, run: psutil.Popen) -> float:
    os.kill(pid, signal.SIGSEGV)
    return SOON


def starve_worker(place: Workspace, pid: int, run: psutil.Popen) -> float:
    with without_memory(pid):
        return SOON


def starve_client(place: Workspace, pid: int, run: psutil.Popen) -> float:
    with without_memory(psutil.Process(pid).children()[0].pid):
        return SOON


def kill_client(place: Workspace, pid: int, run: psutil.Popen) -> float:
    psutil.Process(pid).children()[0].kill()
    return SOON


def stop_worker(place: Workspace, pid: int, run: psutil.Popen) -> float:
    os.kill(pid, signal.SIGTERM)
    return SOON


def kill_snakemake(place: Workspace, pid: int, run: psutil.Popen) -> float:
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    return AFTER_LEASE


def interrupt(place: Workspace, pid: int, run: psutil.Popen) -> float:
    interrupt_group(run)
    return SOON


def terminate(place: Workspace, pid: int, run: psutil.Popen) -> float:
    os.kill(run.pid, signal.SIGTERM)
    return SOON


def hang_up(place: Workspace, pid: int, run: psutil.Popen) -> float:
    os.killpg(run.pid, signal.SIGHUP)
    run.wait()
    return AFTER_LEASE


HOST = socket.gethostname()
Cause = Callable[[Workspace, int, psutil.Popen], float]
CELLS: list[tuple[Cause, str, str | None]] = [
    (kill_worker, "read", f"read.1 on host {HOST} was ended by SIGKILL, which the kernel did not"),
    (kill_client, "read", "read.1: client process 0 (pid "),
    (stop_worker, "write", "SIGTERM"),
    (interrupt, "read", None),
    (terminate, "write", None),
    (hang_up, "read", None),
]
if os.environ.get("STOREWISE_ALL_CELLS") == "1":
    CELLS += [
        (kill_worker, "write", f"write.1 on host {HOST} was ended by SIGKILL"),
        (crash_worker, "read", f"read.1 on host {HOST} was ended by SIGSEGV"),
        (starve_worker, "read", f"read.1 on host {HOST} was ended by SIGKILL: the kernel killed "),
        (starve_client, "read", "was ended by SIGKILL: the kernel killed "),
        # In every run it is killed beside servers.
        *((kill_snakemake, phase, None) for phase in ("write", "read")),
    ]


@pytest.mark.parametrize(
    ("cause", "phase", "reason"), CELLS, ids=[f"{c.__name__}-{p}" for c, p, _ in CELLS]
)
def test_nothing_is_left_and_the_next_run_finishes(
    place: Workspace, cause: Cause, phase: str, reason: str | None
) -> None:
    pid, run = begin(place, phase)
    limit = cause(place, pid, run)  # type: ignore[arg-type]
    seconds = place.gone(limit)
    print(f"{cause.__name__} in {phase}: all processes gone after {seconds:.1f} s")
    if cause not in (kill_snakemake, hang_up):
        # A killed run leaves files for the next one; any other end cleans up by itself.
        assert place.left_behind() == []
        assert run.wait() != 0  # type: ignore[attr-defined]
    # Otherwise the cause came too late and the cell has shown nothing.
    logs = [log.read_text() for log in place.results.glob(f"logs/*/{phase}.?.log")]
    assert not any(log.rstrip().endswith("INFO done") for log in logs), "the phase ended by itself"
    failures = list(place.results.glob("failures/*.jsonl"))
    if reason is None:
        assert failures == [], "stopping a run is not a trial's failure"
    else:
        assert reason in failures[0].read_text()
        assert place.output().count("storewise: trial ") == 1, "the first reason, once"
    place.finishes(SHORT)


def test_a_second_snakemake_does_not_disturb_a_live_trial(place: Workspace) -> None:
    _, run = begin(place, "read")
    leases = sorted(p.name for p in place.results.glob("leases/*"))
    for arguments in (["-n"], ["report"], ["no_such_target"]):
        place.snakemake(*arguments)
        assert place.working("read.1"), arguments
        assert sorted(p.name for p in place.results.glob("leases/*")) == leases
    interrupt_group(run)  # type: ignore[arg-type]
    place.gone(SOON)
    place.finishes(SHORT)


def test_a_second_run_of_a_study_is_refused_and_the_first_goes_on(place: Workspace) -> None:
    _, run = begin(place, "read", read=STUDY.format(batch=1000, seconds=600))
    (lease,) = place.results.glob("leases/*")
    for second in (
        place.storewise("run", "s.yaml"),
        place.snakemake(),
        # As where a run of another study has ended here: Snakemake then removes all locks.
        place.snakemake("--nolock"),
    ):
        assert second.returncode != 0
        told = second.stdout + second.stderr
        where = f"by process {run.pid} on host {HOST} since 20"  # type: ignore[attr-defined]
        assert told.count(f"study s is measured here already, {where}") == 1
        assert "--unlock" not in told
        assert [lease] == list(place.results.glob("leases/*"))
        assert place.working("read.1")
    interrupt_group(run)  # type: ignore[arg-type]
    place.gone(SOON)
    assert place.left_behind() == []


REMOVED = [("parquet", "read")]
if os.environ.get("STOREWISE_ALL_CELLS") == "1":
    REMOVED += [("parquet", "write"), ("postgres", "write"), ("postgres", "read")]


@pytest.mark.parametrize(("engine", "phase"), REMOVED)
def test_results_that_are_removed_while_a_run_uses_them(
    place: Workspace, engine: str, phase: str
) -> None:
    _, run = begin(place, phase, engine)
    # What is written meanwhile may stay of a removal, so it is made again.
    while place.results.exists() and place.processes():
        shutil.rmtree(place.results, ignore_errors=True)
    place.gone(SOON)
    assert run.wait() != 0  # type: ignore[attr-defined]
    told = place.output()
    assert told.count("storewise: results/s was removed or moved while this run used it") == 1
    assert "Traceback" not in told
    assert place.left_behind() == []


def test_a_run_can_be_started_at_once_after_a_kill(place: Workspace) -> None:
    """The orphans of a killed run still work when the next one starts: it ends them first."""
    _, run = begin(place, "read")
    os.kill(run.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    run.wait()  # type: ignore[attr-defined]
    place.finishes(SHORT)
    assert place.processes() == []


def test_a_killed_storewise_run_takes_its_snakemake_along(place: Workspace) -> None:
    place.copy_inputs()
    place.write_study(LONG_READ)
    run = place.start([str(Path(sys.executable).parent / "storewise"), "run", "s.yaml"])
    wait_until(lambda: place.working("read.1"), 60, "read.1 at work")
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    place.gone(SOON)
    assert place.left_behind() == []
    place.finishes(SHORT)
