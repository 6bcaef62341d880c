"""Worker jobs that end early: killed, aborted, signalled. Nothing is left behind."""

import signal

import psutil
import pytest
from support import driving
from support.driving import all_gone, children, make_inputs, start, trial, wait_for
from support.waiting import exit_code

LONG_READ = {"name": "read", "params": {"seconds": 120}}


@pytest.fixture(scope="module")
def before():
    """Processes of other files' tests, such as servers that several files share."""
    return set(psutil.Process().children(recursive=True))


@pytest.fixture
def place(tmp_path, before):
    make_inputs(tmp_path, 2)
    yield tmp_path
    assert not list(tmp_path.glob("read.*.parquet"))
    left = [p for p in psutil.Process().children(recursive=True) if p.is_running()]
    assert [p for p in left if p not in before and p.status() != psutil.STATUS_ZOMBIE] == []


def started(place):
    """A worker whose clients read, and the clients."""
    measured = trial("sqlite", ["write", LONG_READ], processes=2)
    driving.run_here(measured, place, "write")
    job = start(measured, place, "read")
    clients = children(job, 2)
    wait_for(lambda: all(client.cpu_times().user > 0.2 for client in clients))
    return job, clients


def test_a_killed_client_ends_the_worker(place):
    job, (victim, other) = started(place)
    victim.send_signal(signal.SIGKILL)
    assert exit_code(job, 300) != 0
    text = (place / "read.0.log").read_text()
    assert f"(pid {victim.pid}) was ended by SIGKILL" in text
    assert all_gone([other])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_to_the_worker_leaves_no_client(number, place):
    job, clients = started(place)
    job.send_signal(number)
    assert exit_code(job, 300) != 0
    assert all_gone(clients)


def test_no_client_outlives_a_worker_that_is_killed_at_a_barrier(place):
    """The second worker never comes."""
    job = start(trial("sqlite", ["write"], workers=2, processes=2), place, "write")
    clients = children(job, 2)
    wait_for(lambda: "waiting for the other workers" in (place / "write.0.log").read_text())
    job.kill()
    job.wait()
    assert all_gone(clients)
