"""Client processes as their worker sees them; here they are objects that end as a test says."""

import logging
import os
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest
from support.fake_time import FakeTime
from support.in_threads import job, ycsb

from storewise.driver import client_pool
from storewise.driver.client_pool import Pool
from storewise.driver.client_process import Failure, Word
from storewise.errors import EngineError, StorewiseError


class Client:
    """A process that does nothing by itself; `end` is the test's own end of its pipe."""

    def __init__(self, *, target, args, name, daemon):
        _, self.number, connection, self.life, self.counters, _ = args
        self.end = Connection(os.dup(connection.fileno()))
        self.name, self.daemon = name, daemon
        self.pid = 500 + self.number
        self.exitcode = None
        self.joins = []
        self.killed = self.started = False
        self.deaf = False
        Client.all.append(self)

    def start(self):
        if Client.broken == self.number:
            raise OSError(11, "no more processes")
        self.started = True

    def join(self, timeout=None):
        self.joins.append(timeout)
        if self.exitcode is None and not self.deaf and self.counters.stopped():
            self.exitcode = 0

    def kill(self):
        self.killed, self.exitcode = True, -9

    def ends(self, exitcode):
        self.exitcode = exitcode
        self.end.close()


class Context:
    Pipe = staticmethod(Pipe)
    Process = Client


@pytest.fixture
def own_time(monkeypatch):
    own_time = FakeTime()
    Client.all, Client.broken = [], None
    monkeypatch.setattr(client_pool, "get_context", lambda how: Context)
    monkeypatch.setattr(client_pool, "monotonic", own_time.clock)
    monkeypatch.setattr(client_pool, "how_it_ended", lambda code, before, pid: f"ended {code}")
    return own_time


def pool_of(place, check=lambda: None, processes=3):
    its = job(ycsb(processes=processes), place, "load")
    return Pool(its, 2, check, logging.getLogger("pool"))


def test_each_hears_what_is_told_and_answers_are_in_order(own_time, tmp_path):
    pool = pool_of(tmp_path)
    assert pool.pids == {0: 500, 1: 501, 2: 502}
    assert [(c.name, c.started, c.daemon) for c in Client.all] == [
        (f"client-{n}", True, False) for n in range(3)
    ]
    pool.tell(Word.END)
    for client in reversed(Client.all):
        assert client.end.recv() is Word.END
        client.end.send(client.number)
    idle = []
    assert pool.gather(lambda: idle.append(1)) == [0, 1, 2]
    assert idle
    pool.counters.report(2, 1, 5, 50, {"data1": 5, "elsewhere": 1})
    assert (pool.counters.totals(), pool.counters.owned()) == ((5, 50), {"data1": 5})
    for client in Client.all:
        client.exitcode = 0
    pool.finish()
    pool.close()
    assert not any(client.killed for client in Client.all)


def test_what_a_process_said_before_it_ended_is_not_lost(own_time, tmp_path):
    """It ends between two looks: its last word is still in its pipe, and a check sees it first."""
    pool = pool_of(tmp_path)
    for client in Client.all:
        client.end.send(client.number)
    Client.all[1].exitcode = 0
    pool.check()
    pool.check()
    assert pool.gather() == [0, 1, 2]
    pool.close()


def test_a_failure_is_told_also_where_the_pipe_is_broken(own_time, tmp_path):
    pool = pool_of(tmp_path)
    failed = Client.all[1]
    failed.end.send(Failure(EngineError("no room"), "EngineError: no room", "trace"))
    failed.exitcode = 0
    failed.end.close()
    with pytest.raises(EngineError, match="no room"):
        pool.tell(Word.END)
    pool.close()


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
        (-9, "client process 1 (pid 501) ended -9"),
        (3, "client process 1 (pid 501) ended 3 and without a word"),
        (0, "client process 1 (pid 501) ended 0 and without a word"),
        (None, "client process 1 (pid 501) has closed its pipe and goes on"),
    ],
)
def test_one_that_has_gone_is_named(own_time, tmp_path, code, words):
    pool = pool_of(tmp_path)
    gone = Client.all[1]
    gone.exitcode = code
    gone.end.close()
    for ask in (pool.gather, lambda: pool.tell(Word.END)):
        with pytest.raises(StorewiseError) as error:
            ask()
        assert str(error.value) == words
    if code:
        for ask in (pool.check, pool.finish):
            Client.all[0].exitcode = 0
            with pytest.raises(StorewiseError, match="client process 1"):
                ask()
    elif code == 0:
        pool.check()  # it has ended in order, and what it has not said is seen by who waits for it
    pool.close()


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    ("failure", "kind", "words"),
    [
        (Failure(EngineError("no room"), "EngineError: no room", "trace"), EngineError, "no room"),
        (Failure(None, "KeyError: 7", "trace"), RuntimeError, "client process 2 failed: KeyError"),
    ],
)
def test_one_that_has_failed_says_why(own_time, tmp_path, caplog, failure, kind, words, ended):
    """Whether its word is waited for or its end is seen first."""
    failure.trace = "\n".join(f"line {n}" for n in range(50)) + "\n"
    pool = pool_of(tmp_path)
    Client.all[2].end.send(failure)
    if ended:
        Client.all[2].ends(0)
    with pytest.raises(kind, match=words):
        (pool.check if ended else pool.gather)()
    assert f"client process 2 failed: {failure.text}" in caplog.text
    assert "line 20\n" in caplog.text and "line 19\n" not in caplog.text, "its last 30 lines"
    pool.close()


def test_an_end_of_the_pool_is_heard_or_enforced(own_time, tmp_path):
    pool = pool_of(tmp_path)
    Client.all[1].deaf = True
    own_time_passes = Client.all[1].join

    def join(timeout=None):
        own_time.spend(timeout or 0.0)
        own_time_passes(timeout)

    Client.all[1].join = join
    pool.close()
    assert pool.counters.stopped()
    assert [client.killed for client in Client.all] == [False, True, False]
    assert [client.joins[0] for client in Client.all] == [2.0, 2.0, 0.0]
    assert all(client.joins[-1] is None for client in Client.all), "none is left behind"
    for client in Client.all:
        with pytest.raises(EOFError):
            client.end.recv()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(Client.all[0].life[0])


def test_where_one_cannot_be_started_the_others_end(own_time, tmp_path):
    Client.broken = 2
    with pytest.raises(OSError, match="no more processes"):
        pool_of(tmp_path)
    assert [client.exitcode for client in Client.all] == [0, 0, None]
    assert not Client.all[0].killed
