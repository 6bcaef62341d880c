"""From servers to one cluster of hash slots, and when a server serves.

https://valkey.io/topics/cluster-tutorial/ and /topics/cluster-spec/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import BootstrapContext, Credentials, JoinContext
from storewise.engines.support.servers import wait_until
from storewise.engines.valkey.connection import Links, Refused, Unreached
from storewise.engines.valkey.launch import BUS, former_of, user_of
from storewise.engines.valkey.settings import ValkeySettings
from storewise.engines.valkey.slots import SLOTS, slots_of
from storewise.errors import EngineError

#: For an answer of a server that has answered already, s.
_SECONDS = 30.0
#: A server that comes back takes writes when it has heard the others for 5 s at most, and it has to
#: be heard by them.
_STEP_SECONDS = 120.0


def not_ready_reason(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """Why the session's user cannot log in yet; None if it can. EngineError if it never will."""
    links = Links((endpoint,), *user_of(credentials), _SECONDS)
    try:
        links.check_connection()
    except Unreached as error:
        return str(error)
    finally:
        links.close()
    return None


def check_memory(context: JoinContext, settings: ValkeySettings) -> None:
    """EngineError where the documents may take more memory than the host has free."""
    node = context.node
    most, free = settings.most_bytes(node.spec.memory_mb), psutil.virtual_memory().available
    if most > free:
        raise EngineError(
            f"valkey: {node.spec.name} may keep {most >> 20:,} MB of documents (`memory_share` of "
            f"`node_memory_mb`), and its host has {free >> 20:,} MB of memory free: lower one of "
            "them, or take a host with more"
        )


def bootstrap(context: BootstrapContext) -> None:
    """Make one cluster of the servers; returns when each of them knows the place of every slot."""
    nodes = context.endpoints("data")
    if len(nodes) == 1:
        return
    with _former(nodes, context.credentials) as links:
        for server in range(len(nodes)):
            first, last = slots_of(server, len(nodes))
            # Epochs of its own: else they would quarrel for seconds which of them is right.
            _order(links, server, "CLUSTER ADDSLOTSRANGE", first, last)
            _order(links, server, "CLUSTER SET-CONFIG-EPOCH", server + 1)
        for node in nodes[1:]:
            _order(links, 0, "CLUSTER MEET", node.address, node.port, node.ports[BUS])

        def lacking() -> str | None:
            for server, node in enumerate(nodes):
                if (words := _lacks(links, server, len(nodes))) is not None:
                    return f"{node}: {words}"
            return None

        _await(lacking, context.raise_if_aborted)


def wait_recovered(context: JoinContext) -> None:
    """Wait until a server that was started again has its place in the cluster."""
    node = context.node
    nodes = node.topology.nodes
    if nodes == 1:
        return
    spec = node.spec
    own = Endpoint(spec.role, spec.index, "", node.address, node.port, node.ports)
    with _former((own,), node.credentials) as links:
        _await(lambda: _lacks(links, 0, nodes), context.raise_if_aborted)


def _order(links: Links, server: int, *command: str | int) -> Any:
    return links.ask(server, lambda client: client.execute_command(*command))


def _await(lacking: Callable[[], str | None], check: Callable[[], None]) -> None:
    wait_until(lacking, _STEP_SECONDS, "valkey: the servers are no cluster", check, poll=0.1)


def _lacks(links: Links, server: int, nodes: int) -> str | None:
    """What a server still lacks of its place in a cluster of so many."""
    try:
        known = _order(links, server, "CLUSTER INFO")
    except (Unreached, Refused) as error:
        return str(error)
    words = ("cluster_state", "cluster_known_nodes", "cluster_slots_assigned")
    wanted = ("ok", str(nodes), str(SLOTS))
    if tuple(map(known.get, words)) == wanted:
        return None
    return ", ".join(f"{name} is {known.get(name)}" for name in words)


@contextmanager
def _former(nodes: Sequence[Endpoint], credentials: Credentials) -> Iterator[Links]:
    links = Links(nodes, *former_of(credentials), _SECONDS)
    try:
        yield links
    finally:
        links.close()
