"""What Cassandra's servers are started with: cassandra.yaml, options of Java, log.

https://cassandra.apache.org/doc/5.0/cassandra/managing/configuration/cass_yaml_file.html; options
of Java as in ``conf/jvm-server.options``, ``conf/jvm11-server.options`` and
``conf/jvm17-server.options`` of Cassandra 5.0.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cassandra.metadata import Murmur3Token

from storewise.engines.cassandra.settings import LEVELS, CassandraSettings
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Launch, Node
from storewise.engines.support.java import heap_mb
from storewise.engines.support.servers import java_of, resource
from storewise.errors import EngineError

YAML, LOGBACK, FIRST_PLAN = "cassandra.yaml", "logback.xml", "first.json"
#: A private key and its certificate, made at data0's first start.
KEY = "own.pem"
_PEM = "org.apache.cassandra.security.PEMBasedSslContextFactory"
GOSSIP = "gossip"
#: Below this heap Cassandra does not start reliably, MiB.
_LEAST_HEAP_MB = 256
_RING_SECONDS = 30.0
_RING_SECONDS_LOOPBACK = 5.0
_RING_SECONDS_ALONE = 1.0
_TOKENS = 1 << 64


def initial_token(node: Node) -> int:
    """The one token of a node: the ring in equal parts, counted from the token of a role.

    While system_auth has one copy, data0 has the row of the role that it makes first, the session's
    user, whether it knows of the other nodes or not. Tokens are -2**63 to 2**63 - 1
    (Murmur3Partitioner).
    """
    first = int(Murmur3Token.hash_fn(node.credentials.user.encode()))
    token = first + node.spec.index * _TOKENS // max(1, node.topology.nodes)
    return (token + _TOKENS // 2) % _TOKENS - _TOKENS // 2


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def gossip_address(node: Node) -> str:
    """Where the nodes talk to each other. Nobody needs that of a node that is alone."""
    return node.address if node.topology.nodes > 1 else "127.0.0.1"


def configuration(node: Node, settings: CassandraSettings) -> dict[str, Any]:
    """The content of ``cassandra.yaml``."""
    directory = node.directory
    level = LEVELS[node.consistency]
    rings = [peer for peer in node.peers if peer.role == node.spec.role]
    if node.topology.nodes > 1 and len(rings) != node.topology.nodes:
        raise EngineError(
            f"cassandra: {node.spec.name} needs the addresses of all {node.topology.nodes} nodes"
        )
    seeds = [_gossip(peer) for peer in rings] if node.topology.nodes > 1 else []
    values: dict[str, Any] = {
        # Of two sessions with one name no node must ever talk to one of the other's, whatever
        # ports they find again.
        "cluster_name": f"{node.session}-{_mark(node.credentials.key)}",
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "num_tokens": 1,
        "initial_token": str(initial_token(node)),
        # Nodes that start together have nothing to fetch from each other.
        "auto_bootstrap": False,
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [
                    # Each node is a seed, so that none waits for another one.
                    {"seeds": ",".join(seeds) or f"127.0.0.1:{node.ports[GOSSIP]}"}
                ],
            }
        ],
        "endpoint_snitch": "SimpleSnitch",
        "listen_address": gossip_address(node),
        "storage_port": node.ports[GOSSIP],
        "rpc_address": node.address,
        "native_transport_port": node.port,
        "start_native_transport": True,
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "role_manager": "CassandraRoleManager",
        # Each node is told of the session's user before the load, so one may die later.
        "auth_read_consistency_level": "ONE",
        "auth_write_consistency_level": "ALL",
        # A role that was dropped is refused at once.
        "credentials_validity": "0ms",
        "data_file_directories": [str(directory / "data")],
        "commitlog_directory": str(directory / "commitlog"),
        "saved_caches_directory": str(directory / "saved_caches"),
        "hints_directory": str(directory / "hints"),
        "cdc_raw_directory": str(directory / "cdc_raw"),
        # A node whose disk fails ends, so that the session sees it.
        "disk_failure_policy": "die",
        "commit_failure_policy": "die",
        "auto_snapshot": False,
        "file_cache_size": f"{max(16, int(node.spec.memory_mb * settings.file_cache_share))}MiB",
        # A loaded host is slow, not broken: a measurement waits.
        "read_request_timeout": "10s",
        "range_request_timeout": "60s",
        "write_request_timeout": "10s",
        "truncate_request_timeout": "60s",
        "request_timeout": "60s",
        # Warnings about batches say nothing here: they hold the rows of one replica.
        "batch_size_warn_threshold": "1024KiB",
        "batch_size_fail_threshold": "10240KiB",
        **_commit_log(synced=level.synced),
    }
    if node.topology.nodes == 1:
        values["server_encryption_options"] = {"internode_encryption": "all", **only_with(node)}
    return values | settings.config


def only_with(node: Node) -> dict[str, Any]:
    """Options of encryption that take nobody without the node's own key."""
    key = str(node.directory / KEY)
    return {
        "require_client_auth": True,
        "ssl_context_factory": {"class_name": _PEM},
        "keystore": key,
        "truststore": key,
    }


def _mark(secret: str) -> str:
    """Tells sessions apart, and says nothing of their secrets."""
    return hashlib.sha256(b"cluster name " + secret.encode()).hexdigest()[:12]


def _commit_log(*, synced: bool) -> dict[str, Any]:
    if synced:
        return {"commitlog_sync": "batch"}
    return {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}


