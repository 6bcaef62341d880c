"""Worker jobs that end early: killed, aborted, signalled, failed. Nothing is left behind."""

import resource
import signal
import subprocess

import psutil
import pytest
from support import driving
from support.driving import all_gone, children, make_inputs, start, trial, wait_for
from support.waiting import exit_code

from storewise.engines.null import NullClient
from storewise.errors import StorewiseError

LONG_READ = {"name": "read", "params": {"seconds": 120}}


@pytest.fixture
def place(tmp_path):
    make_inputs(tmp_path, 1)
    return tmp_path


@pytest.fixture
def wide(tmp_path):
    """Inputs for two workers with two processes each."""
    make_inputs(tmp_path, 4, files=12)
    return tmp_path


def test_a_killed_client_ends_the_worker(place):
    measured = trial("null", ["write", LONG_READ], processes=1)
    driving.run_here(measured, place, "write")
    job = start(measured, place, "read")
    (victim,) = children(job, 1)
    wait_for(lambda: "waiting for the other workers" in (place / "read.0.log").read_text())
    victim.send_signal(signal.SIGKILL)
    assert exit_code(job, 300) != 0
    text = (place / "read.0.log").read_text()
    assert f"client process 0 (pid {victim.pid}) was ended by SIGKILL" in text
    assert not (place / "read.0.parquet").exists()


@pytest.mark.parametrize("phase", ["write", "read"])
def test_no_client_outlives_a_killed_worker(phase, wide):
    measured = trial("sqlite", ["write", LONG_READ], workers=2, processes=2)
    if phase == "read":
        jobs = [start(measured, wide, "write", worker) for worker in range(2)]
        assert [exit_code(job, 300) for job in jobs] == [0, 0]
        jobs = [start(measured, wide, "read", worker) for worker in range(2)]
        clients = [c for job in jobs for c in children(job, 2)]
    else:
        # The second worker never comes: the clients wait at the barrier.
        jobs = [start(measured, wide, "write", 0)]
        clients = children(jobs[0], 2)
        wait_for(lambda: "waiting for the other workers" in (wide / "write.0.log").read_text())
    for job in jobs:
        job.kill()
        job.wait()
    assert all_gone(clients)
    assert not list(wide.glob(f"{phase}.*.parquet"))


@pytest.mark.parametrize("when", ["barrier", "loop"])
def test_an_abort_ends_the_worker(when, wide):
    measured = trial("null", ["write", LONG_READ], workers=2, processes=2)
    phase = "write" if when == "barrier" else "read"
    if when == "barrier":
        jobs = [start(measured, wide, "write", 0)]
    else:
        jobs = [start(measured, wide, "write", worker) for worker in range(2)]
        assert [exit_code(job, 300) for job in jobs] == [0, 0]
        jobs = [start(measured, wide, "read", worker) for worker in range(2)]
    clients = [c for job in jobs for c in children(job, 2)]
    wait_for(lambda: "waiting for the other workers" in (wide / f"{phase}.0.log").read_text())
    if when == "loop":
        wait_for(lambda: all(c.cpu_times().user > 0.5 for c in clients))
    (wide / "live" / "abort").write_text("node 1 died: no space left")
    assert [exit_code(job, 300) for job in jobs] == [1] * len(jobs)
    assert all_gone(clients)
    assert "Aborted: node 1 died: no space left" in (wide / f"{phase}.0.log").read_text()
    assert not list(wide.glob(f"{phase}.*.parquet"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_worker_leaves_no_client(number, place):
    measured = trial("null", ["write", LONG_READ], processes=1)
    driving.run_here(measured, place, "write")
    job = start(measured, place, "read")
    clients = children(job, 1)
    wait_for(lambda: "waiting for the other workers" in (place / "read.0.log").read_text())
    job.send_signal(number)
    assert exit_code(job, 300) != 0
    assert all_gone(clients)


@pytest.mark.needs("root", "mount")
@pytest.mark.parametrize("engine", ["sqlite", "duckdb", "parquet", "files"])
def test_a_full_disk_is_the_stores_own_error(place, engine):
    store = place / "store.0"
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", store], check=True)
    try:
        with pytest.raises(StorewiseError, match=r"(?i)full|space"):
            driving.run_here(trial(engine, id="other"), place, "write")
    finally:
        subprocess.run(["umount", store], check=True)
    assert not (place / "write.0.parquet").exists()


def test_an_unexpected_error_of_a_client_keeps_its_traceback(place, caplog, monkeypatch):
    def broken(self, kind, document_id):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(NullClient, "get", broken)
    driving.run_here(trial("null"), place, "write")
    with pytest.raises(RuntimeError, match="client process 0 failed: ZeroDivisionError: a defect"):
        driving.run_here(trial("null"), place, "read")
    assert "in broken" in caplog.text


def test_a_client_that_gets_no_memory_says_so(place, monkeypatch):
    def hungry(self, kind, document_id):
        limit = psutil.Process().memory_info().vms + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        bytearray(1 << 30)

    monkeypatch.setattr(NullClient, "get", hungry)
    driving.run_here(trial("null"), place, "write")
    with pytest.raises(StorewiseError, match=r"the system gave no more memory \(a limit such as"):
        driving.run_here(trial("null"), place, "read")


@pytest.fixture(scope="module", autouse=True)
def before():
    """Processes of other files' tests, such as servers that several files share."""
    return set(psutil.Process().children(recursive=True))


def test_no_process_is_left(before):
    left = [p for p in psutil.Process().children(recursive=True) if p.is_running()]
    assert [p for p in left if p not in before and p.status() != psutil.STATUS_ZOMBIE] == []
