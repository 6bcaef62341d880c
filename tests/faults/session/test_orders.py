"""Orders to nodes: servers killed and slowed by the jobs that look after them. A restart of all is
in tests/e2e/studies/test_two_stores.py."""

import logging
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import count

import psutil
import pytest
from support.tcp_engine import TcpEngine, node_of
from support.waiting import wait_until

from storewise.engines.contract.server import NodeSpec
from storewise.errors import EngineError
from storewise.session.coordination.cluster import ENDPOINTS, ReadyNode, publish
from storewise.session.faults.executor import LOOK_EVERY, FaultExecutor
from storewise.session.faults.orders import Orders
from storewise.session.server.server import start_server
from storewise.workloads.faults import Slow


class NodeLoop:
    """What a node's job does while its session is open, in a thread."""

    def __init__(self, live, spec, specs):
        self.live, self.spec, self.specs = live, spec, specs
        self.error = None
        self.renewals = count(1)
        self._ended = threading.Event()
        self._ready = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        assert self._ready.wait(20)

    def _run(self):
        name = self.spec.name
        node = replace(node_of(self.live), spec=self.spec, directory=self.live / name)
        log = self.live / f"{name}.server.log"
        self.server = start_server(TcpEngine(), node, log, self._check)
        renewed = partial(next, self.renewals)
        how = {"check": self._check, "log": logging.getLogger("test"), "renewed": renewed}
        executor = FaultExecutor(self.server, self.specs, self.live, offset=0.0, **how)
        record = ReadyNode(name, self.server.endpoint, "Tcp 1", "", self.server.pid, time.time())
        publish(self.live, ENDPOINTS, name, record)
        self._ready.set()
        try:
            while not self._ended.is_set():
                if (text := executor.failure(LOOK_EVERY)) is not None:
                    raise EngineError(text)
                executor.look()
        except EngineError as error:
            self.error = error
        finally:
            assert executor.end() == ""
            self.server.stop()
            self.server.remove()

    def _check(self):
        if self._ended.is_set():
            raise EngineError("ended")

    def end(self):
        self._ended.set()
        self.thread.join(30)


@pytest.fixture
def nodes(tmp_path):
    running = {}

    def start(*specs):
        for spec in specs or (NodeSpec("data", 0),):
            running[spec.name] = NodeLoop(tmp_path, spec, specs or (NodeSpec("data", 0),))
        return running

    yield start
    for loop in running.values():
        loop.end()
    left = [p.name for p in tmp_path.iterdir() if p.is_dir() and p.name.startswith("data")]
    assert left == []


def test_a_killed_server_answers_again_and_its_times_are_told(nodes, tmp_path):
    """Killed for good it stays down until it is told to start."""
    (loop,) = nodes().values()
    pid, endpoint = loop.server.pid, loop.server.endpoint
    orders = Orders(tmp_path)
    order = orders.give("kill", ["data0"], at=time.time() + 0.5)
    figures = orders.await_done(order)["data0"].figures
    assert not psutil.pid_exists(pid)
    assert not (loop.server.node.directory / "stopped").exists()
    assert order.at <= figures["killed_at"] < figures["answering_at"]
    recovery = figures["answering_at"] - figures["killed_at"]
    assert figures["recovery_time"] == pytest.approx(recovery, abs=1e-5), "Unix times are rounded"
    orders.await_done(orders.give("kill", ["data0"], again=False))
    assert not TcpEngine().answers(endpoint, loop.server.node.credentials)
    orders.await_done(orders.give("start", ["data0"]))
    assert TcpEngine().answers(endpoint, loop.server.node.credentials)
    assert loop.error is None


@pytest.mark.parametrize(
    ("slow", "least"),
    [
        (Slow(how="disk", file_mb=4), {"slow_bytes": 1 << 20, "slow_syncs": 1}),
        (Slow(how="cpu", processes=2), {"slow_cpu": 1e-9, "slow_processes": 2}),
        (Slow(how="memory", memory_mb=32), {"slow_memory": 32 << 20}),
    ],
    ids=["disk", "cpu", "memory"],
)
def test_a_node_is_slowed_and_left_as_it_was(slow, least, nodes, tmp_path):
    (loop,) = nodes().values()
    orders = Orders(tmp_path)
    orders.slow(slow)
    directory = tmp_path / "data0.slow"
    working = [p for p in psutil.Process().children(recursive=True) if _is_slower(p)]
    assert len(working) == (3 if slow.how == "cpu" else 1)
    if slow.how == "disk":
        wait_until(lambda: (directory / "file").stat().st_size == 4 << 20, 30, "a whole file")
    with pytest.raises(EngineError, match="slowed already"):
        orders.slow(slow)
    figures = orders.stop_slow()["data0"].figures
    assert all(figures[name] >= value for name, value in least.items())
    assert figures.get("slow_processes", 2) == 2
    assert figures["slow_time"] > 0
    assert not directory.exists()
    assert not any(p.is_running() for p in working)
    assert loop.error is None


def _is_slower(process):
    try:
        return "storewise.session.faults.background_load" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_what_goes_wrong_is_told_to_the_asker_or_ends_the_node(nodes, tmp_path):
    lost, slowed = nodes(NodeSpec("data", 0), NodeSpec("data", 1)).values()
    orders = Orders(tmp_path)
    with pytest.raises(EngineError, match=r"(?s)data1 was told to be slow.*does not fit"):
        orders.slow(Slow(how="disk", file_mb=1 << 40, names=("data1",)))
    with pytest.raises(EngineError, match="lower memory_mb"):
        orders.slow(Slow(how="memory", memory_mb=1 << 30, names=("data1",)))
    assert slowed.error is None  # the server itself is well
    orders.slow(Slow(how="cpu", processes=1, names=("data1",)))
    for process in psutil.Process().children(recursive=True):
        if _is_slower(process):
            process.kill()
    wait_until(lambda: slowed.error is not None, 30, "the node's job has noticed")
    assert "ended early" in str(slowed.error)
    program = lost.server.node.directory / "server.py"
    program.write_text("print('no data here'); raise SystemExit(4)")
    with pytest.raises(
        EngineError, match=r"(?s)data0 was told to restart:.*status 4.*no data here"
    ):
        orders.restart(["data0"])
    wait_until(lambda: lost.error is not None, 30, "the node's job has noticed")
