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
    await_records,
    client_cluster,
    ready_nodes,
    server_engine,
    write_cluster,
)
from storewise.session.coordination.trial_job import TrialJob
from storewise.session.jobs.sidecar import start_beside
from storewise.session.server.address import is_loopback
from storewise.study.trial import Trial, node_jobs, node_specs


def run_form(
    trial: Trial,
    cluster: Path,
    logs: Path,
    job: TrialJob,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait for all nodes, form the cluster, create the tables, and say where it is.

    `cluster` is where the formed cluster's file goes, `logs` the directory for the log of a router
    that is needed for the forming only. Raises Aborted when the trial ends (a node at the end of
    its wall time ends it, and names those that never started), EngineError for what the servers
    refuse.
    """
    engine, specs, live = server_engine(trial), node_specs(trial), job.live
    routers: dict[str, Endpoint] = {}

    def await_nodes(names: list[str]) -> dict[str, ReadyNode]:
        """The nodes' records, as soon as all of them are ready and can be reached from here."""
        nodes = await_records(names, lambda: ready_nodes(live), job.check, job.log, sleep=sleep)
        _check_reachable(nodes)
        return nodes

    def endpoints(role: str) -> tuple[Endpoint, ...]:
        """The endpoints of the servers of a role; a router of worker hosts is started here, for as
        long as the forming takes."""
        of_role = [spec for spec in specs if spec.role == role]
        if not of_role:
            raise EngineError(f"{engine.title} has no role {role!r} in this cluster")
        if of_role[0].placement == "node":
            nodes = await_nodes([spec.name for spec in of_role])
            return tuple(node.endpoint for node in nodes.values())
        if role not in routers:
            peers = tuple(e for peer in of_role[0].after for e in endpoints(peer))
            log = logs / f"form.{role}.server.log"
            router = start_beside(
                trial, of_role[0], live, peers, log, job.check, name=f"form-{role}"
            )
            routers[role] = stack.enter_context(router).endpoint
        return (routers[role],)

    with ExitStack() as stack:
        engine.bootstrap(
            ClusterContext(
                topology=trial.topology,
                settings=trial.settings,
                consistency=trial.consistency,
                credentials=Credentials.read(live / CREDENTIALS),
                endpoints=endpoints,
                raise_if_aborted=job.check,
            )
        )
        nodes = await_nodes([spec.name for spec in node_jobs(trial)])
        formed = FormedCluster(
            endpoints=tuple(node.endpoint for node in nodes.values()),
            versions={name: node.version for name, node in nodes.items()},
            guards={name: node.guard for name, node in nodes.items()},
            formed_at=0.0,
            form_seconds=0.0,
            warnings=_warnings(nodes),
        )
        for spec in specs:
            if spec.placement == "worker":
                endpoints(spec.role)
        clients = client_cluster(trial, live, formed, tuple(routers.values()))
        with closing(engine.connect(clients, "write")) as client:
            client.create(trial.store_schema())
        now = time.time()
        last = max(node.ready_at for node in nodes.values())
        write_cluster(cluster, replace(formed, formed_at=now, form_seconds=now - last))
        job.log.info("formed: %s", ", ".join(nodes))


def _warnings(nodes: Mapping[str, ReadyNode]) -> tuple[str, ...]:
    """Notes for the reader of the figures on the cluster's shape."""
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
    """Refuse loopback addresses of other hosts, which this host would take for its own."""
    for name, node in nodes.items():
        if is_loopback(node.endpoint.address) and node.endpoint.host != host_name():
            raise StorewiseError(
                f"{name} listens on loopback of host {node.endpoint.host}, "
                f"out of reach of host {host_name()}; say in the profile which network nodes "
                "use (set-resources: node: interface: auto, or an interface's name)"
            )
