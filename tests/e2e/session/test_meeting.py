"""Nodes that meet before they start and settle beside their servers."""

import logging
import re
import socket
import threading
import time

import pytest
from support.driving import trial
from support.waiting import wait_until

from storewise.engines.registry import ENGINES
from storewise.errors import Aborted, EngineError
from storewise.metrics.schema import read_part
from storewise.session.coordination.cluster import (
    ADDRESSES,
    STOP,
    endpoints_of,
    gone_nodes,
    make_credentials,
    ready_nodes,
)
from storewise.session.coordination.liveness import Session
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs.node import NodeJob, run_node
from storewise.study.trial import node_jobs


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.setitem(ENGINES, "ring", "support.ring_engine:RingEngine")
    directory = tmp_path / "live" / "t"
    directory.mkdir(parents=True)
    make_credentials(directory)
    return directory


def ring_trial(nodes, **settings):
    return trial("ring", [], nodes=nodes, consistency="durable", settings=settings)


class Jobs:
    """Jobs of nodes, each in a thread."""

    def __init__(self, live, trial):
        self.live, self.errors = live, dict[str, BaseException]()
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(trial, spec.name)) for spec in node_jobs(trial)
        ]

    def _run(self, trial, node):
        base = self.live.parent
        files = (base / f"node.{node}.parquet", base / f"{node}.server.log", base / "kept" / node)

        def check():
            if self._ended.is_set():
                raise Aborted("the test ends it")

        session = Session("t", "run", 25.0, time.time())
        try:
            log = logging.getLogger(node)
            run_node(
                NodeJob(trial, node, *files),
                TrialJob(check, log, self.live, session, lambda error: None),
            )
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.errors[node] = error
            self._ended.set()

    def start(self, first=0, last=None):
        for thread in self._threads[first:last]:
            thread.start()

    def join(self):
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(30)
                assert not thread.is_alive()


def test_no_node_starts_before_all_are_known_and_none_is_ready_before_all_answer(live):
    jobs = Jobs(live, ring_trial(3))
    jobs.start(0, 2)
    wait_until(lambda: len(endpoints_of(live, ADDRESSES)) == 2, 20, "two have said where")
    assert not list(live.glob("nodes/data*/server.py"))
    jobs.start(2)
    wait_until(lambda: len(ready_nodes(live)) == 3 or jobs.errors, 20, "all are ready")
    assert not jobs.errors
    ready = ready_nodes(live)
    message = {name: (live / "nodes" / name / "met").read_text() for name in ready}
    assert len(set(message.values())) == 1, "all have met the same nodes"
    lines = message["data0"].splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["data0", "127.0.0.1"],
        ["data1", "127.0.0.2"],
        ["data2", "127.0.0.3"],
    ]
    for line, node in zip(lines, ready.values(), strict=True):
        ports = [int(word) for word in line.split()[2:]]
        assert ports == [node.endpoint.port, *node.endpoint.ports.values()]
        assert len(set(ports)) == 3
    for name in ready:
        settled = (live / "nodes" / name / "settled").read_text()
        assert settled == "data0 data1 data2: joined"
    (live / STOP).touch()
    jobs.join()
    assert set(gone_nodes(live)) == set(ready) and not jobs.errors
    _, conditions = read_part(live.parent / "node.data1.parquet")
    assert {k: p["guard"] for k, p in conditions["ports"].items()} == {
        "gossip": "none",
        "http": "password",
    }
    assert conditions["open_ports"] == {"gossip": "join"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"settle": "1/0"}, r"data\d: .*print\(1/0\)' ended with status 1 .*ZeroDivisionError"),
        (
            {"settle": "input() or __import__('time').sleep(60)", "seconds": 1.0},
            r"ended with status 1",
        ),
        ({"settle": "__import__('time').sleep(60)", "seconds": 0.5}, r"took over 0\.5 s"),
        (
            {"settle": "open('fall', 'w') and __import__('time').sleep(60)", "words": ["fall"]},
            r"the server of Tcp .* ended with status 7",
        ),
    ],
)
def test_what_goes_wrong_in_settling(live, settings, message, monkeypatch):
    from support import tcp_engine

    falls = tcp_engine.SERVER.replace(
        "while True:",
        'if "fall" in words:\n    import threading\n'
        "    def fall():\n"
        "        while not os.path.exists('fall'): time.sleep(0.01)\n"
        "        os._exit(7)\n"
        "    threading.Thread(target=fall).start()\nwhile True:",
    )
    monkeypatch.setattr(tcp_engine, "SERVER", falls)
    jobs = Jobs(live, ring_trial(2, **settings))
    jobs.start()
    jobs.join()
    causes = [str(e).replace("\n", " ") for e in jobs.errors.values() if isinstance(e, EngineError)]
    assert causes, jobs.errors
    assert any(re.search(message, text) for text in causes), causes
    assert not ready_nodes(live)
    assert not list(live.glob("nodes/data*/server.py")), "its directory is removed"


def test_a_port_that_others_were_told_of_is_not_changed(live, monkeypatch):
    """Somebody takes the port between the announcement and the start: the attempt fails."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        chosen = iter([port, port + 1, port + 2])
        monkeypatch.setattr(
            "storewise.session.server.server.free_port", lambda *given: next(chosen)
        )
        jobs = Jobs(live, ring_trial(1))
        jobs.start()
        jobs.join()
    (error,) = jobs.errors.values()
    assert "ended with status 1" in str(error) and "in use" in str(error)
