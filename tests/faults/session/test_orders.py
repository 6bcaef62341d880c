"""Orders to be slow, which nodes' jobs carry out with real processes. Restarts and kills of servers
are in tests/e2e/studies/test_two_stores.py, waits in tests/unit/session/test_jobs.py."""

import logging
import threading
import time
from types import SimpleNamespace

import psutil
import pytest
from support.tcp_engine import node_of
from support.waiting import wait_until

from storewise.engines.contract.engine import Endpoint
from storewise.errors import EngineError
from storewise.session.coordination.cluster import ENDPOINTS, ReadyNode, publish
from storewise.session.faults.executor import FaultExecutor
from storewise.session.faults.orders import Orders
from storewise.workloads.faults import Slow


@pytest.fixture
def node(tmp_path):
    """The loop of a node's job, in a thread, while its session is open; the server is healthy."""
    server = SimpleNamespace(
        node=node_of(tmp_path), log=tmp_path / "log", failure=lambda wait: None
    )
    (tmp_path / "data0").mkdir()
    ended, its = threading.Event(), SimpleNamespace(error=None)
    how = {"check": lambda: None, "restarted": lambda: None, "log": logging.getLogger("test")}
    executor = FaultExecutor(server, (), tmp_path, offset=0.0, **how)

    def look():
        try:
            while not ended.wait(0.05):
                executor.do_orders()
        except EngineError as error:
            its.error = error
        finally:
            assert executor.end() == ""

    endpoint = Endpoint("data", 0, "h", "127.0.0.1", 1)
    publish(tmp_path, ENDPOINTS, "data0", ReadyNode("data0", endpoint, "", "", 1, time.time()))
    thread = threading.Thread(target=look)
    thread.start()
    yield its
    ended.set()
    thread.join(30)
    assert not (tmp_path / "data0.slow").exists()


def slowers():
    """The processes that slow this host down."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "storewise.session.faults.background_load" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.mark.parametrize(
    ("slow", "least"),
    [
        (Slow(how="disk", file_mb=4), {"slow_bytes": 1 << 20, "slow_syncs": 1}),
        (Slow(how="cpu", processes=2), {"slow_cpu": 1e-9, "slow_processes": 2}),
    ],
    ids=["disk", "cpu"],
)
def test_a_node_is_slowed_and_left_as_it_was(slow, least, node, tmp_path):
    orders = Orders(tmp_path)
    orders.slow(slow)
    directory = tmp_path / "data0.slow"
    working = slowers()
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
    assert node.error is None


def test_slowing_that_cannot_be_is_told_to_the_asker_and_one_that_ends_early_ends_the_node(
    node, tmp_path
):
    orders = Orders(tmp_path)
    with pytest.raises(EngineError, match=r"(?s)data0 was told to be slow.*does not fit"):
        orders.slow(Slow(how="disk", file_mb=1 << 40))
    assert node.error is None  # the server itself is well
    orders.slow(Slow(how="cpu", processes=1))
    for process in slowers():
        process.kill()
    wait_until(lambda: node.error is not None, 30, "the node's job has noticed")
    assert "ended early" in str(node.error)
