"""Servers beside the clients: one on each worker host, started by one worker and used by all."""

import logging
import threading

from support.driving import trial
from support.tcp_engine import TcpEngine

from storewise.engines.contract.server import NodeSpec
from storewise.session.coordination.cluster import (
    CLUSTER,
    FormedCluster,
    make_credentials,
    write_cluster,
)
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs import sidecar as beside
from storewise.session.jobs.sidecar import phase_cluster


def test_workers_of_a_host_share_one_router_until_all_are_done(tmp_path, monkeypatch):
    """What else its starter does: tests/unit/session/test_jobs.py."""
    router = NodeSpec("router", 0, placement="worker")
    monkeypatch.setattr(beside, "node_specs", lambda trial: (router,))
    monkeypatch.setattr(beside, "server_engine", lambda trial: TcpEngine())
    live = tmp_path / "live"
    live.mkdir()
    make_credentials(live)
    write_cluster(live / CLUSTER, FormedCluster((), {}, {}, 0.0, 0.0))
    frame = TrialJob(lambda: None, logging.getLogger("test"), live, None, lambda error: None)
    two = trial("null", workers=2)
    result, alive = [], []
    meet = threading.Barrier(2, timeout=30)

    def work(worker):
        with phase_cluster(two, live, frame, phase="write", worker=worker, workers=2) as served:
            (endpoint,) = served.cluster.endpoints
            result.append((endpoint.port, len(served.pids)))
            meet.wait()
            if not served.pids:
                # The starter is at its end by now, and must wait for us.
                alive.append(TcpEngine().answers(endpoint, None))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({port for port, _ in result}) == 1
    assert sorted(started for _, started in result) == [0, 1]
    assert alive == [True]
    assert list(live.glob("beside/*/")) == [], "its directory is removed"
