"""HBase: standalone in one process, or ZooKeeper, a master and region servers.

What a server is started with is in `server.yaml` and `hbase-site.xml.j2`, where clients connect in
`connection`, what they do in `client`, how servers are asked for their state in `health`. When a
node dies: `docs/engines/hbase.md`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    Topology,
)
from storewise.engines.hbase import health
from storewise.engines.hbase.client import HbaseClient, Shared
from storewise.engines.support.java import JavaSettings, heap_mb
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec, SpecEngine
from storewise.errors import EngineError

#: Memory of nodes that hold no documents, MiB, and their heap.
_SMALL_MB, _SMALL_HEAP_MB = 512, 256
_NO_ROOT = (
    'test -d "$1" || { echo "there is no $1 on this host: HBase\'s servers keep their data in one '
    "place; name a directory that all their hosts share, or one in HDFS, in the setting "
    '\\`rootdir\\`"; exit 1; }'
)


class HbaseSettings(ConfigSettings, JavaSettings):
    """Settings of HBase."""

    spec = ServerSpec.read(__package__)
    distributed: bool = Setting(
        default=False,
        description="one node, too, is a cluster of ZooKeeper, a master and a region server",
    )
    rootdir: str | None = Setting(
        default=None,
        description="where HBase keeps its data, such as `hdfs://name:8020/user/me/hbase`, or a "
        "directory that all its hosts share; HADOOP_CONF_DIR tells how to reach HDFS",
    )
    regions_per_server: int = Setting(
        default=2, ge=1, le=256, description="regions of each table for each region server"
    )
    operation_seconds: int = Setting(
        default=25, ge=1, le=600, description="for so long the gateway tries a request, retries too"
    )

    @field_validator("rootdir")
    @classmethod
    def _a_place(cls, rootdir: str | None) -> str | None:
        if rootdir is not None and not (rootdir.startswith("/") or "://" in rootdir):
            raise ValueError(f"{rootdir!r} is neither an absolute path nor a URI")
        return rootdir

    def is_distributed(self, topology: Topology) -> bool:
        return topology.nodes > 1 or self.distributed


class HbaseEngine(SpecEngine):
    """HBase's servers."""

    name = "hbase"
    data_roles = ("regionserver", "master")
    one_copy = "copies are a matter of HDFS (`rootdir` and its own dfs.replication)"
    flags = Flags(embedded=False, updates=True, deletes=True, scans=True, count="scan", owner=True)
    Settings = HbaseSettings
    packages = ("thriftpy2",)
    #: The master answers when its region servers have come.
    ready_seconds = 180.0

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        distributed = self.settings_of(settings).is_distributed(topology)
        self.check_topology(topology, 1, routers=True)
        # Clients connect to the gateways, which therefore come first.
        before = ("zookeeper",) if distributed else ("master",)
        threads, memory = topology.threads, topology.memory_mb
        gateways = [
            NodeSpec("thrift", index, threads, _SMALL_MB, after=before)
            for index in range(topology.routers)
        ] or [NodeSpec("thrift", 0, 1, _SMALL_MB, placement="worker", after=before)]
        if not distributed:
            ports = ("master", "zookeeper", "info")
            return (*gateways, NodeSpec("master", 0, threads, memory, ports=ports))
        # Servers that lose ZooKeeper, or the master, look for it for a minute.
        others = ("thrift", "regionserver")
        return (
            *gateways,
            NodeSpec("zookeeper", 0, 1, _SMALL_MB, outlives=(*others, "master")),
            NodeSpec("master", 0, 1, _SMALL_MB, after=before, ports=("info",), outlives=others),
            *(
                NodeSpec("regionserver", index, threads, memory, after=before, ports=("info",))
                for index in range(topology.nodes)
            ),
        )

    def find(self, settings: Mapping[str, Any]) -> Installation:
        found = super().find(settings)
        # How to reach the site's HDFS.
        hadoop = {**os.environ, **found.environment}.get("HADOOP_CONF_DIR")
        if not (settings.get("rootdir") and hadoop):
            return found
        return replace(found, environment={**found.environment, "HADOOP_CONF_DIR": hadoop})

    def directories(self, settings: Mapping[str, Any], own: Path) -> tuple[Path, ...] | None:
        return None if settings.get("rootdir") else (own,)

    def launch(self, node: Node) -> Launch:
        settings: HbaseSettings = self.settings_of(node.settings)
        role, distributed = node.spec.role, settings.is_distributed(node.topology)
        standalone = role == "master" and not distributed
        peers: dict[str, Any] = {peer.role: peer for peer in node.peers}
        if standalone:
            # HBase looks for the ZooKeeper of a standalone server at localhost only.
            peers["zookeeper"] = {"address": "127.0.0.1", "port": node.ports["zookeeper"]}
        elif role == "zookeeper":
            peers["zookeeper"] = node
        root, installed = _root_of(node, settings), node.installation
        hadoop = installed.environment.get("HADOOP_CONF_DIR", "")
        launch = self.spec.launch(
            node,
            settings,
            root=root,
            distributed=distributed,
            standalone=standalone,
            master=peers.get("master"),
            zookeeper=peers.get("zookeeper"),
            jars=installed.programs["jars"],
            hadoop=hadoop,
        )
        java, *arguments = launch.command
        options = _java_options(node, settings, data=role == "regionserver" or standalone)
        launch = replace(launch, command=(java, *options, *arguments))
        if settings.rootdir is None:
            needs_root = distributed and role in ("master", "regionserver")
            step = ("sh", "-c", _NO_ROOT, "sh", root.removeprefix("file://"))
            return replace(launch, steps=(step,) if needs_root else ())
        if role not in ("master", "zookeeper"):
            return launch
        # They outlive the others: should one of them be killed, the other does it.
        shell = (java, "-Xmx128m", "-XX:-UsePerfData", "org.apache.hadoop.fs.FsShell")
        # It does not start without a core-site.xml.
        more = {} if hadoop else {"core-site.xml": "<configuration/>\n"}
        cleanup = ((*shell, "-rm", "-r", "-f", "-skipTrash", root),)
        return replace(launch, files={**launch.files, **more}, cleanup=cleanup)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return health.not_ready_reason(endpoint)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        """EngineError within seconds where the cluster cannot be reached."""
        settings: HbaseSettings = self.settings_of(cluster.settings)
        gateways, masters, regions = (
            tuple(e for e in cluster.endpoints if e.role == role)
            for role in ("thrift", "master", "regionserver")
        )
        if not gateways:
            raise EngineError("hbase: the cluster has no endpoints of role thrift")
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            durability=self.spec.consistency[self.level_of(cluster)].driver["durability"],
            seconds=settings.operation_seconds,
            regions_per_server=settings.regions_per_server,
            gateways=gateways,
            servers=regions or masters,
        )
        return HbaseClient(shared).connected()


