"""The toy server as a ring: nodes that must know each other before any of them starts."""

import sys
from dataclasses import replace
from typing import ClassVar

from storewise.engines.contract.engine import Client
from storewise.engines.contract.server import Launch, NodeSpec
from support.tcp_engine import TcpEngine


class RingClient(Client):
    def create(self, schema):
        pass

    def insert(self, kind, documents):
        raise NotImplementedError

    def get(self, kind, document_id):
        raise NotImplementedError

    def disk_bytes(self):
        return 0

    def close(self):
        pass


class RingEngine(TcpEngine):
    """Setting `join`: a Python expression that each node prints when all answer."""

    name: ClassVar[str] = "ring"
    own_loopback: ClassVar[bool] = True

    def roles(self, topology, settings):
        return tuple(
            NodeSpec("data", index, meets=("data",), ports=("gossip", "http"))
            for index in range(topology.nodes)
        )

    def launch(self, node):
        launch = super().launch(node)
        met = "".join(
            f"{e.name} {e.address} {e.port} {e.ports['gossip']} {e.ports['http']}\n"
            for e in node.peers
        )
        source = launch.files["server.py"].replace('"127.0.0.1"', repr(node.address))
        return Launch(
            command=launch.command,
            files={"server.py": source, "etc/secret": "", "met": met},
            remove_when_ready=launch.remove_when_ready,
            stop_seconds=2.0,
        )

    def join(self, node, context, run):
        names = " ".join(endpoint.name for endpoint in context.endpoints("data"))
        text = node.settings.get("join", "'joined'")
        command = (sys.executable, "-c", f"print({text})")
        output = run(command, node.settings.get("seconds", 30.0))
        (node.directory / "joined").write_text(f"{names}: {output}")

    def peer_guards(self, endpoint):
        return {"gossip": "none", "http": "password"}

    def open_ports(self, spec, topology):
        return {"gossip": "join"} if topology.nodes > 1 else {}

    def connect(self, cluster, mode):
        return RingClient()


#: The node that other nodes outlive.
SLOW = "data0"


class LastingEngine(RingEngine):
    """One slow node, and one that outlives it."""

    name: ClassVar[str] = "lasting"
    own_loopback: ClassVar[bool] = False

    def roles(self, topology, settings):
        # Named first: the order must not come from there.
        ports = ("gossip", "http")
        return (
            NodeSpec("last", 0, outlives=("data",), ports=ports),
            NodeSpec("data", 0, ports=ports),
        )

    def launch(self, node):
        deaf = node.spec.name == SLOW
        return super().launch(replace(node, settings={"words": ["deaf"] if deaf else []}))

    def join(self, node, context, run):
        pass
