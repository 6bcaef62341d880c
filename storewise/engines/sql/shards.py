"""What clients of independent SQL servers know of them: which there are, which one holds an id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field as Setting

from storewise.engines.contract.engine import Cluster, HashPlacement, Mode
from storewise.engines.contract.server import Credentials, NodeSpec, ServerSettings, Topology
from storewise.engines.sql.reads import SqlState
from storewise.engines.support.routing import Router
from storewise.errors import EngineError

DATA_ROLE = "data"


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the servers."""

    name: str
    """Of its node: ``data0``."""
    host: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.name} ({self.address}:{self.port})"


class ShardedSettings(ServerSettings):
    """Settings of every engine whose documents are sharded by the client."""

    layout: Literal["columns", "json"] = Setting(
        default="columns",
        description="a column for each field, or the id and one JSON document",
    )
    scan_mode: Literal["global", "owner"] = Setting(
        default="global",
        description="a scan merges all servers, or asks only the server of its start id",
    )


def shards_of(cluster: Cluster) -> tuple[Shard, ...]:
    """The data nodes of a cluster by index; EngineError where there is none."""
    nodes = sorted((e for e in cluster.endpoints if e.role == DATA_ROLE), key=lambda e: e.index)
    if not nodes or [e.index for e in nodes] != list(range(len(nodes))):
        names = ", ".join(f"{e.role}{e.index}" for e in cluster.endpoints) or "none"
        raise EngineError(
            f"{cluster.engine}: a client needs the endpoints data0, data1 and so on; got {names}"
        )
    return tuple(Shard(f"{e.role}{e.index}", e.host, e.address, e.port) for e in nodes)


def sharded_roles(engine: str, topology: Topology) -> tuple[NodeSpec, ...]:
    """`ServerEngine.roles` of such an engine: data nodes and nothing else."""
    if topology.nodes < 1:
        raise EngineError(f"{engine}: nodes is {topology.nodes}; at least one is needed")
    if topology.replicas != 1:
        raise EngineError(
            f"{engine}: replicas is {topology.replicas}; its servers are independent shards that "
            "hold each document once: leave replicas at 1"
        )
    if topology.routers != 0:
        raise EngineError(
            f"{engine}: routers is {topology.routers}; clients connect to the data nodes "
            "themselves: leave routers at 0"
        )
    return tuple(
        NodeSpec(DATA_ROLE, index, topology.threads, topology.memory_mb)
        for index in range(topology.nodes)
    )


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """What the clients of one process have in common; `stores` are its `Shard`s."""

    settings: Any
    """The engine's own settings, a `ShardedSettings`."""
    credentials: Credentials
    consistency: str

    @classmethod
    def of(cls, cluster: Cluster, mode: Mode, settings: ShardedSettings) -> Shared:
        """For `Engine.connect`; EngineError without endpoints or credentials."""
        shards = shards_of(cluster)
        placement = cluster.placement or HashPlacement(len(shards))
        return cls(
            mode=mode,
            kinds=cluster.kinds,
            stores=shards,
            router=Router(len(shards), placement),
            settings=settings,
            credentials=Credentials.of(cluster),
            consistency=cluster.consistency,
        )
