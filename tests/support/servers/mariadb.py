"""Nodes of MariaDB and MySQL for tests."""

from pathlib import Path

from support.servers.nodes import make_node

from storewise.engines.contract.server import Installation, Topology
from storewise.engines.mysql.engine import MysqlEngine

ENGINE = MysqlEngine()
MARIADB = Installation(
    {"mariadbd": Path("/x/mariadbd"), "mariadb-install-db": Path("/x/mariadb-install-db")},
    "MariaDB 10.11.6",
)


def node(installation=MARIADB, *, consistency="durable", **settings):
    return make_node(
        ENGINE,
        topology=Topology(memory_mb=2048),
        settings=settings,
        consistency=consistency,
        directory=Path("/long/" + "d" * 120 + "/data0"),
        installation=installation,
    )
