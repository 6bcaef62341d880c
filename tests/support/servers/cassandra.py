"""Nodes of Cassandra for tests."""

from dataclasses import replace
from pathlib import Path

from support.servers.nodes import make_node

from storewise.engines.cassandra.engine import CassandraEngine
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Installation, Topology

ENGINE = CassandraEngine()
HOME = Path("/opt/cassandra")
PROGRAMS = {
    "home": HOME,
    "jars": HOME / "lib",
    "java": Path("/opt/java/bin/java"),
    "jamm": HOME / "lib" / "jamm-0.4.0.jar",
}
INSTALLED = Installation(PROGRAMS, "Cassandra 5.0.9 (Java 17)")
RING = 3


def node_of(index=0, nodes=RING, network=False, **changes):
    topology = Topology(nodes=nodes, replicas=nodes, memory_mb=2048)
    peers = tuple(
        Endpoint("data", k, "h", f"10.0.0.{k + 1}" if network else f"127.0.0.{k + 1}", 3000 + k,
                 {"gossip": 4000 + k})
        for k in range(nodes)
    )  # fmt: skip
    server = peers[index]
    known = {
        "installation": INSTALLED,
        "address": server.address,
        "port": server.port,
        "ports": server.ports,
        "peers": peers if nodes > 1 else (),
    }
    return replace(make_node(ENGINE, f"data{index}", topology, **known), **changes)