def _java_options(node: Node, settings: HbaseSettings, *, data: bool) -> tuple[str, ...]:
    heap = heap_mb(node.spec.memory_mb, settings.heap_share) if data else _SMALL_HEAP_MB
    jar, java_8 = settings.spec.jar, node.installation.version.endswith("Java 8")
    return (
        f"-Xmx{heap}m",
        "-XX:+ExitOnOutOfMemoryError",
        # No files in /tmp.
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={node.directory / 'hs_err.log'}",
        f"-Djava.io.tmpdir={node.directory / 'tmp'}",
        f"-Djava.net.preferIPv4Stack={'false' if ':' in node.address else 'true'}",
        *(() if java_8 or jar is None else jar.options_from_java_11),
        *(settings.jvm_options if data else ()),
    )


def _root_of(node: Node, settings: HbaseSettings) -> str:
    """HBase's root directory as a URI."""
    if settings.rootdir is not None:
        place = settings.rootdir.rstrip("/")
        place = place if "://" in place else f"file://{place}"
        # The secret's digest: another run of the same trial must not share the place.
        mark = hashlib.sha256(node.credentials.key.encode()).hexdigest()[:8]
        return f"{place}/storewise-{node.session}-{mark}"
    directory, name = node.directory, node.spec.name
    if settings.is_distributed(node.topology):
        # Directories of nodes lie side by side and end with their names.
        directory = directory.with_name(directory.name.removesuffix(name) + "zookeeper0")
    return f"file://{directory / 'root'}"
