"""Riak KV: a ring of equal nodes, each key on `replicas` of them.

Finding it is in `installation`, configuration in `config`, joining in `cluster`, the
protocol in `protocol`, what clients do in `client`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from storewise.documents import Encoding
from storewise.engines.contract.engine import Client, Cluster, Endpoint, EngineSettings, Flags, Mode
from storewise.engines.contract.server import (
    Credentials,
    Forming,
    Installation,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Settling,
    Topology,
)
from storewise.engines.riak import cluster as riak_cluster
from storewise.engines.riak import config as riak_conf
from storewise.engines.riak.client import open_client
from storewise.engines.riak.config import PORTS
from storewise.engines.riak.installation import HINT, find_release
from storewise.engines.riak.settings import (
    CONSISTENCIES,
    Quorums,
    RiakSettings,
    quorums_of,
    ring_size_of,
)
from storewise.engines.support.servers import check_topology, settings_of
from storewise.errors import EngineError


class RiakEngine(ServerEngine):
    """Riak KV's nodes."""

    name: ClassVar[str] = "riak"
    title: ClassVar[str] = "Riak KV"
    flags: ClassVar[Flags] = Flags(
        embedded=False,
        durable=True,
        distributed=True,
        replicas=True,
        updates=True,
        deletes=True,
        count="none",
        owner=True,
    )
    encoding: ClassVar[Encoding] = "dict"
    consistencies: ClassVar[Mapping[str, str]] = CONSISTENCIES
    #: All but the first: what is not synced goes with its hosts.
    losing: ClassVar[frozenset[str]] = frozenset(CONSISTENCIES) - {"durable"}
    vocabulary: ClassVar[Mapping[str, str]] = {"strong": "durable", "weak": "one"}
    Settings: ClassVar[type[EngineSettings]] = RiakSettings
    ready_seconds: ClassVar[float] = 180.0
    programs: ClassVar[tuple[str, ...]] = ("riak",)
    install_hint: ClassVar[str] = HINT

    def versions(self) -> dict[str, str]:
        """The client is Storewise's own."""
        return {}

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        chosen = settings_of(RiakSettings, self, settings)
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
        return tuple(
            NodeSpec(
                "data",
                index,
                topology.threads,
                topology.memory_mb,
                meets=("data",),
                ports=PORTS,
            )
            for index in range(topology.nodes)
        )

    def find(self, settings: Mapping[str, Any]) -> Installation:
        return find_release(settings)

    def launch(self, node: Node) -> Launch:
        return riak_conf.launch(node, settings_of(RiakSettings, self, node.settings))

    def answers(self, endpoint: Endpoint, credentials: Credentials) -> bool:
        return riak_cluster.answers(endpoint)

    def settle(self, settling: Settling) -> None:
        riak_cluster.Joiner(settling).settle()

    def form(self, forming: Forming) -> None:
        """Every node answers, and finds a key of each partition."""
        super().form(forming)
        riak_cluster.form(forming, *self._serving(forming))

    def resume(self, settling: Settling) -> None:
        riak_cluster.resume(settling, *self._serving(settling.node))

    def _serving(self, of: Forming | Node) -> tuple[int, Quorums]:
        """The ring's size and the level's numbers."""
        settings = settings_of(RiakSettings, self, of.settings)
        return ring_size_of(settings, of.topology.nodes), quorums_of(settings, of.consistency)

    def guards(self, endpoint: Endpoint) -> str:
        return "nothing"

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
        return open_client(self, cluster, mode)
