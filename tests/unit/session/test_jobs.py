"""The jobs of a session without servers: what each waits for, and that an abort ends each wait."""

import logging
import os
import shutil
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from support.fake_time import FakeTime
from support.ring_engine import LastingEngine
from support.session import MadeHost
from support.tcp_engine import TcpEngine, node_of

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import NodeSpec
from storewise.engines.registry import ENGINES
from storewise.errors import Aborted, ConfigError, EngineError, StorewiseError
from storewise.metrics.host import host_name
from storewise.metrics.sampler import elect
from storewise.metrics.schema import read_part
from storewise.session.coordination import cluster
from storewise.session.coordination.barrier import Barrier
from storewise.session.coordination.liveness import FINISHED, Session
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.faults.executor import FaultExecutor
from storewise.session.faults.orders import Answer, Orders, answers_to, publish_answer
from storewise.session.jobs import node as node_module
from storewise.session.jobs import sidecar
from storewise.session.jobs.close import run_close
from storewise.session.jobs.form import run_form
from storewise.session.jobs.node import NodeJob, reserve_of, run_node
from storewise.session.jobs.sidecar import phase_cluster
from storewise.session.server.server import Server, disk_is_full
from storewise.study.trial import Phase, Trial

LOG = logging.getLogger("test")
SESSION = Session("t", "run", 25.0, 990.0)
ENDS = ("abort", "failing", "other", "")


@pytest.fixture
def live(tmp_path, monkeypatch):
    """The live directory of a trial whose waits let no real time pass."""
    engines = {
        "tcp": "tcp_engine:Tcp",
        "ring": "ring_engine:Ring",
        "lasting": "ring_engine:Lasting",
    }
    for name, place in engines.items():
        monkeypatch.setitem(ENGINES, name, f"support.{place}Engine")
    directory = tmp_path / "live" / "t"
    directory.mkdir(parents=True)
    cluster.make_credentials(directory)
    naps = iter(range(1000))
    monkeypatch.setattr(time, "sleep", lambda seconds: next(naps))
    return directory


def trial(engine="tcp", nodes=2, **changes):
    return Trial(
        study="s", id="t", engine=engine, workload="alignments", repeat=1, seed=1, nodes=nodes,
        factors={"engine": engine}, consistency="durable", phases=[Phase(name="write")], **changes,
    )  # fmt: skip


class Looks:
    """A job's check, which ends its trial at a certain look, or does something there."""

    def __init__(self, abort_at=0, **actions):
        self.number, self.abort_at = 0, abort_at
        self.actions = {int(at.removeprefix("at")): do for at, do in actions.items()}

    def __call__(self):
        self.number += 1
        self.actions.get(self.number, lambda: None)()
        assert self.number < 1000, "a wait without end"
        if self.number == self.abort_at:
            raise Aborted("another job has failed")


def job(live, check=lambda: None):
    return TrialJob(check, LOG, live, SESSION, lambda error: None)


def ready(live, *names, at=1000.0, host=""):
    for name in names:
        endpoint = Endpoint(name[:-1], int(name[-1]), host or host_name(), "127.0.0.1", 20000)
        record = cluster.ReadyNode(name, endpoint, "Tcp 1", "nothing", 1, at)
        cluster.publish(live, cluster.ENDPOINTS, name, record)


def gone(live, name):
    cluster.publish(live, cluster.GONE, name, cluster.GoneNode(name, "h", 1.0, 7, ""))


def close(live, check, own_time):
    result = live.parent / "close.parquet"
    ready(live, "data0", "data1")
    formed = cluster.FormedCluster((), {}, {}, 1000.0, 4.0, ("odd",))
    cluster.write_cluster(live / cluster.CLUSTER, formed)
    times = {"clock": own_time.clock, "sleep": own_time.sleep}
    run_close(trial(), live / cluster.CLUSTER, result, job(live, check), **times)
    return result


