"""An engine of the simulation: its servers answer `ok` to each connection, and store nothing."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode, Schema
from storewise.engines.contract.server import (
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Topology,
)

SERVER = """\
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = server.accept()
    connection.sendall(b"ok")
    connection.close()
"""


class HollowClient(Client):
    """A client without a connection: workers of the simulation do no operations."""

    def create(self, schema: Schema) -> None:
        pass

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        raise NotImplementedError

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        raise NotImplementedError

    def disk_bytes(self) -> int:
        return 0

    def close(self) -> None:
        pass


class HollowEngine(ServerEngine):
    """Any number of nodes, each a small process."""

    name: ClassVar[str] = "hollow"
    title: ClassVar[str] = "Hollow"
    flags: ClassVar[Flags] = Flags(embedded=False, stores=False, count="none")
    consistencies: ClassVar[Mapping[str, str]] = {"durable": "", "relaxed": ""}

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        return {}

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        return tuple(NodeSpec("data", index) for index in range(topology.nodes))

    def find(self, settings: Mapping[str, Any]) -> Installation:
        return Installation({"python": Path(sys.executable)}, "Hollow 1")

    def launch(self, node: Node) -> Launch:
        return Launch(
            command=(sys.executable, "-S", "-E", "server.py", str(node.port)),
            files={"server.py": SERVER},
            stop_seconds=5.0,
        )

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        try:
            with socket.create_connection((endpoint.address, endpoint.port), 1) as connection:
                return None if connection.recv(2) == b"ok" else "it does not say ok"
        except OSError as error:
            return str(error)

    def connect(self, cluster: Cluster, mode: Mode) -> HollowClient:
        return HollowClient()
