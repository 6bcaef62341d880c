"""Cassandra: one server, or a ring of several with replicas.

What a server is started with is in `server.yaml` and the templates, its place on the ring and the
first start of data0 in `launch` and `bootstrap`, how several become a ring in `cluster`, where
clients sign in and try again in `connection`, what they do in `client`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cassandra import ConsistencyLevel
from pydantic import Field as Setting

from storewise.engines.cassandra.client import CassandraClient
from storewise.engines.cassandra.cluster import make_ring
from storewise.engines.cassandra.connection import FAILURES, node_session
from storewise.engines.cassandra.launch import launch_of
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    ClusterContext,
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    Run,
    Topology,
)
from storewise.engines.support.java import JavaSettings
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec, SpecEngine
from storewise.errors import EngineError

#: What the driver says where a node did not let it sign in ...
_REFUSED = "Failed to authenticate"
#: ... and what the node has added if it failed to look the user up.
_UNDECIDED = "Unable to perform authentication"


class CassandraSettings(JavaSettings, ConfigSettings):
    """Settings of Cassandra."""

    spec = ServerSpec.read(__package__)
    concurrency: int = Setting(
        default=128, ge=1, le=2048, description="requests in flight of one client thread"
    )
    config: dict[str, Any] = Setting(
        default_factory=dict,
        description="more options of cassandra.yaml, such as `concurrent_writes: 64`",
    )


class CassandraEngine(SpecEngine):
    """Cassandra's servers."""

    name = "cassandra"
    language = "cql"
    flags = Flags(
        embedded=False,
        replicas=True,
        authentication=True,
        secondary_indexes=True,
        updates=True,
        deletes=True,
        # No scans: rows lie in the order of their ids' hashes. No aggregation on the servers:
        # groups can be made of primary keys only.
        ranges=True,
        count="scan",
        owner=True,
    )
    Settings = CassandraSettings
    packages = ("cassandra-driver",)
    #: Three servers that start together on two processors have taken 40 s.
    ready_seconds = 240.0
    own_loopback = True

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        # Alone it has nobody to meet, and may try another port if one is taken.
        meets = ("data",) if topology.nodes > 1 else ()
        return tuple(replace(spec, meets=meets) for spec in super().roles(topology, settings))

    def find(self, settings: Mapping[str, Any]) -> Installation:
        installed = super().find(settings)
        jars, home = installed.programs["jars"], installed.programs["home"]
        jamm = [*jars.glob("jamm-*.jar"), *(home / "lib").glob("jamm-*.jar")]
        if not jamm:
            raise EngineError(
                f"Cassandra: there is no jamm-*.jar in {jars}, so it is not complete; "
                f"{self.spec.install_hint}"
            )
        return replace(installed, programs={**installed.programs, "jamm": jamm[0]})

    def launch(self, node: Node) -> Launch:
        return launch_of(self.spec, node, self.settings_of(node.settings))

    def not_started_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        """A server that refuses the session's user counts as started: until the ring is formed,
        only data0 knows that user."""
        reason = _sign_in_error(endpoint, credentials)
        return None if reason and _REFUSED in reason else reason

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        reason = _sign_in_error(endpoint, credentials)
        if reason and _REFUSED in reason and _UNDECIDED not in reason:
            raise EngineError(
                f"cassandra: {endpoint} refuses the user or password of this session: {reason}"
            )
        return reason

    def join(self, node: Node, context: ClusterContext, run: Run) -> None:
        """data0 waits for the ring and gives each node a copy of the session's user."""
        if node.spec.index == 0:
            make_ring(context)

    def open_ports(self, spec: NodeSpec, topology: Topology) -> Mapping[str, str]:
        return super().open_ports(spec, topology) if topology.nodes > 1 else {}

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        level = self.spec.consistency[self.level_of(cluster)].driver["consistency_level"]
        concurrency = self.settings_of(cluster.settings).concurrency
        return CassandraClient(cluster, mode, ConsistencyLevel.name_to_value[level], concurrency)


def _sign_in_error(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """The driver's message where a user cannot sign in at a node."""
    try:
        with node_session(endpoint, credentials):
            return None
    except FAILURES as error:
        return str(error)