def test_closing_waits_for_every_node_keeps_the_times_and_has_an_end(live):
    with pytest.raises(Aborted, match="another job has failed"):
        close(live, Looks(abort_at=3), FakeTime())
    gone(live, "data0")
    own_time = FakeTime()
    with pytest.raises(StorewiseError, match=r"^data1 on host \S+: told to end 120 s ago"):
        close(live, Looks(), own_time)
    assert 120 <= sum(own_time.sleeps) <= 121
    assert not (live / FINISHED).exists()
    (live / cluster.GONE / "data0.json").unlink()
    (live / cluster.STOP).unlink()
    check = Looks(at2=lambda: gone(live, "data1"), at4=lambda: gone(live, "data0"))
    table, conditions = read_part(close(live, check, FakeTime()))
    assert (live / cluster.STOP).exists() and (live / FINISHED).exists()
    times = {row["metric"]: row["value"] for row in table.to_pylist()}
    assert times == {"form_time": 4.0, "formed_time": 10.0, "close_time": 2.0}
    assert conditions["nodes"]["data1"]["version"] == "Tcp 1"
    assert conditions["warnings"] == ["odd"]


def form(live, check):
    place = live / cluster.CLUSTER
    run_form(trial("ring"), place, live.parent, job(live, check), sleep=FakeTime().sleep)
    return cluster.read_cluster(place)


def test_forming_waits_for_every_node(live, monkeypatch):
    monkeypatch.setattr(TcpEngine, "not_ready_reason", lambda *given: None)
    check = Looks(at2=lambda: ready(live, "data0"), at4=lambda: ready(live, "data1", at=1000.4))
    formed = form(live, check)
    assert [endpoint.name for endpoint in formed.endpoints] == ["data0", "data1"]
    assert formed.formed_at - formed.form_seconds == pytest.approx(1000.4, abs=1e-3)
    assert "data0, data1" in formed.warnings[0], "they share a host"
    ready(live, "data1", host="elsewhere")
    with pytest.raises(StorewiseError, match="data1 listens on loopback of host elsewhere"):
        form(live, Looks())


def test_a_node_that_answers_its_own_host_only_is_named_with_what_was_heard(live, monkeypatch):
    monkeypatch.setattr(TcpEngine, "not_ready_reason", lambda *given: "no route to host")
    monkeypatch.setattr(TcpEngine, "ready_seconds", -1.0)
    for node in ("data0", "data1"):
        ready(live, node)
    with pytest.raises(EngineError, match=r"data0 on host .*not to this host.*: no route to host"):
        form(live, Looks())


def test_forming_ends_with_its_trial(live):
    ready(live, "data0")
    with pytest.raises(Aborted):
        form(live, Looks(abort_at=5))


class MadeServer:
    """What a node's job sees of its server; `failing` says how it ended by itself."""

    def __init__(self, live, directory, spec):
        self.directory, self.failing, self.done = directory, "", []
        self.node = replace(node_of(live), directory=directory, spec=spec)
        self.pid, self.started_at = os.getpid(), time.time()
        self.endpoint = Endpoint(spec.role, 0, host_name(), "127.0.0.1", 20000)
        self.launch = SimpleNamespace(cleanup=())
        self.stop = self.kill = lambda: self.done.append("stop")
        self.again = lambda check: self.done.append("again")

    def join(self, endpoints, check):
        context = SimpleNamespace(endpoints=endpoints)
        self.engine.join(self.node, context, lambda *given: "joined")

    def failure(self, wait=0.0):
        return self.failing or None

    def raise_if_ended(self, wait=0.0):
        if self.failing:
            raise EngineError(self.failing)

    def remove(self):
        self.done.append("remove")
        shutil.rmtree(self.directory)
        return ""

    def end(self):
        self.stop()
        self.remove()


class RunningNode:
    """A node's job in this process, with a server that is made."""

    def __init__(self, live, monkeypatch, check, trial, *, node="data0", tick=0, **job):
        self.live, self.check, self.told = live, check, []
        self.own_time = FakeTime(tick=tick)
        base = live.parent
        places = (base / "node.parquet", base / "server.log", base / "kept")
        self.job = NodeJob(trial, node, *places, **job)
        elect(live, "node-canary")
        elect(live, "node-sampler")
        monkeypatch.setattr(node_module, "start_server", self.start_server)

    def start_server(self, engine, node, *given, meet, **more):
        self.server = MadeServer(self.live, node.directory, node.spec)
        self.server.engine = engine
        if meet is not None:
            self.peers = meet(self.server.endpoint)
        return self.server

    def run(self):
        def tell(error):
            assert not self.server.done, "the trial is told before its server ends"
            self.told.append(str(error))

        frame = TrialJob(self.check, LOG, self.live, SESSION, tell)
        run_node(self.job, frame, clock=self.own_time.clock)


