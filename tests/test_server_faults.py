"""The fault table of sessions: whoever is killed or fails, no server and no directory is left,
the message names the first cause, and the next plain run finishes with verified counts."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from harness import SAMPLE, SMALL, Workspace, interrupt_group, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

#: Of the contract: within 60 s of the cause; for SIGKILL of Snakemake at most lease + 60 s.
SOON, AFTER_LEASE = 60.0, 25.0 + 60.0

STUDY = """\
inputs: {{paths: data}}
engines: {{postgres: {settings}}}
factors: {{workers: 2, nodes: 2}}
phases:
  - write: {{batch_size: {batch}}}
  - read: {{seconds: {seconds}}}
"""
#: A load of thousands of transactions, each of which waits before it is on disk: on any
#: machine it lasts longer than a lease.
SLOW_COMMITS = "{bulk: insert, config: {commit_delay: 20000, commit_siblings: 0}}"
LONG_WRITE = STUDY.format(settings=SLOW_COMMITS, batch=1, seconds=0.3)
LONG_READ = STUDY.format(settings="{}", batch=1000, seconds=60)
SHORT = STUDY.format(settings="{}", batch=1000, seconds=0.3)

Run = subprocess.Popen[str]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workspace]:
    place = Workspace(tmp_path)
    yield place
    for process in place.processes():
        process.kill()


def begin(place: Workspace, phase: str) -> Run:
    """Start a run and wait until `phase` is at work."""
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    place.write_study(LONG_WRITE if phase == "write" else LONG_READ)
    run = place.start()
    if phase == "form":
        wait_until(lambda: place.members().get("form"), 60, "form")
    else:
        wait_until(lambda: place.working(f"{phase}.1"), 150, f"{phase}.1 at work")
    return run


def the_failure(place: Workspace) -> str:
    """What was recorded of the one failed attempt; it was told to the user once."""
    (path,) = place.results.glob("failures/*.jsonl")
    (line,) = path.read_text().splitlines()
    assert place.output().count("storewise: trial ") == 1, "the first reason, once"
    return line


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def kill_server(place: Workspace, run: Run) -> float:
    kill(place.server("data1"))  # type: ignore[arg-type]
    return SOON


def kill_guard(place: Workspace, run: Run) -> float:
    kill(psutil.Process(place.server("data1")).ppid())
    return SOON


def kill_node(place: Workspace, run: Run) -> float:
    kill(place.members()["data0"])
    return SOON


def stop_node(place: Workspace, run: Run) -> float:
    os.kill(place.members()["data0"], signal.SIGTERM)
    return SOON


def stop_node_again(place: Workspace, run: Run) -> float:
    """As Slurm does with each scancel: further signals come while the first is obeyed."""
    job = psutil.Process(place.members()["data0"])
    with contextlib.suppress(psutil.NoSuchProcess):
        while job.is_running() and job.status() != psutil.STATUS_ZOMBIE:
            job.terminate()
            time.sleep(0.005)
    return SOON


def kill_worker(place: Workspace, run: Run) -> float:
    kill(next(pid for name, pid in place.members().items() if name.endswith(".1")))
    return SOON


def kill_form(place: Workspace, run: Run) -> float:
    kill(place.members()["form"])
    return SOON


def kill_snakemake(place: Workspace, run: Run) -> float:
    kill(run.pid)
    run.wait()
    return AFTER_LEASE


def interrupt(place: Workspace, run: Run) -> float:
    interrupt_group(run)
    return SOON


def terminate(place: Workspace, run: Run) -> float:
    os.kill(run.pid, signal.SIGTERM)
    return SOON


Cause = Callable[[Workspace, Run], float]
#: Cause, phase, and what the recorded reason must say (None: no failure of the trial).
CELLS: list[tuple[Cause, str, str | None]] = [
    (kill_server, "write", r"data1: the server of PostgreSQL on host \S+ was ended by SIGKILL"),
    (kill_guard, "read", r"data1: the server of PostgreSQL"),
    (kill_node, "read", r"data0: its job on host \S+ has ended without ending its server"),
    (stop_node_again, "write", r"data0 was ended by signal SIGTERM"),
    (kill_worker, "write", r"load failed"),
    (kill_worker, "read", r"phase failed"),
    (kill_form, "form", r"form failed"),
    (kill_snakemake, "write", None),
    (interrupt, "read", None),
]
FURTHER: list[tuple[Cause, str, str | None]] = [
    (kill_server, "read", r"data1: the server of PostgreSQL on host \S+ was ended by SIGKILL"),
    (kill_guard, "write", r"data1: the server of PostgreSQL"),
    (kill_node, "write", r"data0: its job on host \S+ has ended without ending its server"),
    (stop_node, "read", r"data0 was ended by signal SIGTERM"),
    (stop_node, "write", r"data0 was ended by signal SIGTERM"),
    (kill_snakemake, "read", None),
    (kill_snakemake, "form", None),
    (interrupt, "write", None),
    (interrupt, "form", None),
    (terminate, "write", None),
    (terminate, "read", None),
]
if os.environ.get("STOREWISE_ALL_CELLS") == "1":
    CELLS += FURTHER


@pytest.mark.parametrize(
    ("cause", "phase", "reason"), CELLS, ids=[f"{c.__name__}-{p}" for c, p, _ in CELLS]
)
def test_nothing_is_left_and_the_next_run_finishes(
    place: Workspace, cause: Cause, phase: str, reason: str | None
) -> None:
    run = begin(place, phase)
    seconds = place.gone(cause(place, run))
    print(f"{cause.__name__} in {phase}: all processes gone after {seconds:.1f} s")
    if cause is not kill_snakemake:
        # A killed run leaves files for the next one; any other end cleans up by itself.
        assert place.left_behind() == []
        assert run.wait() != 0
    ended = [log.read_text() for log in place.results.glob(f"logs/*/{phase}.?.log")]
    assert not any(log.rstrip().endswith("INFO done") for log in ended), "the phase had ended"
    if cause is stop_node_again:
        # On a host of its own nobody else would remove what it leaves.
        (log,) = place.results.glob("logs/*/data0.log")
        assert "the server has ended after" in log.read_text()
    if reason is None:
        assert list(place.results.glob("failures/*.jsonl")) == []
    else:
        assert re.search(reason, the_failure(place)), the_failure(place)
    place.finishes(SHORT)


def fails(place: Workspace, *arguments: str, study: str = SHORT) -> str:
    """A run that fails by itself and leaves nothing; returns what it printed."""
    place.copy_inputs()
    place.write_study(study)
    start = time.monotonic()
    run = place.start(place.command(*arguments))
    assert run.wait(150) != 0
    print(f"failed after {time.monotonic() - start:.1f} s")
    wait_until(lambda: not place.processes(), 30, "the end of all processes")
    assert place.left_behind() == []
    return the_failure(place)


def test_a_port_is_taken(place: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        text = fails(place, "--set-resources", f"node:ports={port}")
        assert f"no free port in {port} at 127.0.0.1" in text
        assert "profile" in text
    place.finishes(SHORT)


def test_the_data_disk_is_full(place: Workspace, small_disk: Callable[..., Path]) -> None:
    # Enough for one new PostgreSQL, not for two.
    disk = small_disk("60m")
    text = fails(place, "--set-resources", f"node:scratch={disk}")
    assert re.search(r"data[01].*No space left on device", text)
    assert list(disk.iterdir()) == []
    place.finishes(SHORT)


def test_a_server_binary_is_missing(place: Workspace) -> None:
    study = STUDY.format(settings=f"{{home: {place.directory}/nowhere}}", batch=1000, seconds=0.3)
    text = fails(place, study=study)
    assert re.search(r"data[01]: PostgreSQL: no \w+ \(looked in .*nowhere", text)
    place.finishes(SHORT)


def test_a_server_never_answers(place: Workspace) -> None:
    """A `postgres` that prepares its data, starts, and then only sleeps."""
    from storewise.engines.registry import engine

    real = engine("postgres").find({}).programs  # type: ignore[attr-defined]
    home = place.directory / "home"
    home.mkdir()
    for name, path in real.items():
        (home / name).symlink_to(path)
    mute = home / "postgres"
    mute.unlink()
    mute.write_text(
        '#!/bin/sh\ncase "$*" in *--version*|*--boot*|*--single*|*--check*) '
        f'exec {real["postgres"]} "$@";; esac\n[ "$1" = -V ] && exec {real["postgres"]} -V\n'
        "echo I only sleep\nexec sleep 600\n"
    )
    mute.chmod(mute.stat().st_mode | stat.S_IXUSR)
    text = fails(place, study=STUDY.format(settings=f"{{home: {home}}}", batch=1000, seconds=0.3))
    assert re.search(r"data[01]: the server of PostgreSQL .* has not answered at .* for 60 s", text)
    assert "I only sleep" in text
    place.finishes(SHORT)


def test_a_node_ends_in_order_before_its_wall_time(place: Workspace) -> None:
    place.copy_inputs()
    place.write_study(LONG_READ)
    run = place.start(place.command("--set-resources", "node:runtime=1"))
    assert run.wait(120) != 0
    wait_until(lambda: not place.processes(), 30, "the end of all processes")
    assert place.left_behind() == []
    text = the_failure(place)
    assert re.search(r"data[01] stopped in order before its wall time", text)
    logs = "".join(log.read_text() for log in place.results.glob("logs/*/data?.server.log"))
    assert logs.count("database system is shut down") >= 2
    place.finishes(SHORT)


def test_two_users_sessions_on_one_host(tmp_path: Path) -> None:
    """Two runs at once, each with clusters of its own, never meet."""
    places = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        place = Workspace(tmp_path / name)
        place.copy_inputs()
        place.write_study(SHORT)
        places.append(place)
    runs = [place.start(place.command("--omit-from", "analyse")) for place in places]
    try:
        assert [run.wait(240) for run in runs] == [0, 0], [p.output() for p in places]
    finally:
        for place in places:
            for process in place.processes():
                process.kill()
    for place in places:
        assert set(place.counts().values()) == {(place.documents(), place.documents())}
        assert place.left_behind() == []
