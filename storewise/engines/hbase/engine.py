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
from storewise.engines.hbase.connection import Connection
from storewise.engines.hbase.health import (
    holding,
    missing_region_servers,
    not_listening_reason,
    server_not_ready,
)
from storewise.engines.hbase.launch import (
    INFO,
    MASTER,
    REGION,
    THRIFT,
    ZOOKEEPER,
    class_path,
    launch_of,
)
from storewise.engines.hbase.settings import CONSISTENCIES, HbaseSettings
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
    packages = ("thriftpy2",)
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
        gateways = [
            NodeSpec(THRIFT, index, topology.threads, _SMALL_MB, after=before)
            for index in range(topology.routers)
        ] or [NodeSpec(THRIFT, 0, 1, _SMALL_MB, placement="worker", after=before)]
        memory = topology.memory_mb
        if not distributed:
            ports = (MASTER, ZOOKEEPER, INFO)
            return (*gateways, NodeSpec(MASTER, 0, topology.threads, memory, ports=ports))
        return (
            *gateways,
            # Servers that lose ZooKeeper, or the master, look for it for a minute.
            NodeSpec(ZOOKEEPER, 0, 1, _SMALL_MB, outlives=(THRIFT, REGION, MASTER)),
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
        path = class_path(installed.programs["jars"])
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
            return not_listening_reason(endpoint)
        if endpoint.role in (MASTER, REGION):
            return server_not_ready(endpoint)
        try:
            with closing(Connection(endpoint, _ANSWER_SECONDS)) as gateway:
                gateway.ping()
        except EngineError as error:
            return str(error)
        return None

    def bootstrap(self, context: BootstrapContext) -> None:
        """Wait until the master knows all region servers: tables are spread over them."""
        for role in dict.fromkeys(spec.role for spec in context.specs):
            if role != THRIFT:
                context.endpoints(role)
        (master,) = context.endpoints(MASTER)
        wait_until(
            lambda: missing_region_servers(master, context.topology.nodes),
            _GATHER_SECONDS,
            f"hbase: {master} does not know all region servers",
            context.raise_if_aborted,
        )

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
        Credentials.of(cluster)  # the session's own file, or this is no session of ours
        gateways = tuple(e for e in cluster.endpoints if e.role == THRIFT)
        if not gateways:
            raise EngineError("hbase: the cluster has no endpoints of role thrift")
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            settings=self.settings_of(cluster.settings),
            level=self.level_of(cluster),
            gateways=gateways,
            servers=holding(cluster.endpoints),
        )
        return HbaseClient(shared).connected()
