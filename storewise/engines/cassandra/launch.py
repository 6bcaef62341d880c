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
from storewise.engines.contract.server import Launch, Node
from storewise.engines.support.java import heap_mb
from storewise.engines.support.servers import fixed_options, java_of, resource
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
#: When a server makes the role whose password everybody knows: at once in data0's first start,
#: where nobody else can log in (trying again as often), else never (20 years).
_SOON_MS, _NEVER_MS = 200, 20 * 365 * 86_400_000
DIRECTORIES = ("tmp", "logs", "data")
_STOP_SECONDS = 60.0
#: Nodes that end together wait a minute for each other before they end; what they were given is in
#: their commit logs by then.
_STOP_SECONDS_RING = 15.0


def initial_token(node: Node) -> int:
    """The one token of a node: the ring in equal parts, counted from the token of a role.

    While system_auth has one copy, data0 has the row of the role that it makes first, the session's
    user, whether it knows of the other nodes or not. Tokens are -2**63 to 2**63 - 1
    (Murmur3Partitioner).
    """
    first = int(Murmur3Token.hash_fn(node.credentials.user.encode()))
    token = first + node.spec.index * _TOKENS // max(1, node.topology.nodes)
    return (token + _TOKENS // 2) % _TOKENS - _TOKENS // 2


def configuration(node: Node, settings: CassandraSettings) -> dict[str, Any]:
    """The content of ``cassandra.yaml``."""
    directory = node.directory
    alone = node.topology.nodes == 1
    ring = [peer for peer in node.peers if peer.role == node.spec.role]
    if not alone and len(ring) != node.topology.nodes:
        raise EngineError(
            f"cassandra: {node.spec.name} needs the addresses of all {node.topology.nodes} nodes"
        )
    # Each node is a seed, so that none waits for another one.
    seeds = [f"{peer.address}:{peer.ports[GOSSIP]}" for peer in ring if not alone]
    # Tells sessions apart, and says nothing of their secrets.
    mark = hashlib.sha256(b"cluster name " + node.credentials.key.encode()).hexdigest()[:12]
    commit_log = {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}
    if LEVELS[node.consistency].synced:
        commit_log = {"commitlog_sync": "batch"}
    seed_addresses = ",".join(seeds) or f"127.0.0.1:{node.ports[GOSSIP]}"
    values: dict[str, Any] = {
        **fixed_options(__package__),
        # Of two sessions with one name no node must ever talk to one of the other's, whatever
        # ports they find again.
        "cluster_name": f"{node.session}-{mark}",
        "initial_token": str(initial_token(node)),
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": seed_addresses}],
            }
        ],
        # Where the nodes talk to each other. Nobody needs that of a node that is alone.
        "listen_address": "127.0.0.1" if alone else node.address,
        "storage_port": node.ports[GOSSIP],
        "rpc_address": node.address,
        "native_transport_port": node.port,
        "data_file_directories": [str(directory / "data")],
        "file_cache_size": f"{max(16, int(node.spec.memory_mb * settings.file_cache_share))}MiB",
        **commit_log,
    }
    for name in ("commitlog", "saved_caches", "hints", "cdc_raw"):
        values[f"{name}_directory"] = str(directory / name)
    if alone:
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


def ring_delay_ms(node: Node, settings: CassandraSettings) -> int:
    """How long a node waits for news of the others before it takes its tokens."""
    if settings.ring_delay_seconds is not None:
        seconds = settings.ring_delay_seconds
    elif node.topology.nodes == 1:
        seconds = _RING_SECONDS_ALONE
    else:
        loopback = ipaddress.ip_address(node.address).is_loopback
        seconds = _RING_SECONDS_LOOPBACK if loopback else _RING_SECONDS
    return int(seconds * 1000)


def java_command(
    node: Node, settings: CassandraSettings, yaml: Path, *, first: bool = False
) -> tuple[str, ...]:
    """How Java is called; there is no secret in it, and no JMX port without a password.

    `first`: for data0's start alone, in which the session's user is made.
    """
    programs, directory = node.installation.programs, node.directory
    heap = max(_LEAST_HEAP_MB, heap_mb(node.spec.memory_mb, settings.heap_share))
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
