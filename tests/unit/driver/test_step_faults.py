"""What is done to servers around a step: restarts, slowed and killed nodes, and what is told."""

import logging
from typing import Any

import pytest
from support.in_threads import job, ycsb

from storewise.driver import step_faults
from storewise.driver.results import ProcessResult, StepResult
from storewise.driver.step_faults import StepFaults, mark_successes
from storewise.driver.worker_job import Step
from storewise.engines.registry import ENGINES
from storewise.errors import EngineError
from storewise.metrics.outages import BIN
from storewise.metrics.recorder import NS
from storewise.session.faults.orders import Answer, NodeOrder
from storewise.study.sweep import Clients
from storewise.workloads.contract import Operation, PhaseParams

SLOW = {"slow": {"how": "cpu", "nodes": 2}}


class Orders:
    """Keeps what is ordered, in the order of barriers and orders."""

    heard: list[Any]

    def __init__(self, live, check, *, engine, data_roles):
        assert (live.name, data_roles) == ("live", ("data",))
        self.nodes = lambda: ("data0", "data1")
        self.restart = lambda: self.heard.append("restart")

    def slow(self, slow):
        self.heard.append(("slow", slow.how))
        return self.answers(self.nodes())

    def stop_slow(self, names):
        self.heard.append(("stop_slow", names))
        return self.answers(names, slow_cpu=2.0, unknown=1.0)

    def give(self, what, names, **how):
        self.heard.append((what, names, how))
        return NodeOrder("o", what, tuple(names), again=how.get("again", True))

    def await_done(self, order):
        self.heard.append(f"{order.what} done")
        return self.answers(order.nodes, recovery_time=3.0, unknown=9.0)

    def answers(self, names, **figures):
        return {name: Answer("o", name, "done", figures=figures) for name in names}


@pytest.fixture
def heard(monkeypatch):
    Orders.heard = []
    monkeypatch.setattr(step_faults, "Orders", Orders)
    monkeypatch.setitem(ENGINES, "memory", "support.in_threads:MemoryEngine")
    return Orders.heard


def faults(heard, place, worker=0, *, embedded=False):
    engine = "sqlite" if embedded else "memory"
    its = job(ycsb({"name": "a"}, workers=2, engine=engine), place, "a", worker)
    meet = lambda name: heard.append(f"meet {name}")  # noqa: E731
    return StepFaults(its, meet, lambda: None, logging.getLogger("f"))


def step(number=4, **params):
    return Step(number, PhaseParams(**params), Clients(1))


def measured(of, marks=None):
    """A step of 2 s from 0."""
    processes = [ProcessResult(end=2 * NS, marks=marks or {})]
    return StepResult(of, 0, 0.0, processes)


def test_all_wait_while_the_first_worker_has_the_servers_restarted(heard, tmp_path):
    for worker in (0, 1):
        faults(heard, tmp_path, worker).restart(step(restart=True))
    first = ["meet a-4-closed", "restart", "meet a-4-restarted"]
    assert heard == [*first, "meet a-4-closed", "meet a-4-restarted"]
    faults(heard, tmp_path, embedded=True).restart(step(restart=True))
    assert len(heard) == 5, "a store in the clients is closed with them"


def test_nodes_are_slowed_from_before_the_step_until_all_have_worked(heard, tmp_path):
    its, slowed, plain = faults(heard, tmp_path), step(**SLOW), step()
    its.begin(plain)
    its.started(plain, 100.0)
    assert its.end(measured(plain)) == heard == its.crashes == []
    its.begin(slowed)
    its.started(slowed, 100.0)
    samples = its.end(measured(slowed))
    nodes, ends = ("data0", "data1"), ["meet a-4-worked", "meet a-4-ended"]
    assert heard == [("slow", "cpu"), ends[0], ("stop_slow", nodes), ends[1]]
    expected = [("a", "slow_cpu", 2.0, "s", 4, node) for node in nodes]
    assert [(s.phase, s.metric, s.value, s.unit, s.step, s.node) for s in samples] == expected
    heard.clear()
    assert its.end(measured(step(**SLOW))) == [], "what was stopped is not stopped again"
    for other in (faults(heard, tmp_path, 1), faults(heard, tmp_path, embedded=True)):
        other.begin(slowed)
        assert other.end(measured(slowed)) == []
    faults(heard, tmp_path).begin(step(slow={"how": "cpu", "nodes": 0}))
    assert heard == ends * 3


@pytest.mark.parametrize("again", [True, False])
def test_a_node_is_killed_at_its_moment_and_what_clients_saw_is_told(heard, tmp_path, again):
    its = faults(heard, tmp_path)
    crash = step(crash={"node": "data1", "after": 0.5, "restart": again})
    its.begin(crash)
    its.started(crash, 100.0)
    # Successes each 5 ms but between 0.6 and 1.5 s; of data1 none from 0.6 s on.
    bins = set(range(120)) | set(range(300, 400))
    samples = its.end(measured(crash, {"": bins, "data1": set(range(120)), "data0": bins}))
    kill = ("kill", ["data1"], {"at": 100.5, "again": again})
    started = [] if again else [("start", ["data1"], {}), "start done"]
    assert heard == [kill, "meet a-4-worked", "kill done", *started, "meet a-4-ended"]
    told = {(s.metric, s.node, s.worker): s.value for s in samples}
    outages = {None: 0.9, "data0": 0.9, "data1": 1.4}
    seen = {("unavailable_time", node, 0): pytest.approx(s) for node, s in outages.items()}
    assert told == {("recovery_time", "data1", None): 3.0, **seen}
    (one,) = its.crashes
    assert (one["step"], one["node"], one["after"]) == (4, "data1", 0.5)
    assert one["outages"][""] == [(pytest.approx(0.6), pytest.approx(1.5))]
    assert its.end(measured(step(5, **SLOW))) == []


def test_another_worker_gives_no_order_and_knows_the_same_victim(heard, tmp_path):
    crash = step(crash={"node": "random", "after": (0.1, 0.9)})
    places = {"first": (0, False), "second": (1, False), "embedded": (0, True)}
    its = {name: faults(heard, tmp_path, w, embedded=e) for name, (w, e) in places.items()}
    for one in its.values():
        one.started(crash, 100.0)
        assert bool(one.end(measured(crash))) == (one is not its["embedded"])
    first, second = (its[name].crashes[0] for name in ("first", "second"))
    assert (first["node"], first["after"]) == (second["node"], second["after"])
    assert its["embedded"].crashes == []
    (kill,) = (one for one in heard if one[0] == "kill")
    assert kill[1] == [first["node"]]
    worked, ended = "meet a-4-worked", "meet a-4-ended"
    assert heard == [kill, worked, "kill done", ended, worked, ended, worked, ended]


def test_marks_are_of_successes_by_owner(monkeypatch):
    now, marks = [0], {}
    monkeypatch.setattr(step_faults, "perf_counter_ns", lambda: now[0])

    def fail():
        raise EngineError("gone")

    owners = ["n1", None, "n2", "n2"]
    calls = [lambda: 7, lambda: 7, lambda: 7, fail]
    operations = [Operation("get", call, 1, 5, of) for call, of in zip(calls, owners, strict=True)]
    for at, one in enumerate(mark_successes(operations, marks)):
        now[0] = at * BIN + 1
        assert (one.name, one.bytes, one.owner) == ("get", 5, owners[at])
        if at < 3:
            assert one.call() == 7
        else:
            with pytest.raises(EngineError):
                one.call()
    assert marks == {"": {0, 1, 2}, "n1": {0}, "n2": {2}}
