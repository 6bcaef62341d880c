"""What Cassandra's servers are started with, beside the templates of their files: the place of a
node on the ring, and data0's first start."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import sys
from dataclasses import replace
from typing import Any

from cassandra.metadata import Murmur3Token

from storewise.engines.cassandra.settings import LEVELS, CassandraSettings
from storewise.engines.contract.server import Launch, Node, Topology
from storewise.engines.support.java import heap_mb
from storewise.engines.support.server_spec import render
from storewise.engines.support.servers import resource
from storewise.errors import EngineError

_PACKAGE = __package__
#: Below this heap Cassandra does not start reliably, MiB.
_MIN_HEAP_MB = 256
#: A private key and its certificate, made at data0's first start.
_KEY = "own.pem"
_LOOPBACK = "127.0.0.1"
_TOKENS = 1 << 64
_STOP_SECONDS = 60.0
#: Nodes that end together wait a minute for each other before they end; what they were given is in
#: their commit logs by then.
_RING_STOP_SECONDS = 15.0


def initial_token(node: Node) -> int:
    """The one token of a node: the ring in equal parts, counted from the token of a role.

    While system_auth has one copy, data0 has the row of the role that it makes first, the session's
    user, whether it knows of the other nodes or not. Tokens are -2**63 to 2**63 - 1
    (Murmur3Partitioner).
    """
    first = int(Murmur3Token.hash_fn(node.credentials.user.encode()))
    token = first + node.spec.index * _TOKENS // max(1, node.topology.nodes)
    return (token + _TOKENS // 2) % _TOKENS - _TOKENS // 2


def ring_delay_ms(node: Node) -> int:
    """How long a node waits for news of the others before it takes its tokens."""
    if node.topology.nodes == 1:
        return 1_000
    return 5_000 if ipaddress.ip_address(node.address).is_loopback else 30_000


def _render_files(
    node: Node, settings: CassandraSettings, yaml: str, jvm: str, *, first_start: bool = False
) -> dict[str, str]:
    """The files that a server reads when it starts, with names for two of them."""
    alone = node.topology.nodes == 1
    ring = [peer for peer in node.peers if peer.role == node.spec.role]
    if not alone and len(ring) != node.topology.nodes:
        raise EngineError(
            f"cassandra: {node.spec.name} needs the addresses of all {node.topology.nodes} nodes"
        )
    seeds = [f"{peer.address}:{peer.ports['gossip']}" for peer in ring]
    programs = node.installation.programs
    places = dict.fromkeys((programs["jars"], programs["home"] / "lib", programs["home"]))
    # Tells sessions with one name apart, and says nothing of their secrets: no node must ever talk
    # to one of another session, whatever ports they find again.
    mark = hashlib.sha256(b"cluster name " + node.credentials.key.encode()).hexdigest()[:12]
    values: dict[str, Any] = {
        "node": node,
        "settings": settings,
        "level": LEVELS[node.consistency].server,
        "first_start": first_start,
        "alone": alone,
        "seeds": [f"{_LOOPBACK}:{node.ports['gossip']}"] if alone else seeds,
        "cluster_name": f"{node.session}-{mark}",
        "initial_token": initial_token(node),
        "ring_delay_ms": ring_delay_ms(node),
        "heap_mb": max(_MIN_HEAP_MB, heap_mb(node.spec.memory_mb, settings.heap_share)),
        "config_uri": (node.directory / yaml).as_uri(),
        "jamm": programs["jamm"],
        "class_path": os.pathsep.join(f"{place}/*" for place in places),
    }
    return {
        yaml: render(_PACKAGE, "cassandra.yaml.j2", values),
        jvm: render(_PACKAGE, "jvm-server.options.j2", values),
        "logback.xml": resource(_PACKAGE, "logback.xml"),
    }


def _command(node: Node, jvm: str) -> tuple[str, ...]:
    java = str(node.installation.programs["java"])
    return (java, f"@{node.directory / jvm}", "org.apache.cassandra.service.CassandraDaemon")


def launch_of(node: Node, settings: CassandraSettings) -> Launch:
    """How a node is started: data0 makes the session's user before it listens."""
    alone = node.topology.nodes == 1
    launch = Launch(
        command=_command(node, "jvm-server.options"),
        files=_render_files(node, settings, "cassandra.yaml", "jvm-server.options"),
        directories=("tmp", "logs", "data"),
        stop_seconds=_STOP_SECONDS if alone else _RING_STOP_SECONDS,
    )
    if node.spec.index != 0:
        return launch
    # Alone on loopback, as `bootstrap` says.
    first = replace(node, topology=Topology(), peers=(), address=_LOOPBACK, consistency="durable")
    files = _render_files(first, settings, "first.yaml", "first.options", first_start=True)
    files["first.json"] = json.dumps(
        {
            "command": _command(first, "first.options"),
            "address": first.address,
            "port": first.port,
            "key": str(node.directory / _KEY),
            "user": node.credentials.user,
            "password": node.credentials.password,
        }
    )
    plan = str(node.directory / "first.json")
    return replace(
        launch,
        files={**launch.files, **files},
        steps=((sys.executable, "-m", "storewise.engines.cassandra.bootstrap", plan),),
        remove_when_ready=("first.json",),
    )
