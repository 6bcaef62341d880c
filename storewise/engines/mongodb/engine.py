"""MongoDB: one server, a replica set, or a sharded cluster.

Command lines and options of the servers are in `launch`, the bootstrap in `cluster`, sharding in
`sharding`, what clients do in `client`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode, Schema
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
from storewise.engines.mongodb import cluster as mongo_cluster
from storewise.engines.mongodb.client import MongodbClient
from storewise.engines.mongodb.cluster import is_sharded
from storewise.engines.mongodb.connection import open_shared
from storewise.engines.mongodb.launch import launch_of
from storewise.engines.mongodb.settings import CONSISTENCIES, MongoSettings
from storewise.engines.mongodb.sharding import check_key_field
from storewise.engines.support.installation import find_installation
from storewise.engines.support.servers import check_topology, data_nodes
from storewise.errors import EngineError

#: Voting members that a replica set can have.
MAX_REPLICAS = 7
#: Memory of config servers and routers, MiB: they hold metadata and pass documents on.
_SMALL_MB = 1024


class MongoEngine(ServerEngine):
    """MongoDB's servers."""

    name = "mongodb"
    title = "MongoDB"
    flags = Flags(
        embedded=False,
        replicas=True,
        authentication=True,
        secondary_indexes=True,
        updates=True,
        deletes=True,
        scans=True,
        ranges=True,
        server_aggregation=True,
        owner=True,
        finds=True,
        explains=True,
        size_has_copies=False,
    )
    encoding = "bson"
    consistencies: ClassVar[Mapping[str, str]] = CONSISTENCIES
    #: All but the first: memory is lost in a crash, and what only the primary has in a failover.
    lossy_levels = frozenset(CONSISTENCIES) - {"durable"}
    consistency_aliases: ClassVar[Mapping[str, str]] = {
        "strong": "durable",
        "weak": "unacknowledged",
    }
    Settings = MongoSettings
    guard = "password (SCRAM-SHA-256); among servers a key file"
    packages = ("pymongo",)
    #: A router answers only when the config servers have been formed.
    ready_seconds = 180.0
    programs = ("mongod", "mongos")
    install_hint = (
        "`storewise install mongodb` fetches mongod; or install MongoDB 5 or newer (packages "
        "mongodb-org-server and mongodb-org-mongos), or name its directory in the setting `home` "
        "or in STOREWISE_MONGODB_BIN"
    )

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        chosen: MongoSettings = self.settings_of(settings)
        check_topology(self.name, topology, MAX_REPLICAS, routers=True)
        data = data_nodes(topology, topology.replicas)
        if not is_sharded(topology, chosen.sharded == "always"):
            return data
        config = tuple(
            NodeSpec("config", index, 1, _SMALL_MB) for index in range(chosen.config_servers)
        )
        routers = tuple(
            NodeSpec("router", index, topology.threads, _SMALL_MB, after=("config",))
            for index in range(topology.routers)
        ) or (NodeSpec("router", 0, 1, _SMALL_MB, placement="worker", after=("config",)),)
        return (*config, *data, *routers)

    def find(self, settings: Mapping[str, Any]) -> Installation:
        """mongod, and mongos where there is one: only sharded clusters need it."""
        installed = self._look(("mongod",), settings)
        try:
            installed = self._look(("mongod", "mongos"), settings)
        except EngineError:
            if settings.get("sharded") == "always":
                raise
        number = re.search(r"v?(\d+\.\d+\.\d+\S*)", installed.version)
        if number is None:
            mongod = installed.programs["mongod"]
            raise EngineError(f"{mongod} says no version: {installed.version!r}")
        return replace(installed, version=f"MongoDB {number[1]}")

    def _look(self, programs: tuple[str, ...], settings: Mapping[str, Any]) -> Installation:
        return find_installation(
            self.title,
            programs,
            settings,
            variable="STOREWISE_MONGODB_BIN",
            version=("mongod", "--version"),
            own=self.name,
            usual=("/opt/mongodb*/bin", "/usr/local/mongodb*/bin"),
            hint=self.install_hint,
        )

    def launch(self, node: Node) -> Launch:
        return launch_of(node, self.settings_of(node.settings), self.install_hint)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return mongo_cluster.not_ready_reason(endpoint, credentials)

    def bootstrap(self, context: BootstrapContext) -> None:
        mongo_cluster.bootstrap(context)

    def check_schema(self, settings: Mapping[str, Any], schema: Schema) -> None:
        check_key_field(self.settings_of(settings), schema.kinds)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        shared = open_shared(self, cluster, mode)
        return MongodbClient(shared, shared.connect()).connected()
