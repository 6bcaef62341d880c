"""Forming: the nodes that have started become one cluster with its tables, ready for clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials, Forming, ServerEngine
from storewise.errors import EngineError, StorewiseError
from storewise.metrics.host import host_name
from storewise.session.coordination.cluster import (
    CREDENTIALS,
    FormedCluster,
    ReadyNode,
    client_cluster,
    node_jobs,
    node_specs,
    ready_nodes,
    server_engine,
    started_nodes,
    write_cluster,
)
from storewise.session.coordination.liveness import Session
from storewise.session.jobs.sidecar import start_beside
from storewise.session.server.address import is_loopback
from storewise.study.trial import Trial

LOOK_EVERY = 0.2
_SAY_EVERY = 10.0
#: When the first node's time is over by then, nothing could be measured any more.
_RESERVE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class FormJob:
    """What the forming of a trial's cluster is told."""

    trial: Trial
    live: Path
    cluster: Path
    """Where the formed cluster's file goes."""
    logs: Path
    """Directory for the log of a router that is needed for the forming only."""


def run_form(
    job: FormJob,
    session: Session,
    check: Callable[[], None],
    log: logging.Logger,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait for all nodes, form the cluster, create the tables, and say where it is.

    Raises Aborted when the trial ends, EngineError for what the servers refuse, StorewiseError
    that names nodes which have not started while others were using up their wall time. `clock` is
    Unix time.
    """
    with ExitStack() as stack:
        _Form(job, session, check, log, stack, clock, sleep).run()


class _Form:
    def __init__(
        self,
        job: FormJob,
        session: Session,
        check: Callable[[], None],
        log: logging.Logger,
        stack: ExitStack,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.clock, self.sleep = clock, sleep
        self.job, self.session, self.check, self.log, self.stack = job, session, check, log, stack
        self.trial = job.trial
        self.engine: ServerEngine = server_engine(job.trial)
        self.specs = node_specs(job.trial)
        self.jobs = [spec.name for spec in node_jobs(job.trial)]
        self.beside: dict[str, Endpoint] = {}
        self.said = 0.0

    def run(self) -> None:
        job, trial = self.job, self.trial
        credentials = Credentials.read(job.live / CREDENTIALS)
        self.engine.form(
            Forming(
                specs=self.specs,
                topology=trial.topology,
                settings=trial.settings,
                consistency=trial.consistency,
                session=self.session.trial,
                schema=trial.store_schema(),
                credentials=credentials,
                endpoints=self.endpoints,
                check=self.check,
                log=self.log,
            )
        )
        nodes = self.await_nodes(self.jobs)
        formed = FormedCluster(
            endpoints=tuple(nodes[name].endpoint for name in self.jobs),
            versions={name: nodes[name].version for name in self.jobs},
            guards={name: nodes[name].guard for name in self.jobs},
            formed_at=0.0,
            form_seconds=0.0,
            warnings=self.warnings(nodes),
        )
        for spec in self.specs:
            if spec.placement == "worker":
                self.endpoints(spec.role)
        self.create(formed)
        now = self.clock()
        last = max(node.ready_at for node in nodes.values())
        write_cluster(
            job.cluster,
            FormedCluster(
                formed.endpoints, formed.versions, formed.guards, now, now - last, formed.warnings
            ),
        )
        self.log.info("formed: %s", ", ".join(self.jobs))

    def create(self, formed: FormedCluster) -> None:
        beside = tuple(self.beside.values())
        cluster = client_cluster(self.trial, self.job.live, formed, beside)
        client = self.engine.connect(cluster, "write")
        try:
            client.create(self.trial.store_schema())
        finally:
            client.close()

    def warnings(self, nodes: dict[str, ReadyNode]) -> tuple[str, ...]:
        """What a reader of the figures should know of the cluster's shape."""
        found = []
        hosts: dict[str, list[str]] = {}
        for name in self.jobs:
            hosts.setdefault(nodes[name].endpoint.host, []).append(name)
        shared = {host: names for host, names in hosts.items() if len(names) > 1}
        if shared:
            text = "; ".join(f"{host}: {', '.join(names)}" for host, names in shared.items())
            found.append(f"nodes share a host and disturb each other ({text})")
        versions = {nodes[name].version for name in self.jobs}
        if len(versions) > 1:
            found.append(f"nodes run different versions: {', '.join(sorted(versions))}")
        return tuple(found)

    def endpoints(self, role: str) -> tuple[Endpoint, ...]:
        specs = [spec for spec in self.specs if spec.role == role]
        if not specs:
            raise EngineError(f"{self.engine.title} has no role {role!r} in this cluster")
        if specs[0].placement == "worker":
            if role not in self.beside:
                self.beside[role] = self.start_here(role)
            return (self.beside[role],)
        names = [spec.name for spec in specs]
        nodes = self.await_nodes(names)
        return tuple(nodes[name].endpoint for name in names)

    def start_here(self, role: str) -> Endpoint:
        """A router of worker hosts, here for as long as the forming takes."""
        spec = next(spec for spec in self.specs if spec.role == role)
        peers = tuple(e for peer in spec.after for e in self.endpoints(peer))
        server = self.stack.enter_context(
            start_beside(
                self.trial,
                spec,
                self.job.live,
                peers,
                self.job.logs / f"form.{role}.server.log",
                self.check,
                name=f"form-{role}",
            )
        )
        return server.endpoint

    def await_nodes(self, names: list[str]) -> dict[str, ReadyNode]:
        while True:
            ready = ready_nodes(self.job.live)
            missing = [name for name in names if name not in ready]
            if not missing:
                self.reachable([ready[name].endpoint for name in names])
                return {name: ready[name] for name in names}
            self.check()
            self.in_time(missing)
            self.sleep(LOOK_EVERY)

    def in_time(self, missing: list[str]) -> None:
        """Say who is waited for; raise when the first node's wall time is nearly over."""
        started = started_nodes(self.job.live)
        queued = [name for name in missing if name not in started]
        now = self.clock()
        for node in started.values():
            if node.ends_at is None:
                continue
            latest = node.ends_at - _RESERVE_SHARE * (node.ends_at - node.started_at)
            if now > latest and queued:
                raise StorewiseError(
                    f"{', '.join(queued)} never started (still queued?), and the wall time of "
                    f"{node.node} on host {node.host} is nearly over; ask for fewer nodes, give "
                    "rule `node` more `runtime`, or use a queue with room for all of them"
                )
        if time.monotonic() - self.said > _SAY_EVERY:
            self.said = time.monotonic()
            starting = [name for name in missing if name in started]
            if starting:
                self.log.info("starting: %s", ", ".join(starting))
            if queued:
                self.log.info("not started yet: %s", ", ".join(queued))

    def reachable(self, endpoints: list[Endpoint]) -> None:
        """Loopback addresses of other hosts cannot be reached, and say nothing by themselves."""
        for endpoint in endpoints:
            if is_loopback(endpoint.address) and endpoint.host != host_name():
                raise StorewiseError(
                    f"{endpoint.role}{endpoint.index} listens on loopback of host {endpoint.host}, "
                    f"out of reach of host {host_name()}; say in the profile which network nodes "
                    "use (set-resources: node: interface: auto, or an interface's name)"
                )