@pytest.fixture
def running(live, monkeypatch):
    yield partial(RunningNode, live, monkeypatch)
    assert not [t for t in threading.enumerate() if "sampl" in t.name.lower()], "it has ended"


def test_a_node_serves_until_it_is_closed(live, running):
    told = Looks(at3=(live / cluster.LOADED).touch, at6=(live / cluster.STOP).touch)
    one = running(told, trial(nodes=1))
    one.run()
    assert one.server.done == ["stop", "remove"] and one.told == []
    assert cluster.gone_nodes(live)["data0"].kept == ""
    table, conditions = read_part(one.job.result)
    assert {"ready_time", "stop_time", "queue_time"} <= set(table["metric"].to_pylist())
    assert conditions["versions"] == {"server": "Tcp 1"}


@pytest.mark.parametrize(
    ("end", "keep"),
    [
        ("another job has failed", False),
        ("another job has failed", True),
        ("data0: the server was ended by SIGKILL", False),
    ],
)
def test_an_abort_or_its_server_s_end_ends_a_node_that_serves(live, running, end, keep):
    def fail():
        one.server.failing = end if "data0" in end else ""

    one = running(Looks(at3=fail, abort_at=4), trial(nodes=1, keep_data=keep))
    with pytest.raises((Aborted, EngineError), match=end):
        one.run()
    assert one.server.done == ["stop", "remove"], "what is aborted is not kept"
    assert one.told == [end]
    assert "data0" in cluster.gone_nodes(live)


def test_a_node_meets_the_others_before_it_starts(live, running):
    other = Endpoint("data", 1, "h", "127.0.0.2", 20001)
    told = Looks(
        at3=lambda: cluster.publish(live, cluster.ADDRESSES, "data1", other),
        at5=lambda: cluster.publish(live, cluster.ANSWERING, "data1", other),
        at8=(live / cluster.STOP).touch,
    )
    one = running(told, trial("ring"))
    one.run()
    assert [endpoint.name for endpoint in one.peers] == ["data0", "data1"]
    assert one.check.number == 9
    (live / cluster.STOP).unlink()
    # The other one has not said that it answers, then not where it listens.
    for kind in (cluster.ANSWERING, cluster.ADDRESSES):
        (live / kind / "data1.json").unlink()
        alone = running(Looks(abort_at=5), trial("ring"))
        with pytest.raises(Aborted):
            alone.run()
        assert hasattr(alone, "peers") == (kind == cluster.ANSWERING)
        assert not list(live.glob("nodes/*/"))


@pytest.mark.parametrize(
    ("end", "error"), [("", None), ("abort", Aborted), ("failing", EngineError), ("patience", None)]
)
def test_a_node_stays_until_the_nodes_that_need_it_have_ended(live, running, end, error):
    (live / cluster.STOP).touch()
    actions = {
        "": lambda: gone(live, "data0"),
        "failing": lambda: vars(last.server).update(failing="f"),
    }
    check = Looks(abort_at=6 if end == "abort" else 0, at4=actions.get(end, lambda: None))
    tick = 3600 * 10**9 if end == "patience" else 0
    last = running(check, trial("lasting"), node="last0", tick=tick)
    with pytest.raises(error) if error else nullcontext():
        last.run()
    assert last.server.done == ["stop", "remove"]
    assert end or check.number == 4, "it has waited for them"


def test_a_wall_time_ends_a_node_in_order_and_says_what_was_waited_for(live, running):
    assert reserve_of(40) == 10 and reserve_of(86400) == 90
    for waited in ("data1, form", "write.1"):
        one = running(Looks(), trial(workers=2), runtime_minutes=60, tick=10**12)
        with pytest.raises(StorewiseError, match="stopped in order before its wall time") as caught:
            one.run()
        assert one.server.done == ["stop", "remove"]
        assert one.told == [str(caught.value)]
        assert f", and {waited} had not started yet (still queued?)" in str(caught.value)
        with suppress(Aborted):
            Barrier(live, ["0", "1"], "write-0").wait("0", Looks(abort_at=1))


