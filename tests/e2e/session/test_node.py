"""Node jobs with real servers, from their start to their end. What they wait for is tested in
tests/unit/session/test_jobs.py."""

import logging
import re
import socket
import threading
import time
from functools import partial
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
from storewise.study.trial import node_jobs


@pytest.fixture
def live(tmp_path, monkeypatch):
    """The live directory of a trial."""
    monkeypatch.setitem(ENGINES, "ring", "support.ring_engine:RingEngine")
    monkeypatch.setitem(ENGINES, "tcp", "support.tcp_engine:TcpEngine")
    directory = tmp_path / "live" / "t"
    directory.mkdir(parents=True)
    cluster.make_credentials(directory)
    return directory


class Jobs:
    """Jobs of nodes, each in a thread, until one fails or the trial is aborted."""

    def __init__(self, live, engine, nodes, *, keep=False, settings=None, **changes):
        more = {"settings": settings or {}, "keep_data": keep}
        self.trial = trial(engine, [], nodes=nodes, consistency="durable", **more)
        self.live, self.changes, self.errors = live, changes, {}
        self._threads = [
            threading.Thread(target=self._run, args=(spec.name,)) for spec in node_jobs(self.trial)
        ]

    def _check(self):
        if (self.live / "abort").exists():
            raise Aborted(read_abort(self.live / "abort").reason)

    def _run(self, node):
        base = self.live.parent
        files = (base / f"node.{node}.parquet", base / f"{node}.server.log", base / "kept" / node)
        session, log = Session("t", "run", 25.0, time.time()), logging.getLogger(node)
        frame = TrialJob(self._check, log, self.live, session, lambda error: None)
        try:
            run_node(NodeJob(self.trial, node, *files, **self.changes), frame)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.errors[node] = error
            abort(self.live, Abort(str(error), failure=True))

    def start(self, first=0, last=None):
        for thread in self._threads[first:last]:
            thread.start()
        return self

    def ready(self, number):
        known = partial(cluster.ready_nodes, self.live)
        wait_until(lambda: len(known()) == number or self.errors, 20, "all are ready")
        assert not self.errors
        return known()

    def join(self):
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()
        return [str(e) for e in self.errors.values() if isinstance(e, EngineError)]


@pytest.mark.parametrize(("keep", "scratch"), [(False, "$PLACE/scratch"), (True, "")])
def test_a_node_from_start_to_end(live, monkeypatch, keep, scratch):
    monkeypatch.setenv("PLACE", str(live.parent))
    jobs = Jobs(live, "tcp", 1, keep=keep, scratch=scratch).start()
    ready = jobs.ready(1)["data0"]
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
    assert jobs.join() == []
    gone = cluster.gone_nodes(live)["data0"]
    assert gone.bytes > 0
    assert directory.is_dir() == keep == bool(gone.kept)
    table, conditions = read_part(live.parent / "node.data0.parquet")
    rows = {r["metric"]: r["value"] for r in table.to_pylist() if r["second"] is None}
    assert {"queue_time", "ready_time", "stop_time", "clock_offset", "node_bytes"} <= set(rows)
    assert rows["clock_offset"] == 0.0, "its file system is its own"
    assert rows["store_inodes"] == 1 + before + 1, "the directory itself counts"
    assert set(table["node"].cast("string").to_pylist()) <= {"data0", None}
    assert conditions["versions"] == {"server": "Tcp 1"}
    assert conditions["kept"] == gone.kept


def test_a_node_that_fails_or_is_aborted_leaves_nothing_on_its_scratch(live, tmp_path):
    scratch = tmp_path / "scratch"
    jobs = Jobs(live, "tcp", 1, keep=True, scratch=str(scratch)).start()
    jobs.ready(1)
    assert len(list(scratch.iterdir())) == 1
    abort(live, Abort("a worker failed", failure=True))
    jobs.join()
    assert list(scratch.iterdir()) == []
    (live / "abort").unlink()
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        (error,) = Jobs(live, "tcp", 1, keep=True, scratch=str(scratch), ports=taken).start().join()
    assert "no free port" in error
    assert list(scratch.iterdir()) == []


def test_no_node_starts_before_all_are_known_and_none_is_ready_before_all_answer(live):
    jobs = Jobs(live, "ring", 3).start(0, 2)
    known = partial(cluster.endpoints_of, live, cluster.ADDRESSES)
    wait_until(lambda: len(known()) == 2, 20, "two have said where")
    assert not list(live.glob("nodes/data*/server.py"))
    jobs.start(2)
    ready = jobs.ready(3)
    message = {name: (live / "nodes" / name / "met").read_text() for name in ready}
    assert len(set(message.values())) == 1, "all have met the same nodes"
    lines = [line.split() for line in message["data0"].splitlines()]
    assert [line[:2] for line in lines] == [[f"data{k}", f"127.0.0.{k + 1}"] for k in range(3)]
    for (_, _, *ports), node in zip(lines, ready.values(), strict=True):
        assert list(map(int, ports)) == [node.endpoint.port, *node.endpoint.ports.values()]
        assert len(set(ports)) == 3
        joined = live / "nodes" / node.endpoint.name / "joined"
        assert joined.read_text() == "data0 data1 data2: joined"
    (live / cluster.STOP).touch()
    assert jobs.join() == []
    assert set(cluster.gone_nodes(live)) == set(ready)
    _, conditions = read_part(live.parent / "node.data1.parquet")
    guards = {name: port["guard"] for name, port in conditions["ports"].items()}
    assert guards == {"gossip": "none", "http": "password"}
    assert conditions["open_ports"] == {"gossip": "join"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"join": "1/0"}, r"data\d: .*print\(1/0\)' ended with status 1 .*ZeroDivisionError"),
        ({"join": "input()", "seconds": 1.0}, r"ended with status 1"),
        ({"join": "__import__('time').sleep(60)", "seconds": 0.5}, r"took over 0\.5 s"),
    ],
)
def test_what_goes_wrong_while_joining(live, settings, message):
    causes = Jobs(live, "ring", 2, settings=settings).start().join()
    assert any(re.search(message, text.replace("\n", " ")) for text in causes), causes
    assert not cluster.ready_nodes(live)
    assert not list(live.glob("nodes/data*/server.py")), "its directory is removed"


def test_a_port_that_others_were_told_of_is_not_changed(live, monkeypatch):
    """Somebody takes the port between the announcement and the start: the attempt fails."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = iter([port, port + 1, port + 2])
        place = "storewise.session.server.server.free_port"
        monkeypatch.setattr(place, lambda *given: next(chosen))
        (error,) = Jobs(live, "ring", 1).start().join()
    assert "ended with status 1" in error and "in use" in error
