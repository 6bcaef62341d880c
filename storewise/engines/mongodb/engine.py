"""MongoDB: one server, a replica set, or a sharded cluster.

What a server is started with is in `server.yaml` and `mongod.conf.j2`, replica sets and the
session's user in `cluster`, sharding in `sharding`, where clients sign in in `connection`, what
they do in `client`. When a node dies: `docs/engines/mongodb.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode, Schema
from storewise.engines.contract.server import ClusterContext, Credentials, Node, NodeSpec, Topology
from storewise.engines.mongodb import cluster as mongo_cluster
from storewise.engines.mongodb.client import MongodbClient
from storewise.engines.mongodb.connection import open_shared
from storewise.engines.mongodb.settings import MongoSettings
from storewise.engines.mongodb.sharding import check_key_field
from storewise.engines.support.server_spec import SpecEngine

#: Voting members that a replica set can have.
MAX_REPLICAS = 7
#: Memory of config servers and routers, MiB: they hold metadata and pass documents on.
_SMALL_MB = 1024


class MongoEngine(SpecEngine):
    """MongoDB's servers."""

    name = "mongodb"
    language = "mongodb"
    in_first_study = True
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
    Settings = MongoSettings
    packages = ("pymongo",)
    #: A router answers only when the config servers have become a replica set.
    ready_seconds = 180.0

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        chosen: MongoSettings = self.settings_of(settings)
        self.check_topology(topology, MAX_REPLICAS, routers=True)
        data = self.data_nodes(topology, topology.replicas)
        if not chosen.is_sharded(topology):
            return data
        config = NodeSpec("config", 0, 1, _SMALL_MB)
        routers = tuple(
            NodeSpec("router", n, topology.threads, _SMALL_MB, after=("config",))
            for n in range(topology.routers)
        ) or (NodeSpec("router", 0, 1, _SMALL_MB, placement="worker", after=("config",)),)
        return (config, *data, *routers)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return mongo_cluster.not_ready_reason(endpoint, credentials)

    def bootstrap(self, context: ClusterContext) -> None:
        sharded = self.settings_of(context.settings).is_sharded(context.topology)
        mongo_cluster.bootstrap(context, sharded=sharded)

    def wait_recovered(self, node: Node, raise_if_aborted: Callable[[], None]) -> None:
        if node.spec.role != "router":
            mongo_cluster.wait_recovered(node, raise_if_aborted)

    def check_schema(self, settings: Mapping[str, Any], schema: Schema) -> None:
        check_key_field(self.settings_of(settings), schema.kinds)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        shared = open_shared(self, cluster, mode)
        return MongodbClient(shared, shared.connect()).connected()
