"""When a server is ready, and how several become one cluster of hash slots.

https://valkey.io/topics/cluster-tutorial/ and https://valkey.io/topics/cluster-spec/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psutil

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import BootstrapContext, Credentials, JoinContext
from storewise.engines.support.servers import wait_until
from storewise.engines.valkey.connection import Connections, Unavailable
from storewise.engines.valkey.slots import SLOTS, slots_of
from storewise.errors import EngineError

#: The user of `users.acl.j2` that makes one cluster of the servers.
CLUSTER_ADMIN = "cluster-admin"
#: For an answer of a server that has answered already, s.
_ANSWER_SECONDS = 30.0
#: A server that comes back takes writes when it has heard the others for 5 s at most, and it has to
#: be heard by them.
_CLUSTER_SECONDS = 120.0


def not_ready_reason(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """Why the session's user cannot log in yet; None if it can. EngineError if it never will."""
    with Connections((endpoint,), credentials.user, credentials.password) as connections:
        try:
            connections.open()
        except Unavailable as error:
            return str(error)
    return None


def check_free_memory(name: str, max_bytes: int) -> None:
    """EngineError where the documents may take more memory than the host has free."""
    free = psutil.virtual_memory().available
    if max_bytes > free:
        raise EngineError(
            f"valkey: {name} may keep {max_bytes >> 20:,} MB of documents (`memory_share` of "
            f"`node_memory_mb`), and its host has {free >> 20:,} MB of memory free: lower one of "
            "them, or take a host with more"
        )


def bootstrap(context: BootstrapContext) -> None:
    """Make one cluster of the servers; returns when each of them knows the place of every slot."""
    nodes = context.endpoints("data")
    if len(nodes) == 1:
        return
    with _as_admin(nodes, context.credentials) as connections:
        for server in range(len(nodes)):
            first, last = slots_of(server, len(nodes))
            _cluster(connections, server, "ADDSLOTSRANGE", first, last)
            # Epochs of its own: else they would quarrel for seconds which of them is right.
            _cluster(connections, server, "SET-CONFIG-EPOCH", server + 1)
        for node in nodes[1:]:
            _cluster(connections, 0, "MEET", node.address, node.port, node.ports["bus"])
        _wait_for_all_slots(connections, nodes, len(nodes), context.raise_if_aborted)


def wait_recovered(context: JoinContext) -> None:
    """Wait until a server that was started again has its place in the cluster."""
    node, spec = context.node, context.node.spec
    if node.topology.nodes == 1:
        return
    own = Endpoint(spec.role, spec.index, "", node.address, node.port, node.ports)
    with _as_admin((own,), node.credentials) as connections:
        _wait_for_all_slots(connections, (own,), node.topology.nodes, context.raise_if_aborted)


def _as_admin(nodes: Sequence[Endpoint], credentials: Credentials) -> Connections:
    return Connections(nodes, CLUSTER_ADMIN, credentials.key, _ANSWER_SECONDS)


def _cluster(connections: Connections, server: int, *command: str | int) -> Any:
    return connections.ask(server, lambda valkey: valkey.cluster(*command))


def _wait_for_all_slots(
    connections: Connections,
    nodes: Sequence[Endpoint],
    cluster_size: int,
    raise_if_aborted: Callable[[], None],
) -> None:
    """Wait until each of `nodes` says that the cluster is complete."""
    expected = {
        "cluster_state": "ok",
        "cluster_known_nodes": str(cluster_size),
        "cluster_slots_assigned": str(SLOTS),
    }

    def pending_reason() -> str | None:
        for server, node in enumerate(nodes):
            try:
                info = _cluster(connections, server, "INFO")
            except EngineError as error:
                return str(error)
            if wrong := [f"{n} is {info.get(n)}" for n in expected if info.get(n) != expected[n]]:
                return f"{node}: {', '.join(wrong)}"
        return None

    wait_until(
        pending_reason,
        _CLUSTER_SECONDS,
        "valkey: the servers are no cluster",
        raise_if_aborted,
        poll=0.1,
    )
