"""Client processes as their worker sees them; here they are objects that end as a test says."""

import logging
import os
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest
from support.fake_time import FakeTime
from support.in_threads import job, ycsb

from storewise import processes
from storewise.driver import client_pool
from storewise.driver.client_pool import Pool
from storewise.driver.client_process import Failure, Message
from storewise.errors import EngineError, StorewiseError


class Client:
    """A process that does nothing by itself; `end` is the test's own end of its pipe."""

    def __init__(self, *, target, args, name, daemon):
        _, self.number, connection, self.counters, _ = args
        self.end = Connection(os.dup(connection.fileno()))
        self.name, self.daemon = name, daemon
        self.pid = 500 + self.number
        self.exitcode, self.joins = None, []
        self.killed = self.started = False
        Client.all.append(self)

    def start(self):
        if Client.broken == self.number:
            raise OSError(11, "no more processes")
        self.started = True

    def join(self, timeout=None):
        self.joins.append(timeout)
        if self.exitcode is None and Client.deaf == self.number:
            Client.time.spend(timeout or 0.0)
        elif self.exitcode is None and self.counters.stopped():
            self.exitcode = 0

    def kill(self):
        self.killed, self.exitcode = True, -9


@pytest.fixture
def own_time(monkeypatch):
    Client.time, Client.all, Client.broken, Client.deaf = FakeTime(), [], None, None
    context = SimpleNamespace(Pipe=Pipe, Process=Client)
    monkeypatch.setattr(client_pool, "get_context", lambda how: context)
    for module in (client_pool, processes):
        monkeypatch.setattr(module, "monotonic", Client.time.clock)
    monkeypatch.setattr(client_pool, "how_it_ended", lambda code, before, pid: f"ended {code}")
    return Client.time


@pytest.fixture
def pool(own_time, tmp_path):
    pool = pool_of(tmp_path)
    yield pool
    pool.close()


def pool_of(place, check=lambda: None):
    return Pool(job(ycsb(processes=3), place, "load"), 2, check, logging.getLogger("pool"))


def test_each_hears_what_is_told_and_answers_are_in_order(pool):
    assert pool.pids == {0: 500, 1: 501, 2: 502}
    started = [(f"client-{n}", True, False) for n in range(3)]
    assert [(c.name, c.started, c.daemon) for c in Client.all] == started
    pool.send(Message.END)
    for client in reversed(Client.all):
        assert client.end.recv() is Message.END
        client.end.send(client.number)
    idle = []
    assert pool.gather(lambda: idle.append(1)) == [0, 1, 2]
    assert idle
    pool.counters.report(2, 1, 5, 50, {"data1": 5, "elsewhere": 1})
    assert pool.counters.totals().tolist() == [5, 50, 0, 5]
    for client in Client.all:
        client.exitcode = 0
    pool.join()


def test_what_a_process_said_before_it_ended_is_not_lost(pool):
    """It ends between two looks: its last word is still in its pipe, and a check sees it first."""
    for client in Client.all:
        client.end.send(client.number)
    Client.all[1].exitcode = 0
    pool.check()
    pool.check()
    assert pool.gather() == [0, 1, 2]


def test_the_trial_is_looked_at_twice_a_second(own_time, tmp_path):
    looks = []
    pool = pool_of(tmp_path, lambda: looks.append(own_time.now))
    for _ in range(12):
        pool.check()
        own_time.spend(0.125)
    assert looks == [1000.0, 1000.5, 1001.0]
    pool.close()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-9, "ended -9"),
        (3, "ended 3 without a message"),
        (0, "ended 0 without a message"),
        (None, "closed its pipe and still runs"),
    ],
)
def test_one_that_has_gone_is_named(pool, code, words):
    other, gone, _ = Client.all
    gone.exitcode = code
    gone.end.close()
    for ask in (pool.check, pool.gather, lambda: pool.send(Message.END)):
        with pytest.raises(StorewiseError, match=rf"^client process 1 \(pid 501\) {words}$"):
            ask()
    if code:
        other.exitcode = 0
        with pytest.raises(StorewiseError, match="client process 1"):
            pool.join()


@pytest.mark.parametrize("seen", ["word", "end", "broken pipe"])
@pytest.mark.parametrize(
    ("failure", "kind", "words"),
    [
        (Failure(EngineError("no room"), ""), EngineError, "no room"),
        (Failure(RuntimeError("KeyError: 7"), ""), RuntimeError, "KeyError"),
    ],
)
def test_one_that_has_failed_says_why(pool, caplog, failure, kind, words, seen):
    failure.trace = "\n".join(f"line {n}" for n in range(50)) + "\n"
    failed = Client.all[2]
    failed.end.send(failure)
    if seen != "word":
        failed.exitcode = 0
        failed.end.close()
    ask = {"word": pool.gather, "end": pool.check}.get(seen, lambda: pool.send(Message.END))
    with pytest.raises(kind, match=words):
        ask()
    assert "client process 2 failed: line 20\n" in caplog.text, "its last 30 lines"


def test_an_end_of_the_pool_is_heard_or_enforced(own_time, tmp_path):
    pool = pool_of(tmp_path)
    Client.deaf = 1
    pool.close()
    assert pool.counters.stopped()
    assert [client.killed for client in Client.all] == [False, True, False]
    assert [client.joins[0] for client in Client.all] == [2.0, 2.0, 0.0]
    assert all(client.joins[-1] is None for client in Client.all), "none is left behind"
    for client in Client.all:
        with pytest.raises(EOFError):
            client.end.recv()


def test_where_one_cannot_be_started_the_others_end(own_time, tmp_path):
    Client.broken = 2
    with pytest.raises(OSError, match="no more processes"):
        pool_of(tmp_path)
    assert [client.exitcode for client in Client.all] == [0, 0, None]
    assert not Client.all[0].killed
