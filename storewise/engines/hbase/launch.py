"""HBase's servers as processes: class path, options of Java, hbase-site.xml.

Properties: https://hbase.apache.org/book.html#hbase_default_configurations; the class path, and the
modules that must be opened on Java 11 and 17, are those of HBase's own ``bin/hbase``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from storewise.engines.contract.server import Launch, Node
from storewise.engines.hbase.settings import DURABILITIES, HbaseSettings
from storewise.engines.support.java import heap_mb
from storewise.engines.support.servers import fixed_options, java_of, resource
from storewise.errors import EngineError

MASTER, REGION, ZOOKEEPER, THRIFT = "master", "regionserver", "zookeeper", "thrift"
INFO = "info"

_MAIN: Mapping[str, tuple[str, ...]] = {
    MASTER: ("org.apache.hadoop.hbase.master.HMaster", "start"),
    REGION: ("org.apache.hadoop.hbase.regionserver.HRegionServer", "start"),
    ZOOKEEPER: ("org.apache.hadoop.hbase.zookeeper.HQuorumPeer",),
    THRIFT: ("org.apache.hadoop.hbase.thrift2.ThriftServer", "start"),
}
#: Numbers that /jmx gives are otherwise up to 10 s old.
_METRICS = "*.period=1\n"
_CONF, _TMP, _ROOT, _ZK = "conf", "tmp", "root", "zookeeper"
_LAST = "last"
_LOOPBACK = "127.0.0.1"
#: Heap of nodes that hold no documents, MiB.
_SMALL_HEAP_MB = 256
_NO_ROOT = (
    'test -d "$1" || { echo "there is no $1 on this host: HBase\'s servers keep their data in one '
    "place; name a directory that all their hosts share, or one in HDFS, in the setting "
    '\\`rootdir\\`"; exit 1; }'
)


def class_path(jars: Path) -> str:
    """The jars of an installation, for the variable CLASSPATH."""
    places = (jars, jars / "client-facing-thirdparty", jars / "jdk11")
    return ":".join(f"{place}/*" for place in places if place.is_dir())


def is_distributed(node: Node, settings: HbaseSettings) -> bool:
    return node.topology.nodes > 1 or settings.distributed


def _is_standalone(node: Node, settings: HbaseSettings) -> bool:
    """Whether it is a master that holds the documents, and ZooKeeper, itself."""
    return node.spec.role == MASTER and not is_distributed(node, settings)


def launch_of(node: Node, settings: HbaseSettings) -> Launch:
    """How a node of any role is started."""
    role = node.spec.role
    conf = node.directory / _CONF
    site = _site(node, settings)
    root = site["hbase.rootdir"]
    java = str(node.installation.programs["java"])
    shell = (java, "-Xmx128m", "-XX:-UsePerfData", "org.apache.hadoop.fs.FsShell")
    directories = [_TMP]
    steps: tuple[tuple[str, ...], ...] = ()
    cleanup: tuple[tuple[str, ...], ...] = ()
    if role == ZOOKEEPER or _is_standalone(node, settings):
        directories += [_ZK] if settings.rootdir else [_ZK, _ROOT]
    elif settings.rootdir is None and role in (MASTER, REGION):
        steps = (("sh", "-c", _NO_ROOT, "sh", root.removeprefix("file://")),)
    if settings.rootdir and role == MASTER:
        # What is wrong with the place is said in a second, by a program that does nothing else.
        steps = ((*shell, "-mkdir", "-p", root.rpartition("/")[0]),)
    if settings.rootdir and role in (MASTER, ZOOKEEPER):
        # They outlive the others: should one of them be killed, the other does it.
        cleanup = ((*shell, "-rm", "-r", "-f", "-skipTrash", root),)
    return Launch(
        command=(java, *_java_options(node, settings), *_MAIN[role]),
        files={
            f"{_CONF}/hbase-site.xml": _xml(site),
            f"{_CONF}/log4j.properties": resource(__package__, "log4j.properties"),
            f"{_CONF}/log4j2.properties": resource(__package__, "log4j2.properties"),
            f"{_CONF}/hadoop-metrics2-hbase.properties": _METRICS,
            # Hadoop's own programs want one; that of the site, if it has one, comes before it.
            f"{_CONF}/{_LAST}/core-site.xml": _xml({}),
        },
        directories=tuple(directories),
        steps=steps,
        cleanup=cleanup,
        environment={
            "CLASSPATH": f"{conf}:{node.installation.environment['CLASSPATH']}:{conf / _LAST}"
        },
        stop_seconds=45.0,
    )


def _java_options(node: Node, settings: HbaseSettings) -> tuple[str, ...]:
    data = node.spec.role == REGION or _is_standalone(node, settings)
    heap = heap_mb(node.spec.memory_mb, settings.heap_share) if data else _SMALL_HEAP_MB
    options = [
        f"-Xmx{heap}m",
        "-XX:+ExitOnOutOfMemoryError",
        # No files in /tmp.
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={node.directory / 'hs_err.log'}",
        f"-Djava.io.tmpdir={node.directory / _TMP}",
    ]
    if ":" not in node.address:
        options.append("-Djava.net.preferIPv4Stack=true")
    if java_of(node.installation) > 8:
        options += re.findall("^-.*", resource(__package__, "java.options"), re.MULTILINE)
    if data:
        options += settings.jvm_options
    return tuple(options)


def _find_others(node: Node, *, standalone: bool) -> dict[str, str | int]:
    """Where a server finds the others: by ZooKeeper, or by the master of a standalone server."""
    peers = {peer.role: peer for peer in node.peers}
    if standalone:
        # HBase looks for the ZooKeeper of a standalone server at localhost only.
        address, port = _LOOPBACK, node.ports[ZOOKEEPER]
    elif node.spec.role == ZOOKEEPER:
        address, port = node.address, node.port
    elif ZOOKEEPER in peers:
        address, port = peers[ZOOKEEPER].address, peers[ZOOKEEPER].port
    elif MASTER in peers:
        master = peers[MASTER]
        return {
            "hbase.client.registry.impl": "org.apache.hadoop.hbase.client.RpcConnectionRegistry",
            "hbase.client.bootstrap.servers": f"{master.address}:{master.ports[MASTER]}",
        }
    else:
        raise EngineError(f"{node.spec.name}: needs the endpoint of ZooKeeper or of the master")
    return {"hbase.zookeeper.quorum": address, "hbase.zookeeper.property.clientPort": port}


def _root_of(node: Node, settings: HbaseSettings) -> str:
    """HBase's root directory as a URI."""
    if settings.rootdir is not None:
        place = settings.rootdir.rstrip("/")
        place = place if "://" in place else f"file://{place}"
        # The secret's digest: another run of the same trial must not share the place.
        mark = hashlib.sha256(node.credentials.key.encode()).hexdigest()[:8]
        return f"{place}/storewise-{node.session}-{mark}"
    name = node.spec.name
    if node.spec.role == ZOOKEEPER or not is_distributed(node, settings):
        return f"file://{node.directory / _ROOT}"
    # Directories of nodes lie side by side and end with their names.
    beside = node.directory.name.removesuffix(name) + f"{ZOOKEEPER}0"
    return f"file://{node.directory.with_name(beside) / _ROOT}"


