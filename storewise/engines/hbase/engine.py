"""HBase: standalone in one process, or ZooKeeper, a master and region servers.

Options: `settings`; processes: `launch`; what clients do: `client`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    BootstrapContext,
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Topology,
)
from storewise.engines.hbase.client import HbaseClient, Shared
from storewise.engines.hbase.connection import HappybaseLink, Link
from storewise.engines.hbase.counters import (
    holding,
    region_servers,
    server_not_ready,
    zookeeper_not_ready,
)
from storewise.engines.hbase.launch import (
    HAPPYBASE,
    INFO,
    MASTER,
    REGION,
    THRIFT,
    ZOOKEEPER,
    class_path,
    launch_of,
    no_async,
)
from storewise.engines.hbase.settings import CONSISTENCIES, LEVELS, HbaseSettings
from storewise.engines.support.installation import OWN_STORES
from storewise.engines.support.java import find_jars, java_version
from storewise.engines.support.servers import check_topology, wait_until
from storewise.errors import EngineError

#: Versions that are taken, and the versions of Java that each runs with.
_JAVAS: Mapping[str, tuple[int, ...]] = {"2.5": (8, 11, 17), "2.6": (8, 11, 17)}
#: Memory of nodes that hold no documents, MiB: a heap of 256 and Java's own.
_SMALL_MB = 512
_ANSWER_SECONDS = 5.0
#: In which region servers must have told the master of themselves, s.
_GATHER_SECONDS = 120.0
_OPEN: Mapping[str, Mapping[str, str]] = {
    MASTER: {
        "client port": "read, write and delete everything, and stop the servers",
        INFO: "read the settings, counters and logs",
    },
    REGION: {
        "client port": "read, write and delete everything, and stop the server",
        INFO: "read the settings, counters and logs",
    },
    ZOOKEEPER: {"client port": "change where the servers find each other"},
    THRIFT: {"client port": "read, write and delete everything"},
    HAPPYBASE: {"client port": "read, write and delete everything"},
}


class HbaseEngine(ServerEngine):
    """HBase's servers."""

    name = "hbase"
    title = "HBase"
    flags = Flags(
        embedded=False,
        updates=True,
        deletes=True,
        scans=True,
        count="scan",
        owner=True,
    )
    consistencies: ClassVar[Mapping[str, str]] = CONSISTENCIES
    lossy_levels = frozenset({"relaxed", "async"})
    Settings = HbaseSettings
    guard = "none"
    packages = ("happybase", "thriftpy2")
    #: The master answers when its region servers have come.
    ready_seconds = 180.0
    programs = ("java", "jars")
    install_hint = (
        "`storewise install hbase` fetches it, or name the directory of HBase 2.5 or 2.6 in the "
        "setting `home`, in STOREWISE_HBASE_HOME or in HBASE_HOME"
    )

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        chosen: HbaseSettings = self.settings_of(settings)
        why = "copies are a matter of HDFS (`rootdir` and its own dfs.replication)"
        check_topology(self.name, topology, routers=True, one_copy=why)
        distributed = topology.nodes > 1 or chosen.distributed
        # Clients connect to the gateways, which therefore come first.
        before = (ZOOKEEPER,) if distributed else (MASTER,)
        gateways: list[NodeSpec] = []
        for role in (THRIFT, *([HAPPYBASE] if chosen.gateway == "happybase" else [])):
            gateways += [
                NodeSpec(role, index, topology.threads, _SMALL_MB, after=before)
                for index in range(topology.routers)
            ] or [NodeSpec(role, 0, 1, _SMALL_MB, placement="worker", after=before)]
        memory = topology.memory_mb
        if not distributed:
            ports = (MASTER, ZOOKEEPER, INFO)
            return (*gateways, NodeSpec(MASTER, 0, topology.threads, memory, ports=ports))
        return (
            *gateways,
            # Servers that lose ZooKeeper, or the master, look for it for a minute.
            NodeSpec(ZOOKEEPER, 0, 1, _SMALL_MB, outlives=(THRIFT, HAPPYBASE, REGION, MASTER)),
            NodeSpec(
                MASTER, 0, 1, _SMALL_MB, after=before, ports=(INFO,), outlives=(THRIFT, REGION)
            ),
            *(
                NodeSpec(REGION, index, topology.threads, memory, after=before, ports=(INFO,))
                for index in range(topology.nodes)
            ),
        )

    def find(self, settings: Mapping[str, Any]) -> Installation:
        installed = find_jars(
            self.title,
            settings,
            jar=r"hbase-server-(\d+\.\d+\.\d+(?:-(?!tests\b)[\w.]+)*)\.jar",
            variables=("STOREWISE_HBASE_HOME", "HBASE_HOME"),
            usual=(f"{OWN_STORES}/hbase*", "/opt/hbase*", "/usr/local/hbase*"),
            javas=_JAVAS,
            hint=self.install_hint,
        )
        number = java_version(installed.programs["java"])
        path = class_path(installed.programs["jars"], number)
        if settings.get("rootdir"):
            # How to reach the site's HDFS.
            hadoop = {**os.environ, **installed.environment}.get("HADOOP_CONF_DIR")
            path = f"{hadoop}:{path}" if hadoop else path
        return Installation(
            installed.programs,
            f"HBase {installed.version}, Java {number}",
            {**installed.environment, "CLASSPATH": path},
        )

    def directories(self, settings: Mapping[str, Any], own: Path) -> tuple[Path, ...] | None:
        return None if settings.get("rootdir") else (own,)

    def launch(self, node: Node) -> Launch:
        return launch_of(node, self.settings_of(node.settings))

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        if endpoint.role == ZOOKEEPER:
            return zookeeper_not_ready(endpoint)
        if endpoint.role in (MASTER, REGION):
            return server_not_ready(endpoint)
        kind = HappybaseLink if endpoint.role == HAPPYBASE else Link
        try:
            with closing(kind(endpoint, _ANSWER_SECONDS)) as link:
                if endpoint.role == HAPPYBASE:
                    link.call("connect", lambda client: client.tables())
                else:
                    link.call("connect", lambda client: client.getThriftServerType())
        except EngineError as error:
            return str(error)
        return None

    def bootstrap(self, context: BootstrapContext) -> None:
        """Wait until the master knows all region servers: tables are spread over them."""
        for role in dict.fromkeys(spec.role for spec in context.specs):
            if role not in (THRIFT, HAPPYBASE):
                context.endpoints(role)
        (master,) = context.endpoints(MASTER)
        wanted = context.topology.nodes

        def lacking() -> str | None:
            try:
                known = region_servers(master)
            except (OSError, ValueError) as error:
                return str(error)
            words = f"it knows {known} of {wanted} region servers; their logs say why"
            return words if known < wanted else None

        complaint = f"hbase: {master} does not know all region servers"
        wait_until(lacking, _GATHER_SECONDS, complaint, context.raise_if_aborted)

    def peer_guards(self, endpoint: Endpoint) -> Mapping[str, str]:
        """A standalone server has its ZooKeeper on loopback."""
        return {
            name: "none, loopback only" if name == ZOOKEEPER else "none" for name in endpoint.ports
        }

    def open_ports(
        self, spec: NodeSpec, topology: Topology, settings: Mapping[str, Any]
    ) -> Mapping[str, str]:
        ports = dict(_OPEN[spec.role])
        if MASTER in spec.ports:
            ports[MASTER] = _OPEN[MASTER]["client port"]
        return ports

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        """EngineError within seconds where the cluster cannot be reached."""
        settings: HbaseSettings = self.settings_of(cluster.settings)
        level = self.level_of(cluster)
        Credentials.of(cluster)  # the session's own file, or this is no session of ours
        gateways, others = (
            tuple(e for e in cluster.endpoints if e.role == role) for role in (THRIFT, HAPPYBASE)
        )
        happybase = settings.gateway == "happybase"
        if happybase and LEVELS[level].durability == "ASYNC_WAL":
            raise EngineError(no_async(level))
        if not gateways or (happybase and not others):
            missing = "happybase" if gateways else "thrift"
            raise EngineError(f"hbase: the cluster has no endpoints of role {missing}")
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            settings=settings,
            level=level,
            gateways=gateways,
            others=others,
            servers=holding(cluster.endpoints),
        )
        return HbaseClient(shared).connected()
