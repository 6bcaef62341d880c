"""Servers beside the clients: one on each worker host, started by one worker and used by all."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tcp_engine import TcpEngine
from support.waiting import wait_until

from storewise.engines.contract.server import NodeSpec
from storewise.errors import EngineError
from storewise.session.coordination.cluster import (
    CLUSTER,
    FormedCluster,
    make_credentials,
    write_cluster,
)
from storewise.session.coordination.liveness import Session
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs import sidecar as beside
from storewise.session.jobs.sidecar import Served, phase_cluster
from storewise.study.trial import Phase, Trial

ROUTER = NodeSpec("router", 0, placement="worker")


def nothing() -> None:
    pass


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A formed session of an engine with a router on each worker host."""
    monkeypatch.setattr(beside, "node_specs", lambda trial: (ROUTER,))
    monkeypatch.setattr(beside, "server_engine", lambda trial: TcpEngine())
    live = tmp_path / "live"
    live.mkdir()
    make_credentials(live)
    write_cluster(live / CLUSTER, FormedCluster((), {}, {}, 0.0, 0.0))
    return live


def trial() -> Trial:
    return Trial(
        study="s",
        id="t",
        engine="null",
        workload="alignments",
        repeat=1,
        seed=1,
        factors={},
        workers=2,
        phases=[Phase(name="write")],
    )


def connected(
    live: Path, worker: int, message: list[str], after: threading.Event
) -> Iterator[Served]:
    """One worker, with a check that it tells nobody anything after the server's end."""

    def tell(error: BaseException) -> None:
        assert not after.is_set(), "told only after the server had ended"
        message.append(str(error))

    session = Session("t", "run", 25.0, 0.0)
    job = TrialJob(nothing, logging.getLogger("test"), live, session, tell)
    with phase_cluster(trial(), live, job, phase="write", worker=worker, workers=2) as served:
        yield served


def test_workers_of_a_host_share_one_router_until_all_are_done(live: Path) -> None:
    result: list[tuple[int, int]] = []
    alive: list[bool] = []
    meet = threading.Barrier(2, timeout=30)

    def work(worker: int) -> None:
        for served in connected(live, worker, [], threading.Event()):
            (endpoint,) = served.cluster.endpoints
            result.append((endpoint.port, len(served.pids)))
            meet.wait()
            if not served.pids:
                # The starter is at its end by now, and must wait for us.
                alive.append(TcpEngine().answers(endpoint, None))  # type: ignore[arg-type]

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({port for port, _ in result}) == 1
    assert sorted(started for _, started in result) == [0, 1]
    assert alive == [True]
    assert list(live.glob("beside/*/")) == [], "its directory is removed"


def test_the_starters_error_is_told_before_its_router_ends(
    live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    real = beside.Server.stop
    monkeypatch.setattr(beside.Server, "stop", lambda s: (ended.set(), real(s))[1])
    message: list[str] = []
    worker = connected(live, 0, message, ended)
    next(worker)
    with pytest.raises(OSError, match="disk full"):
        worker.throw(OSError("disk full"))  # type: ignore[attr-defined]
    assert message == ["disk full"]
    assert ended.is_set()


def test_a_killed_router_is_noticed_by_its_starter(live: Path) -> None:
    worker = connected(live, 0, [], threading.Event())
    served = next(worker)
    served.check()
    os.kill(served.pids[0], signal.SIGKILL)

    def noticed() -> str:
        try:
            served.check()
        except EngineError as error:
            return str(error)
        return ""

    text = wait_until(noticed, 30, "the failure")
    assert "router0: the server of Tcp" in text and "SIGKILL" in text
    with pytest.raises(EngineError):
        worker.throw(EngineError(text))  # type: ignore[attr-defined]