def _site(node: Node, settings: HbaseSettings) -> dict[str, str]:
    """The properties of hbase-site.xml; those of the study come first, and ours win."""
    role, address, port = node.spec.role, node.address, node.port
    milliseconds = settings.operation_seconds * 1000
    root = _root_of(node, settings)
    standalone = _is_standalone(node, settings)
    fixed = fixed_options(__package__)
    site: dict[str, str | int | float | bool] = {
        **settings.config,
        **fixed["all"],
        "hbase.cluster.distributed": is_distributed(node, settings),
        "hbase.rootdir": root,
        "hbase.tmp.dir": str(node.directory / _TMP),
        "hbase.client.operation.timeout": milliseconds,
        "hbase.client.meta.operation.timeout": milliseconds,
        "hbase.client.scanner.timeout.period": max(milliseconds, 60_000),
        "hbase.rpc.timeout": milliseconds,
        **_find_others(node, standalone=standalone),
    }
    if role == THRIFT:
        site["hbase.regionserver.thrift.ipaddress"] = address
        site["hbase.regionserver.thrift.port"] = port
    if role == ZOOKEEPER or standalone:
        site |= {
            **fixed["zookeeper"],
            "hbase.zookeeper.property.dataDir": str(node.directory / _ZK),
            "hbase.zookeeper.property.clientPortAddress": _LOOPBACK if standalone else address,
        }
    if standalone:
        site |= fixed["standalone"]
    if role in (MASTER, REGION):
        site |= {
            **fixed["server"],
            "hbase.master.hostname": address,
            "hbase.master.ipc.address": address,
            "hbase.master.port": node.ports.get(MASTER, port) if role == MASTER else 0,
            "hbase.master.info.bindAddress": address,
            "hbase.master.info.port": node.ports[INFO] if role == MASTER else -1,
            "hbase.unsafe.regionserver.hostname": address,
            "hbase.regionserver.ipc.address": address,
            "hbase.regionserver.port": port if standalone or role == REGION else 0,
            "hbase.regionserver.info.bindAddress": address,
            "hbase.regionserver.info.port": node.ports[INFO] if role == REGION else -1,
            # Start when all are there: tables are spread over those that are.
            "hbase.master.wait.on.regionservers.mintostart": node.topology.nodes,
            "hbase.master.wait.on.regionservers.maxtostart": node.topology.nodes,
            "hbase.wal.hsync": (node.consistency or next(iter(DURABILITIES))) == "durable",
        }
        if root.startswith("file:"):
            site |= fixed["files"]
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in site.items()
    }


def _xml(properties: Mapping[str, str]) -> str:
    lines = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{"".join(lines)}</configuration>\n'
