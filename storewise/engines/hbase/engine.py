"""HBase: standalone in one process, or ZooKeeper, a master and region servers.

What a server is started with is in `server.yaml` and `hbase-site.xml.j2`, Java's options in
`launch`, where clients connect in `connection`, what they do in `client`, how servers are asked for
their state in `health`. When a node dies: `docs/engines/hbase.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from storewise.engines.hbase.connection import Connection
from storewise.engines.hbase.launch import class_path, launch_of
from storewise.engines.hbase.settings import HbaseSettings
from storewise.engines.support.server_spec import SpecEngine
from storewise.errors import EngineError

#: Memory of nodes that hold no documents, MiB: a heap of 256 and Java's own.
_SMALL_MB = 512
_ANSWER_SECONDS = 5.0


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
        environment = {**found.environment, "CLASSPATH": class_path(found.programs["jars"])}
        # How to reach the site's HDFS.
        hadoop = {**os.environ, **found.environment}.get("HADOOP_CONF_DIR")
        if settings.get("rootdir") and hadoop:
            environment["HADOOP_CONF_DIR"] = hadoop
        return replace(found, environment=environment)

    def directories(self, settings: Mapping[str, Any], own: Path) -> tuple[Path, ...] | None:
        return None if settings.get("rootdir") else (own,)

    def launch(self, node: Node) -> Launch:
        return launch_of(node, self.settings_of(node.settings))

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        if endpoint.role != "thrift":
            return health.not_ready_reason(endpoint)
        try:
            with closing(Connection(endpoint, _ANSWER_SECONDS)) as gateway:
                gateway.ping()
        except EngineError as error:
            return str(error)
        return None

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        """EngineError within seconds where the cluster cannot be reached."""
        gateways, masters, regions = (
            tuple(e for e in cluster.endpoints if e.role == role)
            for role in ("thrift", "master", "regionserver")
        )
        if not gateways:
            raise EngineError("hbase: the cluster has no endpoints of role thrift")
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            settings=self.settings_of(cluster.settings),
            durability=self.spec.consistency[self.level_of(cluster)].driver["durability"],
            gateways=gateways,
            servers=regions or masters,
        )
        return HbaseClient(shared).connected()