def test_what_a_profile_may_get_wrong(live, running, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    one = trial(nodes=1)
    wrong = [
        (one, {"scratch": "$NOWHERE/x"}, ConfigError, r"scratch: '\$NOWHERE/x' names a variable"),
        (one, {"scratch": "tmp/x"}, ConfigError, "scratch: 'tmp/x' is no absolute path"),
        (one, {"scratch": f"{tmp_path}/file"}, EngineError, "cannot make .*Not a dir.*`scratch`"),
        (one, {"interface": "eth77"}, ConfigError, "no 'eth77'; it has"),
        (trial(), {"interface": "auto"}, ConfigError, "without authentication.*allow_open_ports"),
        (trial("ring"), {"interface": "auto"}, ConfigError, "gossip: who rea"),
    ]
    for its, options, error, words in wrong:
        if options == {"interface": "auto"}:
            monkeypatch.setattr(node_module, "address_of", lambda *given: "192.0.2.1")
        with pytest.raises(error, match=words):
            running(Looks(), its, **options).run()
    assert not list(live.glob("nodes/*/"))


@pytest.fixture
def router(live, monkeypatch):
    monkeypatch.setattr(
        sidecar, "node_specs", lambda trial: (NodeSpec("router", 0, placement="worker"),)
    )
    cluster.write_cluster(live / cluster.CLUSTER, cluster.FormedCluster((), {}, {}, 0.0, 0.0))


def test_a_worker_waits_for_the_router_of_its_host(live, router):
    assert elect(live, "beside-write-router"), "another worker starts it"
    here = Endpoint("router", 0, host_name(), "127.0.0.1", 20000)
    place = {"phase": "write", "worker": 1, "workers": 2}

    def work(check):
        with phase_cluster(trial(), live, job(live, check), **place) as served:
            (live / "barriers" / "open").mkdir(parents=True)
            (live / "barriers" / "open" / "write-done").touch()
            return served.cluster.endpoints

    with pytest.raises(Aborted):
        work(Looks(abort_at=3))
    started = f"write.router.{host_name()}"
    assert work(Looks(at3=lambda: cluster.publish(live, "beside", started, here))) == (here,)


def test_the_starter_of_a_router_tells_its_end_before_it_ends_it(live, router, monkeypatch):
    made, told = [], []

    def start(engine, node, log, check, live):
        made.append(MadeServer(live, node.directory, node.spec))
        return made[-1]

    monkeypatch.setattr(sidecar, "start_server", start)
    frame = TrialJob(
        lambda: None, LOG, live, SESSION, lambda error: told.append((str(error), *made[0].done))
    )
    work = phase_cluster(trial(), live, frame, phase="write", worker=0, workers=2)
    with pytest.raises(EngineError, match="it fell"), work as served:
        assert served.cluster.endpoints == (made[0].endpoint,)
        assert served.pids == (made[0].pid,)
        served.check()
        made[0].failing = "it fell"
        served.check()
    assert (told, made[0].done) == ([("it fell",)], ["stop", "remove"])


def test_an_abort_ends_the_wait_for_a_server_s_answer(live, monkeypatch):
    monkeypatch.setattr(TcpEngine, "not_ready_reason", lambda *given: "the last words")
    own_time = FakeTime(tick=10**9)
    server = Server(TcpEngine(), node_of(live), live / "log", clock=own_time.clock)
    with pytest.raises(Aborted):
        server.wait_ready(Looks(abort_at=3))
    with pytest.raises(
        EngineError, match=r"was not ready at 127\.0\.0\.1:0 within 5 s: the last words"
    ):
        server.wait_ready(Looks())


def test_who_gives_an_order_waits_for_every_node(live):
    ready(live, "data0", "data1")
    own_time, check = FakeTime(), Looks()
    orders = Orders(live, check, system=MadeHost(own_time=own_time))
    order = orders.give("restart")
    assert order.nodes == ("data0", "data1")

    def answered(node, state, error=""):
        return lambda: publish_answer(live, Answer(order.id, node, state, error))

    done = answered("data1", "done")
    check.actions = {2: answered("data0", "done"), 3: answered("data1", "begun"), 900: done}
    assert set(orders.await_done(order)) == {"data0", "data1"}
    assert own_time.now > 1000 + 60, "one that has begun may take its time"
    check.abort_at = check.number + 2
    answered("data1", "stopped")()
    with pytest.raises(Aborted):
        orders.await_done(order)
    answered("data1", "failed", "no space")()
    with pytest.raises(EngineError, match="data1 was told to restart: no space"):
        orders.await_done(order)
    check.number, check.actions = 0, {}
    with pytest.raises(EngineError, match="data1: told to restart 60 s ago and has not begun"):
        orders.await_done(orders.give("restart", ["data1"]))
    with pytest.raises(EngineError, match="no node data7; it has data0, data1"):
        orders.give("kill", ["data7"])


@pytest.fixture
def executor(live):
    """Of the node `last0`, which stops after the others; what it has done with its server."""
    specs = LastingEngine().roles(trial().topology, {})
    ready(live, "data0", "last0")
    server, restarted = MadeServer(live, live / "last", specs[0]), []

    def make(check=lambda: None):
        how = {"log": LOG, "offset": 0.0, "restarted": lambda: restarted.append(1)}
        return FaultExecutor(server, specs, live, check=check, **how)

    return SimpleNamespace(make=make, server=server, restarted=restarted)


@pytest.mark.parametrize(
    ("what", "end"), [*(("kill", end) for end in ENDS[:2]), *(("restart", end) for end in ENDS)]
)
def test_a_node_that_waits_with_an_order_ends_with_its_trial(live, executor, what, end):
    """A kill waits for its moment, a restart for the nodes that are to stop before."""
    server = executor.server
    order = Orders(live).give(what, ["last0", "data0"], at=1e12 if what == "kill" else None)

    def act():
        server.failing = "it fell" * (end == "failing")
        state = "failed" if end == "other" else "stopped"
        if end in ("", "other"):
            publish_answer(live, Answer(order.id, "data0", state, "no space"))

    node = executor.make(Looks(abort_at=4 if end == "abort" else 0, at2=act))
    ended = pytest.raises((Aborted, EngineError), match=r"another job|it fell|data0 could not")
    with ended if end else nullcontext():
        node.do_orders()
    assert cluster.ready_nodes(live)
    assert (answers_to(live, order)["last0"].state == "done") == (not end)
    done = ([], []) if end else (["stop", "again"], [1])
    assert (server.done, executor.restarted) == done


def test_a_killed_server_s_times_are_told_and_it_is_down_until_it_is_told_to_start(live, executor):
    node, server, orders = executor.make(), executor.server, Orders(live)

    def told(what, **how):
        order = orders.give(what, ["last0"], **how)
        node.do_orders()
        return order, answers_to(live, order)["last0"].figures

    order, figures = told("kill", at=time.time() - 1)
    assert order.at <= figures["killed_at"] <= figures["answering_at"]
    recovery = figures["answering_at"] - figures["killed_at"]
    assert figures["recovery_time"] == pytest.approx(recovery, abs=1e-5)
    assert set(told("kill", again=False)[1]) == {"killed_at"}
    server.failing = "it has been killed"
    assert node.failure(0.0) is None, "by order"
    told("start")
    assert node.failure(0.0) == server.failing
    assert (server.done, executor.restarted) == (["stop", "again", "stop", "again"], [1, 1])
    with pytest.raises(EngineError, match="last0: told to start its server, which runs"):
        told("start")


def test_a_directory_that_was_removed_is_no_full_disk(tmp_path, monkeypatch):
    assert not disk_is_full(tmp_path / "gone")
    for free, full in ((1 << 20, True), (1 << 30, False)):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr("storewise.session.server.server.disk_usage", lambda _, u=usage: u)
        assert disk_is_full(tmp_path) == full
