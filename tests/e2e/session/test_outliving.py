"""Nodes that end after others: a session is closed for all at once, and some are still needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fake_time import FakeTime
from support.ring_engine import SLOW
from support.servers import local
from support.waiting import wait_until

from storewise.engines.registry import ENGINES
from storewise.session.coordination.cluster import (
    GONE,
    STOP,
    gone_nodes,
    make_credentials,
    ready_nodes,
)
from storewise.session.coordination.liveness import Session
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs import node
from storewise.session.jobs.node import NodeJob
from storewise.study.trial import Trial

#: It does not hear the signal, and is killed a while later.


@pytest.fixture(autouse=True)
def lasting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "lasting", "support.ring_engine:LastingEngine")


def closed(tmp_path: Path, clock: Callable[[], float] = time.monotonic) -> Path:
    """The live directory of a session after its end."""
    live = tmp_path / "live" / "t"
    live.mkdir(parents=True)
    make_credentials(live)
    trial = Trial(
        study="s", id="t", engine="lasting", workload="alignments", repeat=1, seed=1,
        factors={"engine": "lasting"}, nodes=1, consistency="durable", settings={}, phases=[],
    )  # fmt: skip
    errors: list[BaseException] = []

    def run(name: str) -> None:
        files = (tmp_path / f"{name}.parquet", tmp_path / f"{name}.log", tmp_path / "kept" / name)
        session = Session("t", "run", 25.0, time.time())
        job = TrialJob(
            *(lambda: None, logging.getLogger(name), live, session), tell=lambda error: None
        )
        try:
            node.run_node(NodeJob(trial, name, *files), job, clock=clock)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in (SLOW, "last0")]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(ready_nodes(live)) == 2 or errors, 30, "both nodes are ready")
    (live / STOP).touch()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not errors
    return live


def test_a_node_ends_after_those_that_it_outlives(tmp_path: Path) -> None:
    live = closed(tmp_path)
    written = {name: (live / GONE / f"{name}.json").stat().st_mtime_ns for name in gone_nodes(live)}
    assert written[SLOW] < written["last0"]


def test_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    own_time = FakeTime(tick=3600 * 1_000_000_000)  # its patience is over at the second look
    live = closed(tmp_path, own_time.clock)
    written = {name: (live / GONE / f"{name}.json").stat().st_mtime_ns for name in gone_nodes(live)}
    assert written["last0"] < written[SLOW]


def test_the_same_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    stop = local.Server.stop

    def noted(server: local.Server) -> None:
        stop(server)
        ended.append(server.node.spec.name)

    monkeypatch.setattr(local.Server, "stop", noted)
    with local.running("lasting", tmp_path / "lasting") as result:
        assert set(result.servers) == {SLOW, "last0"}
    assert ended == [SLOW, "last0"]
