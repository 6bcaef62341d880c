"""Creation of a cluster of servers, and the server of each document."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable
from itertools import count

from valkey import Valkey

from storewise.engines.support.servers import wait_until
from storewise.engines.valkey.connection import Connections
from storewise.errors import EngineError

SLOTS = 1 << 14
#: The user of `users.acl.j2` that makes one cluster of the servers.
CLUSTER_ADMIN = "cluster-admin"
#: A server that comes back takes writes when it has heard the others for 5 s at most, and it has to
#: be heard by them.
_CLUSTER_SECONDS = 120.0


def slots_of(server: int, servers: int) -> tuple[int, int]:
    """(first, last) slot of one of `servers` servers."""
    return server * SLOTS // servers, (server + 1) * SLOTS // servers - 1


def slot_of(text: bytes) -> int:
    """The slot of a key without braces, or of the text in a key's braces."""
    return crc_hqx(text, 0) % SLOTS


def tags_of(servers: int) -> list[bytes]:
    """The prefix of keys for each server; empty for a standalone server."""
    if servers == 1:
        return [b""]
    tags = []
    for server in range(servers):
        first, last = slots_of(server, servers)
        number = next(n for n in count() if first <= slot_of(b"%d" % n) <= last)
        tags.append(b"{%d}" % number)
    return tags


def make_cluster(connections: Connections) -> None:
    """Assign the slots to the servers, and let the first server connect to the others."""
    nodes = connections.endpoints
    for server, node in enumerate(nodes):
        connections.ask(server, Valkey.cluster, "ADDSLOTSRANGE", *slots_of(server, len(nodes)))
        # Epochs of its own: else they would quarrel for seconds which of them is right.
        connections.ask(server, Valkey.cluster, "SET-CONFIG-EPOCH", server + 1)
        if server:
            own = (node.address, node.port, node.ports["bus"])
            connections.ask(0, Valkey.cluster, "MEET", *own)


def wait_for_cluster(
    connections: Connections, nodes: int, raise_if_aborted: Callable[[], None]
) -> None:
    """Wait until each connected server knows all nodes and slots of the cluster."""
    expected = {
        "cluster_state": "ok",
        "cluster_known_nodes": str(nodes),
        "cluster_slots_assigned": str(SLOTS),
    }

    def pending_reason() -> str | None:
        for server, node in enumerate(connections.endpoints):
            try:
                info = connections.ask(server, Valkey.cluster, "INFO")
            except EngineError as error:
                return str(error)
            known = {name: info.get(name) for name in expected}
            if known != expected:
                return f"{node}: {known}"
        return None

    what = "valkey: the servers did not form one cluster"
    wait_until(pending_reason, _CLUSTER_SECONDS, what, raise_if_aborted, poll=0.1)
