"""A server and its guard: what is started ends, whoever is killed."""

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest
from support.paths import TESTS
from support.tcp_engine import TcpEngine, node_of
from support.waiting import exit_code, wait_until

from storewise.engines.contract.server import Credentials
from storewise.errors import Aborted, EngineError
from storewise.session.coordination.private import made_by_run, make_owned
from storewise.session.server import server as server_module
from storewise.session.server.address import free_port
from storewise.session.server.guard import Guarded
from storewise.session.server.server import start_server


@pytest.fixture
def start(tmp_path):
    started = []

    def one(check=lambda: None, **settings):
        node = node_of(tmp_path, **settings)
        server = start_server(TcpEngine(), node, tmp_path / "data0.log", check)
        started.append(server)
        return server

    yield one
    for server in started:
        server.stop()


@pytest.fixture(autouse=True)
def before():
    """Servers of other tests may live beside ours."""
    EARLIER.clear()
    EARLIER.update(psutil.Process().children(recursive=True))


EARLIER = set()


def ours():
    """What this test has started, and all that descends from it."""
    return [p for p in psutil.Process().children(recursive=True) if p not in EARLIER]


def gone(processes, seconds):
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_a_server_answers_and_stops_in_order(start, tmp_path):
    server = start()
    assert TcpEngine().not_ready_reason(server.endpoint, Credentials.make()) is None
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


def test_a_directory_that_is_made_again_for_another_port_stays_the_run_s(start, tmp_path):
    """Else nobody would remove it after the run was killed."""
    directory = tmp_path / "data0"
    make_owned(directory, "run")
    with socket.socket() as taken, socket.socket() as free:
        for one in (taken, free):
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (taken, free)]
        free.close()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server_module, "free_port", lambda *given: ports.pop(0))
            start()
    assert ports == []
    assert made_by_run(directory, "run")


@pytest.mark.parametrize(("word", "count"), [("detach", 3), ("deaf", 2)])
def test_all_that_a_server_has_started_ends_with_it_also_where_it_is_deaf(start, word, count):
    server = start(words=(word,))
    processes = ours()
    assert len(processes) == count, "guard, server, and a grandchild that the guard adopts"
    server.stop()
    assert gone(processes, 1)


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        ({"words": ("fail",)}, r"data0: the server of Tcp .*status 3(.|\n)*disk .*full"),
        ({"step": "no space left"}, r"data0: python\S* ended with status 1(.|\n)*no space"),
    ],
)
def test_a_server_or_a_first_step_that_fails_says_so_with_its_log(start, tmp_path, fails, says):
    with pytest.raises(EngineError, match=says):
        start(**fails)
    assert not (tmp_path / "data0").exists()
    assert ours() == []


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


def test_a_first_step_that_is_not_wanted_any_more_may_end_in_order(start, tmp_path):
    """As initdb, whose shared memory would stay if it was killed."""
    result = tmp_path / "child"

    def check():
        if result.exists() and result.read_text().endswith(" "):
            raise Aborted("the trial ends")

    with pytest.raises(Aborted):
        start(check=check, program=PREPARES)
    assert (tmp_path / "ended").exists()
    wait_until(lambda: not psutil.pid_exists(int(result.read_text())), 30, "the child's end")
    assert ours() == []


def test_the_number_of_a_process_that_has_ended_is_not_killed(start, monkeypatch):
    """The system may have given it to another one meanwhile."""
    server = start()
    os.kill(server.pid, signal.SIGKILL)
    wait_until(server.failure, 30, "the failure")
    guard = server._process._guard
    guard.wait(30)
    killed = []
    monkeypatch.setattr("storewise.session.server.guard.os.kill", lambda *one: killed.append(one))
    server.stop()
    assert killed == []


@pytest.mark.parametrize("victim", ["server", "guard"])
def test_a_killed_server_or_guard_is_noticed_and_takes_all_along(start, victim):
    server = start(words=("detach",) if victim == "server" else ())
    processes = ours()
    os.kill(server.pid if victim == "server" else server._process._guard.pid, signal.SIGKILL)
    text = wait_until(server.failure, 30, "the failure")
    assert victim == "guard" or "SIGKILL" in text
    assert gone(processes, 20)


@pytest.mark.parametrize("victim", [0, 1, 2], ids=["job", "guard", "server"])
def test_kill_of_any_process_leaves_nothing(tmp_path, victim):
    """A node job as a process of its own, with a server that detaches a grandchild."""
    command = [sys.executable, str(TESTS / "support" / "tcp_engine.py"), str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    job = subprocess.Popen([*command, "detach", "elsewhere"], **pipes)
    pids = [int(word) for word in job.stdout.readline().split()]
    processes = ours()
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


def test_a_job_told_to_end_while_its_guard_still_starts(start, monkeypatch):
    """SIGTERM before the guard has read what to run: its word to stop comes with the order."""

    def told(process, seconds):
        raise Aborted("SIGTERM")

    monkeypatch.setattr(Guarded, "hear", told)
    with pytest.raises(Aborted, match="SIGTERM"):
        start(words=("mute",))
    assert ours() == []


def test_a_port_that_is_taken_is_not_used(start, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        real = server_module.free_port
        monkeypatch.setattr(
            server_module, "free_port", lambda a, p, avoid: real(a, p, avoid) if avoid else taken
        )
        server = start()
        assert server.node.port != taken
        with pytest.raises(EngineError, match=f"no free port in {taken} at 127.0.0.1.*profile"):
            free_port("127.0.0.1", str(taken))
    assert free_port("127.0.0.1", "21000-21100") in range(21000, 21101)
