"""The fault table of sessions: whoever is killed or fails, no server and no directory is left,
the message names the first cause, and the next plain run finishes with verified counts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.needs import unavailable
from support.paths import SAMPLE, SMALL
from support.servers import jvm_binaries, mongodb_binaries
from support.waiting import wait_until
from support.workspace import Workspace, interrupt_group

from storewise.metrics.hdr import merge_logs, tags

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
LONG_READ = STUDY.format(settings="{}", batch=1000, seconds=600)
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
            with contextlib.suppress(psutil.TimeoutExpired):
                job.wait(0.005)
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
    (kill_node, "read", r"data0 on host \S+ was ended by SIGKILL"),
    (stop_node_again, "write", r"data0 was ended by signal SIGTERM"),
    (kill_worker, "write", r"write.1 on host \S+ was ended by SIGKILL"),
    (kill_worker, "read", r"read.1 on host \S+ was ended by SIGKILL"),
    (kill_form, "form", r"form on host \S+ was ended by SIGKILL"),
    (kill_snakemake, "write", None),
    (interrupt, "read", None),
]
FURTHER: list[tuple[Cause, str, str | None]] = [
    (kill_server, "read", r"data1: the server of PostgreSQL on host \S+ was ended by SIGKILL"),
    (kill_guard, "write", r"data1: the server of PostgreSQL"),
    (kill_node, "write", r"data0 on host \S+ was ended by SIGKILL"),
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
    run = place.start(place.command(*arguments))
    assert run.wait(150) != 0
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


#: Servers whose disk fills while they load; each is told differently that it is full.
FULL = [
    "postgres",
    *(
        ["mariadb", "mongodb", "cassandra", "hbase"]
        if os.environ.get("STOREWISE_ALL_CELLS") == "1"
        else []
    ),
]


@pytest.mark.parametrize("engine", FULL)
def test_the_data_disk_fills_while_a_server_loads(
    place: Workspace,
    small_disk: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
) -> None:
    find_programs(engine, monkeypatch)
    disk = small_disk("1g")
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")))
    study = (
        LONG_WRITE
        if engine == "postgres"
        else STUDY.format(settings="{}", batch=1, seconds=0.3).replace("postgres", engine)
    )
    place.write_study(study.replace("workers: 2, nodes: 2", "nodes: 1"))
    run = place.start(place.command("--set-resources", f"node:scratch={disk}"))
    wait_until(lambda: place.working("write.0"), 150, "write.0 at work")
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


@pytest.mark.all_cells
@pytest.mark.parametrize("engine", ["postgres", "mariadb", "mongodb"])
def test_a_server_that_stands_still_for_a_while_is_slow_not_lost(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """SIGSTOP: what waited counts with the time that it waited, and nothing is lost."""
    find_programs(engine, monkeypatch)
    place.copy_inputs()
    study = STUDY.format(settings="{}", batch=1000, seconds=20).replace("postgres", engine)
    place.write_study(study.replace("workers: 2, nodes: 2", "nodes: 1"))
    run = place.start(place.command("--omit-from", "analyse"))
    wait_until(lambda: place.working("read.0"), 300, "read.0 at work")
    (log,) = place.results.glob("logs/*/read.0.log")
    # A client that has yet to connect gives up after its own time.
    wait_until(lambda: re.search(r", [1-9]\d* operations/s", log.read_text()), 60, "reads")
    root = psutil.Process(place.server("data0"))
    stopped = [root, *root.children(recursive=True)]
    for process in stopped:
        process.suspend()
    wait_until(lambda: log.read_text().count(", 0 operations/s") >= 2, 120, "a stall of 20 s")
    for process in stopped:
        process.resume()
    assert run.wait(300) == 0, place.output()
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    assert ", 0 errors in " in log.read_text()
    (part,) = place.results.glob("trials/*/read.0.hlog")
    slowest = max(merge_logs([part], tag).get_max_value() for tag in tags(part))
    assert slowest > 5e9, "nanoseconds; two lines of the log, ten seconds apart, saw no operation"
    assert place.left_behind() == []


def load_that_stands_still(place: Workspace, engine: str) -> tuple[Run, Path, list[psutil.Process]]:
    """A load whose server was stopped by SIGSTOP: the run, its worker's log, what was stopped."""
    place.copy_inputs(sorted(SAMPLE.glob("*.m10.*")))
    # Longer than the ten seconds between two lines of its log.
    batch = 1 if engine == "mongodb" else 20
    study = STUDY.format(settings="{}", batch=batch, seconds=0.3).replace("postgres", engine)
    place.write_study(study.replace("workers: 2, nodes: 2", "nodes: 1"))
    run = place.start(place.command("--omit-from", "analyse"))
    wait_until(lambda: place.working("write.0"), 300, "write.0 at work")
    (log,) = place.results.glob("logs/*/write.0.log")
    wait_until(lambda: re.search(r", [1-9]\d* operations/s", log.read_text()), 60, "writes")
    (node,) = {"data0", "master0"} & set(place.members())
    root = psutil.Process(place.server(node))
    stopped = [root, *root.children(recursive=True)]
    for process in stopped:
        process.suspend()
    return run, log, stopped


@pytest.mark.all_cells
@pytest.mark.parametrize("engine", ["mongodb", "cassandra"])
def test_a_server_that_stands_still_while_it_loads_loses_nothing(
    place: Workspace, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """SIGSTOP for a minute: clients wait or ask again, and the trial goes on."""
    find_programs(engine, monkeypatch)
    run, log, stopped = load_that_stands_still(place, engine)
    stall = ", 0 operations/s"
    wait_until(
        lambda: log.read_text().count(stall) >= 6 or run.poll() is not None,
        150,
        "a stall of a minute: a line of the log in ten seconds",
    )
    for process in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    assert run.wait(600) == 0, place.output()
    assert log.read_text().count(stall) >= 6
    assert set(place.counts().values()) == {(place.documents(), place.documents())}
    assert place.left_behind() == []
    assert place.processes() == []


@pytest.mark.all_cells
def test_a_server_that_stands_still_for_longer_than_its_gateway_waits_is_named(
    place: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_programs("hbase", monkeypatch)
    run, _, stopped = load_that_stands_still(place, "hbase")
    place.gone(4 * SOON)
    assert not any(process.is_running() for process in stopped)
    assert run.wait() != 0
    assert place.left_behind() == []
    reason = json.loads(the_failure(place))["reason"]
    assert "\n" not in reason
    expected = (
        r"write\.0: hbase: insert: thrift0 at \S+: the servers have not answered the gateway "
        rf"within the setting `operation_seconds` \(master0 on host {socket.gethostname()} at \S+ "
        r"takes connections but does not answer within 5 s\)"
    )
    assert re.fullmatch(expected, reason), reason


def find_programs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian has no MongoDB: the tests' own."""
    if engine == "mongodb":
        try:
            monkeypatch.setenv("STOREWISE_MONGODB_BIN", str(mongodb_binaries.native() / "bin"))
        except mongodb_binaries.Unavailable as error:
            unavailable(str(error))
    if engine in ("cassandra", "hbase"):
        try:
            monkeypatch.setenv(f"STOREWISE_{engine.upper()}_HOME", str(jvm_binaries.jars(engine)))
        except jvm_binaries.Unavailable as error:
            unavailable(str(error))


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
