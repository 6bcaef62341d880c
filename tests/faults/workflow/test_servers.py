"""The fault table of sessions: whoever is killed or fails, no server and no directory is left,
the message names the first cause, and the next plain run goes on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support import kills
from support.kills import SOON, Cause, Run, cells
from support.needs import unavailable
from support.paths import SAMPLE, SMALL
from support.servers import jvm_binaries, mongodb_binaries
from support.waiting import exit_code, wait_until
from support.workspace import Workspace

from storewise.metrics.hdr import merge_logs, tags
from storewise.session.coordination.progress import JobProgress, progress_of

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.xdist_group("kills")]

#: Nothing to be listed and digested before: the phase that is killed begins at once.
STUDY = """\
workload: ycsb
engines: {{postgres: {settings}}}
retries: 0
factors: {{workers: 2, nodes: 2}}
phases:
  - load: {{recordcount: {records}, fieldcount: 1, batchsize: 1}}
  - c: {{seconds: {seconds}, target: 20}}
"""
#: Thousands of transactions, each of which waits before it is on disk: on any machine a load of
#: them lasts longer than a lease.
SLOW_COMMITS = "{bulk: insert, config: {commit_delay: 20000, commit_siblings: 0}}"
LONG = {
    "load": STUDY.format(settings=SLOW_COMMITS, records=1_000_000, seconds=0.3),
    "c": STUDY.format(settings="{}", records=20, seconds=600),
}


def begin(place: Workspace, phase: str) -> Run:
    """Start a run and wait until `phase` is at work."""
    place.write_study(LONG[phase])
    run = place.start()
    place.await_worker(run, f"{phase}.1")
    return run


def the_failure(place: Workspace) -> str:
    """What was recorded of the one failed attempt; it was told to the user once."""
    (path,) = place.results.glob("failures/*.jsonl")
    (line,) = path.read_text().splitlines()
    assert place.failures_told() == 1, "the first reason, once"
    return line


def kill_server(place: Workspace, run: Run) -> None:
    psutil.Process(place.server("data1")).kill()


def kill_node(place: Workspace, run: Run) -> None:
    os.kill(place.members()["data0"], signal.SIGKILL)


def interrupt_alone(place: Workspace, run: Run) -> None:
    """As on a cluster, where no job is in the process group of Snakemake."""
    run.send_signal(signal.SIGINT)


def stop_node_again(place: Workspace, run: Run) -> None:
    """As Slurm does with each scancel: further signals come while the first is obeyed."""
    job = psutil.Process(place.members()["data0"])
    with contextlib.suppress(psutil.NoSuchProcess):
        while job.is_running() and job.status() != psutil.STATUS_ZOMBIE:
            job.terminate()
            with contextlib.suppress(psutil.TimeoutExpired):
                job.wait(0.005)


#: Cause, phase, and what the recorded reason must say (None: no failure of the trial). Of all
#: orders in which runs, jobs and sweeps end: tests/unit/session/test_coordination.py.
@pytest.mark.parametrize(
    ("cause", "phase", "reason"),
    cells(
        every_run=[
            (kill_server, "c", r"data1: the server of PostgreSQL on host \S+ was ended by SIGKILL"),
        ],
        slow=[
            (kill_node, "load", r"data0 on host \S+ was ended by SIGKILL"),
            (kills.kill_snakemake, "c", None),
            (interrupt_alone, "c", None),
        ],
        all_cells=[(stop_node_again, "load", r"data0 was ended by signal SIGTERM")],
    ),
)
def test_nothing_is_left_and_the_next_run_goes_on(
    place: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    cause: Cause,
    phase: str,
    reason: str | None,
) -> None:
    kills.ends_a_phase(place, begin, cause, phase, monkeypatch)
    if cause is stop_node_again:
        # On a host of its own nobody else would remove what it leaves.
        (log,) = place.results.glob("logs/*/data0.log")
        assert "the server has ended after" in log.read_text()
    if reason is None:
        assert list(place.results.glob("failures/*.jsonl")) == []
    else:
        assert re.search(reason, the_failure(place)), the_failure(place)
    place.goes_on()


FURTHER = ("mariadb", "mongodb", "cassandra", "hbase")


#: Each is told differently that its disk is full.
@pytest.mark.parametrize(
    "engine", ["postgres", *(pytest.param(name, marks=pytest.mark.all_cells) for name in FURTHER)]
)
def test_the_data_disk_fills_while_a_server_loads(
    place: Workspace,
    small_disk: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    find_programs(engine, monkeypatch)
    disk = small_disk("1g")
    study = LONG["load"] if engine == "postgres" else LONG["load"].replace(SLOW_COMMITS, "{}")
    study = study.replace("workers: 2, nodes: 2", "nodes: 1").replace("postgres", engine)
    place.write_study(study)
    run = place.start(place.command("--set-resources", f"node:scratch={disk}"))
    place.await_worker(run, "load.0")
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            # A server that finds room for a while longer writes it full itself.
            file.write(bytes(1 << 20 if shutil.disk_usage(disk).free > 1 << 20 else 1 << 12))
    place.gone(2 * SOON)
    assert run.wait() != 0
    filler.unlink()
    assert list(disk.iterdir()) == []
    assert place.left_behind() == []
    reason = json.loads(the_failure(place))["reason"]
    where = rf"(data|master)0: no space left on device for {disk}/\S+: free space there, or name "
    assert re.match(where, reason), reason
    assert f"on host {socket.gethostname()} " in reason
    assert "\n" not in reason


#: Of the sample, for a trial that is measured to its end.
ALIGNMENTS = """\
inputs: {{paths: data}}
engines: [{engine}]
factors: {{workers: 1, nodes: 1}}
retries: 0
phases:
  - write: {{batch_size: {batch}}}
  - read: {{seconds: {seconds}}}
