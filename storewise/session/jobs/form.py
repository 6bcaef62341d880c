"""Bootstrap: the nodes that have started become one cluster with its tables, ready for clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import ClusterContext, Credentials
from storewise.errors import EngineError, StorewiseError
from storewise.metrics.host import host_name
from storewise.session.coordination.cluster import (
    CREDENTIALS,
    FormedCluster,
    ReadyNode,
    client_cluster,
    ready_nodes,
    server_engine,
    started_nodes,
    write_cluster,
)
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs.sidecar import start_beside
from storewise.session.server.address import is_loopback
from storewise.study.trial import Trial, node_jobs, node_specs

LOOK_EVERY = 0.2
_LOG_EVERY = 10.0
#: When the first node's time is over by then, nothing could be measured any more.
_RESERVE_SHARE = 0.1


def run_form(
    trial: Trial,
    cluster: Path,
    logs: Path,
    job: TrialJob,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait for all nodes, form the cluster, create the tables, and say where it is.

    `cluster` is where the formed cluster's file goes, `logs` the directory for the log of a router
    that is needed for the forming only. Raises Aborted when the trial ends, EngineError for what
    the servers refuse, StorewiseError that names nodes which have not started while others were
    using up their wall time. `clock` is Unix time.
    """
    with ExitStack() as stack:
        _Form(trial, logs, job, stack, clock, sleep).run(cluster)


class _Form:
    def __init__(
        self,
        trial: Trial,
        logs: Path,
        job: TrialJob,
        stack: ExitStack,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.trial, self.logs, self.job, self.stack = trial, logs, job, stack
        self.live, self.check, self.log = job.live, job.check, job.log
        self.clock, self.sleep = clock, sleep
        self.engine = server_engine(trial)
        self.specs = node_specs(trial)
        self.beside: dict[str, Endpoint] = {}
        self.logged = 0.0

    def run(self, cluster: Path) -> None:
        trial = self.trial
        self.engine.bootstrap(
            ClusterContext(
                topology=trial.topology,
                settings=trial.settings,
                consistency=trial.consistency,
                credentials=Credentials.read(self.live / CREDENTIALS),
                endpoints=self.endpoints,
                raise_if_aborted=self.check,
            )
        )
        nodes = self.await_nodes([spec.name for spec in node_jobs(trial)])
        formed = FormedCluster(
            endpoints=tuple(node.endpoint for node in nodes.values()),
            versions={name: node.version for name, node in nodes.items()},
            guards={name: node.guard for name, node in nodes.items()},
            formed_at=0.0,
            form_seconds=0.0,
            warnings=_warnings(nodes),
        )
        for spec in self.specs:
            if spec.placement == "worker":
                self.endpoints(spec.role)
        clients = client_cluster(trial, self.live, formed, tuple(self.beside.values()))
        with closing(self.engine.connect(clients, "write")) as client:
            client.create(trial.store_schema())
        now = self.clock()
        last = max(node.ready_at for node in nodes.values())
        write_cluster(cluster, replace(formed, formed_at=now, form_seconds=now - last))
        self.log.info("formed: %s", ", ".join(nodes))

    def endpoints(self, role: str) -> tuple[Endpoint, ...]:
        specs = [spec for spec in self.specs if spec.role == role]
        if not specs:
            raise EngineError(f"{self.engine.title} has no role {role!r} in this cluster")
        if specs[0].placement == "worker":
            if role not in self.beside:
                self.beside[role] = self.start_here(role)
            return (self.beside[role],)
        nodes = self.await_nodes([spec.name for spec in specs])
        return tuple(node.endpoint for node in nodes.values())

    def start_here(self, role: str) -> Endpoint:
        """A router of worker hosts, here for as long as the forming takes."""
        spec = next(spec for spec in self.specs if spec.role == role)
        peers = tuple(e for peer in spec.after for e in self.endpoints(peer))
        log = self.logs / f"form.{role}.server.log"
        return self.stack.enter_context(
            start_beside(self.trial, spec, self.live, peers, log, self.check, name=f"form-{role}")
        ).endpoint

    def await_nodes(self, names: list[str]) -> dict[str, ReadyNode]:
        while True:
            ready = ready_nodes(self.live)
            if missing := [name for name in names if name not in ready]:
                self.check()
                self.check_time(missing)
                self.sleep(LOOK_EVERY)
                continue
            nodes = {name: ready[name] for name in names}
            _check_reachable(nodes)
            return nodes

    def check_time(self, missing: list[str]) -> None:
        """Say who is waited for; raise when the first node's wall time is nearly over."""
        started = started_nodes(self.live)
        queued = [name for name in missing if name not in started]
        for node in started.values():
            if node.ends_at is None:
                continue
            latest = node.ends_at - _RESERVE_SHARE * (node.ends_at - node.started_at)
            if self.clock() > latest and queued:
                raise StorewiseError(
                    f"{', '.join(queued)} never started (still queued?), and the wall time of "
                    f"{node.node} on host {node.host} is nearly over; ask for fewer nodes, give "
                    "rule `node` more `runtime`, or use a queue with room for all of them"
                )
        if time.monotonic() - self.logged > _LOG_EVERY:
            self.logged = time.monotonic()
            if starting := [name for name in missing if name in started]:
                self.log.info("starting: %s", ", ".join(starting))
            if queued:
                self.log.info("not started yet: %s", ", ".join(queued))


def _warnings(nodes: Mapping[str, ReadyNode]) -> tuple[str, ...]:
    """What a reader of the figures should know of the cluster's shape."""
    warnings = []
    hosts: dict[str, list[str]] = {}
    for name, node in nodes.items():
        hosts.setdefault(node.endpoint.host, []).append(name)
    if shared := [f"{host}: {', '.join(on)}" for host, on in hosts.items() if len(on) > 1]:
        warnings.append(f"nodes share a host and disturb each other ({'; '.join(shared)})")
    versions = {node.version for node in nodes.values()}
    if len(versions) > 1:
        warnings.append(f"nodes run different versions: {', '.join(sorted(versions))}")
    return tuple(warnings)


def _check_reachable(nodes: Mapping[str, ReadyNode]) -> None:
    """Loopback addresses of other hosts cannot be reached, and say nothing by themselves."""
    for name, node in nodes.items():
        if is_loopback(node.endpoint.address) and node.endpoint.host != host_name():
            raise StorewiseError(
                f"{name} listens on loopback of host {node.endpoint.host}, "
                f"out of reach of host {host_name()}; say in the profile which network nodes "
                "use (set-resources: node: interface: auto, or an interface's name)"
            )
