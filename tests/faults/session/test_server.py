"""A server and its guard: what is started ends, whoever is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.paths import TESTS
from support.tcp_engine import TcpEngine, node_of
from support.waiting import exit_code, wait_until

from storewise.engines.contract.server import Credentials
from storewise.errors import Aborted, EngineError
from storewise.session.server import server as server_module
from storewise.session.server.address import free_port
from storewise.session.server.guard import Guarded
from storewise.session.server.server import Server, start_server

Start = Callable[..., Server]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Server] = []

    def one(
        check: Callable[[], None] = lambda: None,
        **settings: object,
    ) -> Server:
        node = node_of(tmp_path, **settings)
        server = start_server(TcpEngine(), node, tmp_path / "data0.log", check)
        started.append(server)
        return server

    yield one
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def before() -> None:
    """Servers of other tests may live beside ours."""
    EARLIER.clear()
    EARLIER.update(psutil.Process().children(recursive=True))


EARLIER: set[psutil.Process] = set()


def ours() -> list[psutil.Process]:
    """What this test has started, and all that descends from it."""
    return [p for p in psutil.Process().children(recursive=True) if p not in EARLIER]


def below(pid: int) -> list[psutil.Process]:
    """A process and all that descends from it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def gone(processes: list[psutil.Process], seconds: float) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_a_server_answers_and_stops_in_order(start: Start, tmp_path: Path) -> None:
    server = start()
    assert TcpEngine().answers(server.endpoint, Credentials.make())
    directory = tmp_path / "data0"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "server.py").stat().st_mode & 0o777 == 0o600
    assert not (directory / "etc" / "secret").exists(), "removed when the server is ready"
    assert server.failure() is None
    processes = ours()
    server.stop()
    server.stop()
    assert gone(processes, 1)
    assert (directory / "stopped").exists()
    server.remove()
    assert not directory.exists()


def test_what_a_server_detaches_ends_with_it(start: Start) -> None:
    server = start(words=("detach",))
    result = ours()
    assert len(result) == 3, "guard, server, and the grandchild that the guard adopts"
    server.stop()
    assert gone(result, 1)


def test_a_deaf_server_is_killed_after_its_time(start: Start) -> None:
    server = start(words=("deaf",))
    processes = ours()
    server.stop()
    assert gone(processes, 1)


def test_a_server_that_fails_says_so_with_its_log(start: Start, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"data0: the server of Tcp .*status 3(.|\n)*disk .*full"):
        start(words=("fail",))
    assert not (tmp_path / "data0").exists()
    assert ours() == []


def test_a_first_step_that_fails(start: Start, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"data0: python\S* ended with status 1(.|\n)*no space"):
        start(step="no space left")
    assert not (tmp_path / "data0").exists()


#: With a child that nobody else would end.
PREPARES = """\
import signal, subprocess, sys, time
from pathlib import Path
def end(number, frame):
    Path("../ended").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path("../child").write_text(f"{child.pid} ")
time.sleep(600)
"""


def test_a_first_step_that_is_not_wanted_any_more_may_end_in_order(
    start: Start, tmp_path: Path
) -> None:
    """As initdb, whose shared memory would stay if it was killed."""
    result = tmp_path / "child"

    def check() -> None:
        if result.exists() and result.read_text().endswith(" "):
            raise Aborted("the trial ends")

    with pytest.raises(Aborted):
        start(check=check, program=PREPARES)
    assert (tmp_path / "ended").exists()
    wait_until(lambda: not psutil.pid_exists(int(result.read_text())), 30, "the child's end")
    assert ours() == []


def test_a_killed_server_is_noticed(start: Start) -> None:
    server = start(words=("detach",))
    processes = ours()
    os.kill(server.pid, signal.SIGKILL)
    text = wait_until(server.failure, 30, "the failure")
    assert "SIGKILL" in text
    assert gone(processes, 20)


def test_a_killed_guard_takes_the_server_along(start: Start) -> None:
    server = start()
    processes = ours()
    assert server._process is not None and server._process._guard is not None
    os.kill(server._process._guard.pid, signal.SIGKILL)
    wait_until(server.failure, 30, "the failure")
    assert gone(processes, 20)


@pytest.mark.parametrize("victim", [0, 1, 2], ids=["job", "guard", "server"])
def test_kill_of_any_process_leaves_nothing(tmp_path: Path, victim: int) -> None:
    """A node job as a process of its own, with a server that detaches a grandchild."""
    program = TESTS / "support" / "tcp_engine.py"
    job = subprocess.Popen(
        [sys.executable, str(program), str(tmp_path), "detach", "elsewhere"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    pids = [int(word) for word in job.stdout.readline().split()]
    processes = below(pids[0])
    assert len(processes) == 4
    assert (tmp_path / "elsewhere").exists()
    os.kill(pids[victim], signal.SIGKILL)
    if victim != 0:
        job.communicate(timeout=300)  # the job itself ends with its input
    exit_code(job, 300)
    left = processes if victim != 1 else [p for p in processes if p.pid in pids]
    assert gone(left, 30)
    if victim == 0:
        wait_until(lambda: not (tmp_path / "data0").exists(), 30, "removal of the directory")
        assert not (tmp_path / "elsewhere").exists(), "the guard cleans up for its job"
    for process in processes:
        if process.is_running():  # a killed guard cannot end what the server had detached
            process.kill()


def test_a_job_told_to_end_while_its_guard_still_starts(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM before the guard has read what to run: its word to stop comes with the order."""

    def told(process: Guarded, seconds: float) -> None:
        raise Aborted("SIGTERM")

    monkeypatch.setattr(Guarded, "hear", told)
    with pytest.raises(Aborted, match="SIGTERM"):
        start(words=("mute",))
    assert ours() == []


def test_a_port_taken_between_look_and_start(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        real = server_module.free_port
        monkeypatch.setattr(
            server_module, "free_port", lambda a, p, avoid: real(a, p, avoid) if avoid else taken
        )
        server = start()
        assert server.node.port != taken


def test_no_port_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EngineError, match=f"no free port in {port} at 127.0.0.1.*profile"):
            free_port("127.0.0.1", str(port))
    assert free_port("127.0.0.1", "21000-21100") in range(21000, 21101)
