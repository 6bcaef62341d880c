"""Cassandra: one server, or a ring of several with replicas.

How a node is started is in `launch`, joining in `cluster`, what clients
do in `client`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from storewise.engines.cassandra import cluster as cassandra_cluster
from storewise.engines.cassandra.client import connect
from storewise.engines.cassandra.launch import launch_of
from storewise.engines.cassandra.settings import CONSISTENCIES, CassandraSettings
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode
from storewise.engines.contract.server import (
    Credentials,
    Installation,
    JoinContext,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Topology,
)
from storewise.engines.support.installation import OWN_STORES
from storewise.engines.support.java import find_jars, java_version
from storewise.engines.support.servers import check_topology, data_nodes
from storewise.errors import EngineError

#: Versions that are taken, and the versions of Java that each runs with.
JAVAS: Mapping[str, tuple[int, ...]] = {"5.0": (11, 17), "4.1": (11,)}
_JAR = r"(?:cassandra-all|apache-cassandra)-(\d+\.\d+\S*)\.jar"
_JAMM = re.compile(r"jamm-[0-9.]+\.jar")


class CassandraEngine(ServerEngine):
    """Cassandra's servers."""

    name = "cassandra"
    title = "Cassandra"
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
    consistencies: ClassVar[Mapping[str, str]] = CONSISTENCIES
    #: All but the first: what commit logs have only in memory is lost with their hosts.
    lossy_levels = frozenset(CONSISTENCIES) - {"durable"}
    consistency_aliases: ClassVar[Mapping[str, str]] = {"strong": "durable", "weak": "one"}
    Settings = CassandraSettings
    guard = "password (PasswordAuthenticator)"
    packages = ("cassandra-driver",)
    #: Three servers that start together on two processors have taken 40 s.
    ready_seconds = 240.0
    own_loopback = True
    programs = ("java",)
    install_hint = (
        "`storewise install cassandra` fetches it (Java: envs/cassandra.yaml for conda), or name "
        "the directory of a tarball or package in the setting `home` or in STOREWISE_CASSANDRA_HOME"
    )

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        self.settings_of(settings)
        check_topology(self.name, topology, most_replicas=topology.nodes)
        # Alone it has nobody to meet, and may try another port if one is taken.
        meets = ("data",) if topology.nodes > 1 else ()
        return data_nodes(topology, meets=meets, ports=("gossip",))

    def find(self, settings: Mapping[str, Any]) -> Installation:
        """The jars and a Java that fits them; EngineError for other versions of either."""
        installed = find_jars(
            self.title,
            settings,
            jar=_JAR,
            variables=("STOREWISE_CASSANDRA_HOME", "CASSANDRA_HOME"),
            usual=(
                f"{OWN_STORES}/cassandra*",
                "/opt/apache-cassandra*",
                "/usr/share/cassandra",
            ),
            javas=JAVAS,
            hint=self.install_hint,
        )
        home, jars = installed.programs["home"], installed.programs["jars"]
        inside = (path for place in (jars, home / "lib") for path in sorted(place.glob("*.jar")))
        jamm = next((path for path in inside if _JAMM.fullmatch(path.name)), None)
        if jamm is None:
            raise EngineError(
                f"Cassandra: there is no jamm-*.jar in {jars}, so it is not complete; "
                f"{self.install_hint}"
            )
        return Installation(
            {**installed.programs, "jamm": jamm},
            f"{self.title} {installed.version} (Java {java_version(installed.programs['java'])})",
            installed.environment,
        )

    def launch(self, node: Node) -> Launch:
        return launch_of(node, self.settings_of(node.settings))

    def not_started_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return cassandra_cluster.not_started_reason(endpoint)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return cassandra_cluster.not_ready_reason(endpoint, credentials)

    def join(self, context: JoinContext) -> None:
        """data0 waits for the ring and gives each node a copy of the session's user."""
        if context.node.spec.index == 0:
            cassandra_cluster.make_ring(context)

    def peer_guards(self, endpoint: Endpoint) -> Mapping[str, str]:
        return {"gossip": "nothing; TLS and loopback where there is one node"}

    def open_ports(
        self, spec: NodeSpec, topology: Topology, settings: Mapping[str, Any]
    ) -> Mapping[str, str]:
        if topology.nodes == 1:
            return {}
        return {"gossip": "read and write all data as a node of the ring"}

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        return connect(self, cluster, mode)
