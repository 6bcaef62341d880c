"""Riak KV: a ring of equal nodes, each key on `replicas` of them.

Finding it is in `installation`, starting a node in `launch`, joining in `cluster`, the
protocol in `protocol`, what clients do in `client`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    BootstrapContext,
    Credentials,
    Installation,
    JoinContext,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Topology,
)
from storewise.engines.riak import cluster as riak_cluster
from storewise.engines.riak.client import RiakClient
from storewise.engines.riak.connection import Shared
from storewise.engines.riak.installation import HINT, find_release
from storewise.engines.riak.launch import PORTS, launch_of
from storewise.engines.riak.settings import (
    CONSISTENCIES,
    Quorums,
    RiakSettings,
    check_level,
    quorums_of,
    ring_size_of,
)
from storewise.engines.support.servers import check_topology, data_nodes
from storewise.errors import EngineError


class RiakEngine(ServerEngine):
    """Riak KV's nodes."""

    name = "riak"
    title = "Riak KV"
    flags = Flags(
        embedded=False,
        replicas=True,
        updates=True,
        deletes=True,
        count="none",
        owner=True,
    )
    consistencies: ClassVar[Mapping[str, str]] = CONSISTENCIES
    #: All but the first: what is not synced goes with its hosts.
    lossy_levels = frozenset(CONSISTENCIES) - {"durable"}
    slow_levels: ClassVar[Mapping[str, float]] = {"durable": 100.0}
    consistency_aliases: ClassVar[Mapping[str, str]] = {"strong": "durable", "weak": "one"}
    Settings = RiakSettings
    #: The client is Storewise's own.
    packages = ()
    ready_seconds = 180.0
    programs = ("riak",)
    install_hint = HINT

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        chosen: RiakSettings = self.settings_of(settings)
        check_topology(self.name, topology, most_replicas=topology.nodes)
        if ring_size_of(chosen, topology.nodes) < topology.nodes:
            raise EngineError(
                f"riak cannot share a ring of {chosen.ring_size} partitions among "
                f"{topology.nodes} nodes; give `ring_size` a larger power of two"
            )
        for name in ("r", "w", "dw"):
            number = getattr(chosen, name)
            if isinstance(number, int) and number > topology.replicas:
                raise EngineError(
                    f"riak: setting {name}: {number} of {topology.replicas} replicas cannot answer"
                )
        return data_nodes(topology, meets=("data",), ports=PORTS)

    def find(self, settings: Mapping[str, Any]) -> Installation:
        return find_release(settings)

    def launch(self, node: Node) -> Launch:
        return launch_of(node, self.settings_of(node.settings))

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return riak_cluster.not_ready_reason(endpoint)

    def join(self, context: JoinContext) -> None:
        riak_cluster.Joiner(context).join()

    def bootstrap(self, context: BootstrapContext) -> None:
        """Every node answers, and finds a key of each partition."""
        super().bootstrap(context)
        riak_cluster.bootstrap(context, *self._serving(context))

    def wait_recovered(self, context: JoinContext) -> None:
        riak_cluster.wait_recovered(context, *self._serving(context.node))

    def _serving(self, of: BootstrapContext | Node) -> tuple[int, Quorums]:
        """The ring's size and the level's numbers."""
        settings: RiakSettings = self.settings_of(of.settings)
        return ring_size_of(settings, of.topology.nodes), quorums_of(settings, of.consistency)

    def peer_guards(self, endpoint: Endpoint) -> Mapping[str, str]:
        guards = dict.fromkeys(endpoint.ports, "nothing")
        return guards | {"distribution": "secret of the session (Erlang cookie)"}

    def open_ports(
        self, spec: NodeSpec, topology: Topology, settings: Mapping[str, Any]
    ) -> Mapping[str, str]:
        return {
            "client port": "read, write and delete",
            "http": "read, write, delete and see statistics",
            "handoff": "send data as a node does",
            "epmd": "learn the nodes' names and ports, take a name",
            "cluster_manager": "start replication with another cluster",
        }

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        """EngineError within seconds where no node answers."""
        settings: RiakSettings = self.settings_of(cluster.settings)
        level = self.level_of(cluster)
        check_level(settings, level)
        if not cluster.endpoints:
            raise EngineError("riak: the cluster has no endpoints of data nodes")
        shared = Shared(
            mode=mode,
            settings=settings,
            quorums=quorums_of(settings, level),
            endpoints=cluster.endpoints,
            ring_size=ring_size_of(settings, len(cluster.endpoints)),
            kinds=cluster.kinds,
        )
        return RiakClient(shared, shared.link()).connected()