def _gossip(peer: Endpoint) -> str:
    return f"{peer.address}:{peer.ports[GOSSIP]}"


def ring_delay_ms(node: Node, settings: CassandraSettings) -> int:
    """How long a node waits for news of the others before it takes its tokens."""
    if settings.ring_delay_seconds is not None:
        seconds = settings.ring_delay_seconds
    elif node.topology.nodes == 1:
        seconds = _RING_SECONDS_ALONE
    else:
        seconds = _RING_SECONDS_LOOPBACK if is_loopback(node.address) else _RING_SECONDS
    return int(seconds * 1000)


def heap_of(node: Node, settings: CassandraSettings) -> int:
    """MiB."""
    return max(_LEAST_HEAP_MB, heap_mb(node.spec.memory_mb, settings.heap_share))


def java_command(
    node: Node, settings: CassandraSettings, yaml: Path, *, first: bool = False
) -> tuple[str, ...]:
    """How Java is called; there is no secret in it, and no JMX port without a password.

    `first`: for data0's start alone, in which the session's user is made.
    """
    programs, directory = node.installation.programs, node.directory
    heap = heap_of(node, settings)
    places = dict.fromkeys((programs["jars"], programs["home"] / "lib", programs["home"]))
    properties: Mapping[str, str | int] = {
        "cassandra.config": yaml.as_uri(),
        "cassandra.storagedir": str(directory),
        "cassandra.logdir": str(directory / "logs"),
        "logback.configurationFile": str(directory / LOGBACK),
        "cassandra-foreground": "yes",
        "cassandra.ring_delay_ms": (
            int(_RING_SECONDS_ALONE * 1000) if first else ring_delay_ms(node, settings)
        ),
        "cassandra.consistent.rangemovement": "false",
        # The session waits for the ring itself (`cluster`).
        "cassandra.skip_wait_for_gossip_to_settle": 0,
        "cassandra.superuser_setup_delay_ms": _SOON_MS if first else _NEVER_MS,
        "cassandra.shutdown_announce_in_ms": 500,
        "cassandra.libjemalloc": "-",
        "java.io.tmpdir": str(directory / "tmp"),
        "jna.tmpdir": str(directory / "tmp"),
        "java.net.preferIPv4Stack": "true" if ":" not in node.address else "false",
        "jdk.attach.allowAttachSelf": "true",
        "io.netty.tryReflectionSetAccessible": "true",
        "io.netty.allocator.useCacheForAllThreads": "true",
        "io.netty.allocator.maxOrder": 11,
    }
    options = resource(__package__, "java.options") if java_of(node.installation) >= 9 else ""
    return (
        str(programs["java"]),
        f"-Xms{heap}M",
        f"-Xmx{heap}M",
        f"-XX:MaxDirectMemorySize={max(256, node.spec.memory_mb // 4)}M",
        "-Xss512k",
        # A short life: the second compiler would take a third of its processor time.
        *(("-XX:TieredStopAtLevel=1",) if first else ()),
        "-XX:+UseG1GC",
        "-XX:+ParallelRefProcEnabled",
        "-XX:MaxTenuringThreshold=1",
        "-XX:MaxGCPauseMillis=300",
        "-XX:+PerfDisableSharedMem",
        "-XX:+ExitOnOutOfMemoryError",
        *re.findall("^-.*", options, re.MULTILINE),
        f"-javaagent:{programs['jamm']}",
        *(f"-D{name}={value}" for name, value in properties.items()),
        *settings.jvm_options,
        "-cp",
        os.pathsep.join(f"{place}/*" for place in places),
        "org.apache.cassandra.service.CassandraDaemon",
    )


#: When a server makes the role whose password everybody knows: at once in data0's first start,
#: where nobody else can log in (trying again as often), else never (20 years).
_SOON_MS, _NEVER_MS = 200, 20 * 365 * 86_400_000


DIRECTORIES = ("tmp", "logs", "data")
_STOP_SECONDS = 60.0
#: Nodes that end together wait a minute for each other before they end; what they were given is in
#: their commit logs by then.
_STOP_SECONDS_RING = 15.0


def launch_of(node: Node, settings: CassandraSettings) -> Launch:
    """How a node is started: data0 makes the session's user before it listens."""
    yaml = node.directory / YAML
    values = configuration(node, settings)
    # JSON is YAML, which Cassandra reads.
    files = {YAML: json.dumps(values, indent=1) + "\n", LOGBACK: resource(__package__, LOGBACK)}
    steps: tuple[tuple[str, ...], ...] = ()
    if node.spec.index == 0:
        first_yaml, plan = node.directory / "first.yaml", node.directory / FIRST_PLAN
        files[FIRST_PLAN] = json.dumps(
            {
                "command": java_command(node, settings, first_yaml, first=True),
                "yaml": str(first_yaml),
                "key": str(node.directory / KEY),
                "closed": only_with(node),
                "values": values,
                "user": node.credentials.user,
                "password": node.credentials.password,
            }
        )
        steps = ((sys.executable, "-m", "storewise.engines.cassandra.bootstrap", str(plan)),)
    return Launch(
        command=java_command(node, settings, yaml),
        files=files,
        directories=DIRECTORIES,
        steps=steps,
        remove_when_ready=(FIRST_PLAN,) if steps else (),
        stop_seconds=_STOP_SECONDS if node.topology.nodes == 1 else _STOP_SECONDS_RING,
    )
