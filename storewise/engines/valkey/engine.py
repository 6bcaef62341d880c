"""Valkey, and Redis: a server that keeps all documents in memory, or a cluster of several.

What a server is started with is in `server.yaml` and `valkey.conf.j2`, slots and their servers in
`cluster`, where clients sign in in `connection`, what they do in `client`. When a server dies, its
documents are out of reach until it is back; a failed request is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable

import psutil
from pydantic import Field as Setting

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import ClusterContext, Credentials, Node, Run
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec, SpecEngine
from storewise.engines.valkey.client import Shared, ValkeyClient
from storewise.engines.valkey.cluster import CLUSTER_ADMIN, make_cluster, wait_for_cluster
from storewise.engines.valkey.connection import Connections, Unavailable
from storewise.errors import EngineError


class ValkeySettings(ConfigSettings):
    """What a study may say of Valkey."""

    spec = ServerSpec.read(__package__)
    memory_share: float = Setting(
        default=0.6,
        gt=0,
        le=0.9,
        description="`maxmemory` as a share of the node's memory; documents beyond it are refused",
    )

    def max_bytes(self, memory_mb: int) -> int:
        """`maxmemory` of a node with so much memory (MiB)."""
        return int(self.memory_share * memory_mb) << 20


class ValkeyEngine(SpecEngine):
    """Valkey's servers."""

    name = "valkey"
    flags = Flags(
        embedded=False, authentication=True, updates=True, deletes=True, scans=True, owner=True
    )
    Settings = ValkeySettings
    packages = ("valkey", "libvalkey")

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        with Connections((endpoint,), credentials.user, credentials.password) as connections:
            try:
                connections.open()
            except Unavailable as error:
                return str(error)
        return None

    def join(self, node: Node, context: ClusterContext, run: Run) -> None:
        """EngineError where the documents may take more memory than the host has free."""
        max_bytes = self.settings_of(node.settings).max_bytes(node.spec.memory_mb)
        free = psutil.virtual_memory().available
        if max_bytes > free:
            raise EngineError(
                f"valkey: {node.spec.name} may keep {max_bytes >> 20:,} MB of documents "
                f"(`memory_share` of `node_memory_mb`), and its host has {free >> 20:,} MB of "
                "memory free: lower one of them, or take a host with more"
            )

    def bootstrap(self, context: ClusterContext) -> None:
        super().bootstrap(context)
        nodes = context.endpoints("data")
        if len(nodes) > 1:
            with Connections(nodes, CLUSTER_ADMIN, context.credentials.key) as connections:
                make_cluster(nodes, connections)
                wait_for_cluster(connections, len(nodes), context.raise_if_aborted)

    def wait_recovered(self, node: Node, raise_if_aborted: Callable[[], None]) -> None:
        spec = node.spec
        if node.topology.nodes > 1:
            own = Endpoint(spec.role, spec.index, "", node.address, node.port, node.ports)
            with Connections((own,), CLUSTER_ADMIN, node.credentials.key) as connections:
                wait_for_cluster(connections, node.topology.nodes, raise_if_aborted)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        self.settings_of(cluster.settings)
        return ValkeyClient(Shared.of(cluster, mode, self.level_of(cluster))).connected()
