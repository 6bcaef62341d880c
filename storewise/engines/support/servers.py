"""What engines with servers have in common: their settings and shapes, waiting for servers, what
servers say of themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.engines.contract.server import NodeSpec, Topology
from storewise.errors import EngineError


def check_topology(
    name: str,
    topology: Topology,
    most_replicas: int = 1,
    *,
    routers: bool = False,
    one_copy: str = "",
) -> None:
    """EngineError for a cluster without nodes, with more replicas than the engine can have, or
    with routers where it has none; `one_copy` says why a store has no replicas."""
    if topology.nodes < 1 or topology.routers < 0:
        raise EngineError(
            f"{name} cannot have {topology.nodes} nodes and {topology.routers} routers"
        )
    if topology.routers and not routers:
        raise EngineError(
            f"{name}: routers is {topology.routers}; every node answers clients: leave routers at 0"
        )
    if one_copy and topology.replicas != 1:
        raise EngineError(
            f"{name}: replicas is {topology.replicas}; {one_copy}: leave replicas at 1"
        )
    if not 1 <= topology.replicas <= most_replicas:
        raise EngineError(
            f"{name} with {topology.nodes} nodes has 1 to {most_replicas} replicas of a document, "
            f"not {topology.replicas}"
        )


def data_nodes(topology: Topology, copies: int = 1, **more: Any) -> tuple[NodeSpec, ...]:
    """The nodes that hold documents, `copies` for each shard; `more` as in `NodeSpec`."""
    return tuple(
        NodeSpec("data", index, topology.threads, topology.memory_mb, **more)
        for index in range(topology.nodes * copies)
    )


def numbered_nodes(cluster: Cluster) -> tuple[Endpoint, ...]:
    """The data nodes of a cluster by their numbers; EngineError where one is missing."""
    nodes = sorted((e for e in cluster.endpoints if e.role == "data"), key=lambda e: e.index)
    if not nodes or [e.index for e in nodes] != list(range(len(nodes))):
        names = ", ".join(e.name for e in cluster.endpoints) or "none"
        raise EngineError(
            f"{cluster.engine}: a client needs the endpoints data0, data1 and so on; got {names}"
        )
    return tuple(nodes)


def wait_until(
    pending_reason: Callable[[], str | None],
    seconds: float,
    complaint: str,
    raise_if_aborted: Callable[[], None] = lambda: None,
    *,
    poll: float = 0.2,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Look every `poll` s until `pending_reason` gives None; else it tells what is still to come.

    `raise_if_aborted` is called before each look. EngineError with the complaint and the last
    reason after so many seconds.
    """
    end = clock() + seconds
    while True:
        raise_if_aborted()
        reason = pending_reason()
        if reason is None:
            return
        if clock() > end:
            raise EngineError(f"{complaint} within {seconds:g} s: {reason}")
        sleep(poll)


def resource(package: str, name: str) -> str:
    """The text of a file that lies beside the modules of a package."""
    return (files(package) / name).read_text(encoding="utf-8")
