"""A node's job with a server of its own; what it waits for: tests/unit/session/test_jobs.py."""

import logging
import os
import resource
import signal
import socket
import threading
import time
from pathlib import Path

import psutil
import pytest
from support.driving import trial
from support.waiting import wait_until

from storewise.engines.registry import ENGINES
from storewise.errors import Aborted, EngineError
from storewise.metrics.schema import read_part
from storewise.session.coordination import cluster
from storewise.session.coordination.liveness import Abort, Session, abort, read_abort
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs.node import NodeJob, run_node
from storewise.session.server.guard import Guarded, Order


@pytest.fixture
def live(tmp_path, monkeypatch):
    """The live directory of a trial of the engine `tcp`."""
    monkeypatch.setitem(ENGINES, "tcp", "support.tcp_engine:TcpEngine")
    directory = tmp_path / "live" / "t"
    directory.mkdir(parents=True)
    cluster.make_credentials(directory)
    return directory


def node_job(live, *, keep, **changes):
    measured = trial("tcp", [], nodes=1, consistency="durable", keep_data=keep)
    files = (live.parent / name for name in ("node.data0.parquet", "data0.server.log", "kept"))
    return NodeJob(measured, "data0", *files, **changes)


def run(job):
    """A node in this process, which ends when its trial is aborted."""
    live = live_of(job)

    def check():
        if (live / "abort").exists():
            raise Aborted(read_abort(live / "abort").reason)

    def tell(error):
        abort(live, Abort(str(error), failure=True))

    run_node(
        job,
        TrialJob(
            check, logging.getLogger("node"), live, Session("t", "run", 25.0, time.time()), tell
        ),
    )


def live_of(job):
    return job.result.parent / "t"


def meanwhile(job):
    thread = threading.Thread(target=run, args=(job,))
    thread.start()
    wait_until(lambda: "data0" in cluster.ready_nodes(live_of(job)), 20, "the node is ready")
    return thread


@pytest.mark.parametrize(("keep", "scratch"), [(False, "$PLACE/scratch"), (True, "")])
def test_a_node_from_start_to_end(live, monkeypatch, keep, scratch):
    monkeypatch.setenv("PLACE", str(live.parent))
    job = node_job(live, keep=keep, scratch=scratch)
    thread = meanwhile(job)
    ready = cluster.ready_nodes(live)["data0"]
    assert ready.endpoint.address == "127.0.0.1" and ready.version == "Tcp 1"
    assert psutil.pid_exists(ready.server_pid)
    directory = Path(cluster.started_nodes(live)["data0"].directory)
    assert directory.is_dir() and ("scratch" in str(directory)) == bool(scratch)
    before = len(list(directory.rglob("*")))
    (directory / "table").touch()
    (directory / "log").touch()
    (directory / "log").unlink()
    (live / cluster.LOADED).touch()
    (live / cluster.STOP).touch()
    thread.join(20)
    gone = cluster.gone_nodes(live)["data0"]
    assert gone.bytes > 0
    assert directory.is_dir() == keep == bool(gone.kept)
    table, conditions = read_part(job.result)
    rows = {r["metric"]: r["value"] for r in table.to_pylist() if r["second"] is None}
    assert {"queue_time", "ready_time", "stop_time", "clock_offset", "node_bytes"} <= set(rows)
    assert rows["clock_offset"] == 0.0, "its file system is its own"
    assert rows["store_inodes"] == 1 + before + 1, "the directory itself counts"
    assert (rows["files_created"], rows["files_removed"]) == (2, 1)
    assert set(table["node"].cast("string").to_pylist()) <= {"data0", None}
    assert conditions["versions"] == {"server": "Tcp 1"}
    assert conditions["kept"] == gone.kept


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_node_that_fails_leaves_nothing_on_its_scratch(live, tmp_path):
    scratch = tmp_path / "scratch"
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        with pytest.raises(EngineError, match="no free port"):
            run(node_job(live, keep=True, scratch=str(scratch), ports=taken))
    assert list(scratch.iterdir()) == []
    thread = meanwhile(node_job(live, keep=True, scratch=str(scratch)))
    assert len(list(scratch.iterdir())) == 1
    abort(live, Abort("a worker failed", failure=True))
    thread.join(20)
    assert list(scratch.iterdir()) == []


def test_a_guard_is_heard_in_a_process_with_many_descriptors(tmp_path):
    """`select` refuses those above 1,023; a store may hold hundreds (chdb three a thread)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    log, command = str(tmp_path / "log"), ("sleep", "600")
    order = Order(command, str(tmp_path), dict(os.environ), log, signal.SIGTERM, "", "data0")
    guarded = Guarded(order)
    try:
        guarded.start()
        guarded.hear(0.0)
        assert guarded.status is None and psutil.pid_exists(guarded.pid)
        os.kill(guarded.pid, signal.SIGKILL)
        wait_until(lambda: guarded.hear(0.1) or guarded.status, 20, "its end is heard")
        assert guarded.status == -signal.SIGKILL
    finally:
        guarded.stop(signal.SIGTERM, 1.0)
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
