"""A node's place on the ring, and data0's first start."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from cassandra.metadata import Murmur3Token

from storewise.engines.contract.server import Launch, Node, Topology
from storewise.engines.support.java import JavaSettings, heap_mb
from storewise.engines.support.server_spec import ServerSpec

#: Below this heap Cassandra does not start reliably, MiB.
_MIN_HEAP_MB = 256
_LOOPBACK = "127.0.0.1"
_TOKENS = 1 << 64
#: Nodes that end together wait a minute for each other before they end; what they were given is in
#: their commit logs by then.
_RING_STOP_SECONDS = 15.0
_FIRST = "first_start"


def launch_of(spec: ServerSpec, node: Node, settings: JavaSettings) -> Launch:
    """The launch of a node; data0 makes the session's user before it listens (`bootstrap`)."""
    launch = _launch(spec, node, settings)
    if node.topology.nodes > 1:
        launch = replace(launch, stop_seconds=_RING_STOP_SECONDS)
    if node.spec.index > 0:
        return launch
    alone = replace(node, topology=Topology(), address=_LOOPBACK, consistency="durable")
    first = _launch(spec, alone, settings, first_start=True)
    plan = {
        "command": first.command,
        "port": node.port,
        "key": str(node.directory / "own.pem"),
        "user": node.credentials.user,
        "password": node.credentials.password,
    }
    plan_file = f"{_FIRST}/plan.json"
    files = {f"{_FIRST}/{name}": text for name, text in first.files.items()}
    module = "storewise.engines.cassandra.bootstrap"
    return replace(
        launch,
        files={**launch.files, **files, plan_file: json.dumps(plan)},
        steps=((sys.executable, "-m", module, str(node.directory / plan_file)),),
        remove_when_ready=(plan_file,),
    )


def _launch(
    spec: ServerSpec, node: Node, settings: JavaSettings, *, first_start: bool = False
) -> Launch:
    alone = node.topology.nodes == 1
    seeds = [f"{peer.address}:{peer.ports['gossip']}" for peer in node.peers]
    return spec.launch(
        node,
        settings,
        first_start=first_start,
        alone=alone,
        configuration=node.directory / (_FIRST if first_start else ""),
        seeds=[f"{_LOOPBACK}:{node.ports['gossip']}"] if alone else seeds,
        initial_token=initial_token(node),
        heap_mb=max(_MIN_HEAP_MB, heap_mb(node.spec.memory_mb, settings.heap_share)),
    )


def initial_token(node: Node) -> int:
    """The one token of a node: the ring in equal parts, counted from the token of a role.

    While system_auth has one copy, data0 has the row of the role that it makes first, the session's
    user, whether it knows of the other nodes or not. Tokens are -2**63 to 2**63 - 1
    (Murmur3Partitioner).
    """
    first = int(Murmur3Token.hash_fn(node.credentials.user.encode()))
    token = first + node.spec.index * _TOKENS // node.topology.nodes
    return (token + _TOKENS // 2) % _TOKENS - _TOKENS // 2
