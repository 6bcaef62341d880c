"""Valkey, and Redis: a server that keeps all documents in memory, or a cluster of several.

What a server is started with is in `server.yaml` and `valkey.conf.j2`, slots and their servers in
`cluster`, where clients sign in in `connection`, what they do in `client`. When a server dies, its
documents are out of reach until it is back; a failed request is not sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from valkey.exceptions import AuthenticationError

from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import ClusterContext, Credentials, Node
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec, SpecEngine
from storewise.engines.support.servers import numbered_nodes
from storewise.engines.valkey.client import Shared, ValkeyClient
from storewise.engines.valkey.cluster import CLUSTER_ADMIN, make_cluster, wait_for_cluster
from storewise.engines.valkey.connection import Connections
from storewise.errors import EngineError


class ValkeySettings(ConfigSettings):
    """Settings of Valkey in a study."""

    spec = ServerSpec.read(__package__)


class ValkeyEngine(SpecEngine):
    """Valkey's servers."""

    name = "valkey"
    flags = Flags(
        embedded=False, authentication=True, updates=True, deletes=True, scans=True, owner=True
    )
    Settings = ValkeySettings
    packages = ("valkey", "libvalkey")

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        user, password = credentials.user, credentials.password
        with closing(Connections((endpoint,), user, password)) as connections:
            try:
                connections.open()
            except EngineError as error:
                if isinstance(error.__cause__, AuthenticationError):
                    raise  # waiting does not help
                return str(error)
        return None

    def bootstrap(self, context: ClusterContext) -> None:
        super().bootstrap(context)
        nodes, key = context.endpoints("data"), context.credentials.key
        if len(nodes) > 1:
            with closing(Connections(nodes, CLUSTER_ADMIN, key)) as connections:
                make_cluster(connections)
                wait_for_cluster(connections, len(nodes), context.raise_if_aborted)

    def wait_recovered(self, node: Node, raise_if_aborted: Callable[[], None]) -> None:
        if node.topology.nodes > 1:
            own = Endpoint(node.spec.role, node.spec.index, "", node.address, node.port)
            with closing(Connections((own,), CLUSTER_ADMIN, node.credentials.key)) as connections:
                wait_for_cluster(connections, node.topology.nodes, raise_if_aborted)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        self.settings_of(cluster.settings)
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            level=self.level_of(cluster),
            credentials=Credentials.of(cluster),
            endpoints=numbered_nodes(cluster),
        )
        return ValkeyClient(shared).connected()
