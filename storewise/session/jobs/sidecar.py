"""Servers that live beside the clients: a router or a gateway on each worker host.

The first job of a phase on a host starts it, the others on that host use it, and it ends with the
phase: its starter waits until all workers are done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from storewise.atomic import read_as, write_aside
from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.engines.contract.server import Credentials, Installation, Node, NodeSpec
from storewise.metrics.host import host_name
from storewise.metrics.sampler import elect
from storewise.session.coordination.barrier import Barrier
from storewise.session.coordination.cluster import (
    CLUSTER,
    CREDENTIALS,
    FormedCluster,
    client_cluster,
    read_cluster,
    server_engine,
)
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.server.guard import POLL
from storewise.session.server.server import Server, start_server
from storewise.study.trial import Trial, node_specs
from storewise.waiting import wait_for

BESIDE = "beside"
#: Only the clients of its own host use it.
LOOPBACK = "127.0.0.1"


def node_of(
    trial: Trial,
    spec: NodeSpec,
    live: Path,
    session: str,
    directory: Path,
    address: str,
    installation: Installation,
    peers: tuple[Endpoint, ...],
) -> Node:
    """A node of a trial's cluster on this host; its ports are chosen when its server starts."""
    return Node(
        spec=spec,
        topology=trial.topology,
        settings=trial.settings,
        consistency=trial.consistency,
        session=session,
        directory=directory,
        address=address,
        port=0,
        installation=installation,
        credentials=Credentials.read(live / CREDENTIALS),
        peers=peers,
    )


@contextmanager
def start_beside(
    trial: Trial,
    spec: NodeSpec,
    live: Path,
    peers: tuple[Endpoint, ...],
    log: Path,
    check: Callable[[], None],
    *,
    name: str,
) -> Iterator[Server]:
    """A server on loopback of this host while the block runs."""
    directory = (live / BESIDE / name).absolute()
    directory.mkdir(parents=True, mode=0o700)
    engine = server_engine(trial)
    installation = engine.find(trial.settings)
    node = node_of(trial, spec, live, trial.id, directory, LOOPBACK, installation, peers)
    server = start_server(engine, node, log, check, live=live)
    try:
        yield server
    finally:
        server.end()


@dataclass(frozen=True, slots=True)
class Served:
    """The cluster of one worker of a phase, and the servers on its host."""

    cluster: Cluster
    formed: FormedCluster
    beside: Mapping[str, str]
    """Servers on the workers' hosts: role -> authentication of its port."""
    pids: tuple[int, ...]
    """Process ids of the servers that this worker has started, to be sampled with it."""
    check: Callable[[], None]
    """The job's own check, which looks after those servers too: EngineError when one has ended."""


@contextmanager
def phase_cluster(
    trial: Trial, logs: Path, job: TrialJob, *, phase: str, worker: int, workers: int
) -> Iterator[Served]:
    """The cluster for one worker of a phase, with the servers of its host started.

    The trial is aborted with an error before these servers end because of it: the other workers
    of the host would lose their connections and be the first to complain.
    """
    live, check, log = job.live, job.check, job.log
    formed = read_cluster(live / CLUSTER)
    specs = [spec for spec in node_specs(trial) if spec.placement == "worker"]
    with ExitStack() as stack:
        beside: list[Endpoint] = []
        started: list[Server] = []

        def watch() -> None:
            check()
            for server in started:
                server.raise_if_ended()

        for spec in specs:
            published = live / BESIDE / f"{phase}.{spec.role}.{host_name()}.json"
            if elect(live, f"{BESIDE}-{phase}-{spec.role}"):
                peers = tuple(e for r in spec.after for e in formed.endpoints if e.role == r)
                name = f"{phase}-{spec.role}-{host_name()}"
                file = logs / f"{phase}.{spec.role}.{host_name()}.server.log"
                server = stack.enter_context(
                    start_beside(trial, spec, live, peers, file, check, name=name)
                )
                log.info("%s at port %d", spec.role, server.node.port)
                write_aside(published, json.dumps(asdict(server.endpoint)) + "\n")
                started.append(server)
            wait_for(published.exists, check=check, poll=POLL)
            beside.append(read_as(Endpoint, published))
        try:
            cluster = client_cluster(trial, live, formed, tuple(beside))
            engine = server_engine(trial)
            guards = {endpoint.role: engine.guard for endpoint in beside}
            pids = tuple(server.pid for server in started)
            yield Served(cluster, formed, guards, pids, watch)
            if specs:
                parties = [str(number) for number in range(workers)]
                Barrier(live, parties, f"{phase}-done").wait(str(worker), watch)
        except BaseException as error:
            if started:
                log.info("ending what others of this host use: %s", error)
                job.tell(error)
            raise