"""


#: In a read, and in a load. HBase's gateway gives up.
@pytest.mark.all_cells
@pytest.mark.long("a server stands still for a minute, a gateway waits for more", limit=1800)
@pytest.mark.parametrize(
    ("engine", "phase", "seconds", "values"),
    [
        *((name, "read", 20, (20, 1000)) for name in ("postgres", "mariadb", "mongodb")),
        *(("mongodb", "write", 60, (0.3, 1)), ("cassandra", "write", 60, (0.3, 20))),
        ("hbase", "write", None, (0.3, 20)),
    ],
)
def test_a_server_that_stands_still_for_a_while_is_slow_not_lost(
    place: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    phase: str,
    seconds: float | None,
    values: tuple[float, int],
) -> None:
    """What waited counts with the time that it waited, and nothing is lost."""
    find_programs(engine, monkeypatch)
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")) if phase == "write" else SMALL)
    place.write_study(ALIGNMENTS.format(engine=engine, seconds=values[0], batch=values[1]))
    run = place.start(place.command("--omit-from", "analyse"))
    wait_until(lambda: place.working(f"{phase}.0"), 300, f"{phase}.0 at work")
    (live,) = place.results.glob("live/*/")

    def progress() -> JobProgress | None:
        record = progress_of(live).get(f"{phase}.0")
        return record[0] if record is not None and record[0].operations else None

    # A client that has yet to connect gives up after its own time.
    last = wait_until(progress, 60, "operations")
    (node,) = {"data0", "master0"} & set(place.members())
    root = psutil.Process(place.server(node))
    stopped = [root, *root.children(recursive=True)]
    for process in stopped:
        process.suspend()

    def stalled() -> float:
        """Seconds for which no operation has ended."""
        nonlocal last
        now = progress() or last
        if now.operations != last.operations:
            last = now
        return float(now.at - last.at)

    if seconds is None:
        place.gone(4 * SOON)
        assert run.wait() != 0
        says = r"write\.0: hbase: .*`operation_seconds` .* cannot be reached \(timed out\)\)"
        assert re.fullmatch(says, json.loads(the_failure(place))["reason"])
    else:
        wait_until(lambda: stalled() >= seconds, 150, "a stall")
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
        assert exit_code(run, 600) == 0, place.output()
        assert set(place.counts().values()) == {(place.documents(), place.documents())}
    if phase == "read":
        (log,) = place.results.glob("logs/*/read.0.log")
        assert ", 0 errors in " in log.read_text()
        (part,) = place.results.glob("trials/*/read.0.hlog")
        slowest = max(merge_logs([part], tag).get_max_value() for tag in tags(part))
        assert slowest > 5e9, "nanoseconds"
    assert place.left_behind() == []
    assert place.processes() == []
    assert not any(process.is_running() for process in stopped)


def find_programs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has no MongoDB: the tests' own."""
    try:
        if engine == "mongodb":
            monkeypatch.setenv("STOREWISE_MONGODB_BIN", str(mongodb_binaries.native() / "bin"))
        if engine in ("cassandra", "hbase"):
            monkeypatch.setenv(f"STOREWISE_{engine.upper()}_HOME", str(jvm_binaries.jars(engine)))
    except (mongodb_binaries.Unavailable, jvm_binaries.Unavailable) as error:
        unavailable(str(error))
