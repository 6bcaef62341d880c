"""Nodes of MariaDB and MySQL for tests."""

from pathlib import Path

from storewise.engines.contract.server import Credentials, Installation, Node, Topology
from storewise.engines.mysql.engine import MysqlEngine

ENGINE = MysqlEngine()
MARIADB = Installation(
    {"mariadbd": Path("/x/mariadbd"), "mariadb-install-db": Path("/x/mariadb-install-db")},
    "MariaDB 10.11.6",
)


def node(installation=MARIADB, *, consistency="durable", **settings):
    topology = Topology(memory_mb=2048)
    return Node(
        spec=ENGINE.roles(topology, settings)[0],
        topology=topology,
        settings=settings,
        consistency=consistency,
        session="s-1",
        directory=Path("/long/" + "d" * 120 + "/data0"),
        address="10.0.0.7",
        port=33999,
        installation=installation,
        credentials=Credentials.make(),
    )
