"""A server of a few lines behind the engine contract, for tests of what surrounds a server."""

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from storewise.engines.contract.engine import Flags
from storewise.engines.contract.server import (
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    ServerEngine,
    Topology,
)
from storewise.errors import EngineError

#: Arguments: port, then words that say how it misbehaves.
SERVER = """\
import os, signal, socket, subprocess, sys, time
port, words = int(sys.argv[1]), sys.argv[2:]
if "deaf" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: (open("stopped", "w").close(), sys.exit(0)))
if "detach" in words:
    # A grandchild in a session of its own, as servers that daemonize leave it.
    subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys, time; subprocess.Popen([sys.executable, "
         "'-c', 'import time; time.sleep(600)'], start_new_session=True)"],
        start_new_session=True,
    ).wait()
if "fail" in words:
    print("the disk of this server is full", flush=True)
    sys.exit(3)
if "mute" in words:
    time.sleep(600)
if "elsewhere" in words:
    open("../elsewhere", "w").close()
server = socket.create_server(("127.0.0.1", port))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"ok")
    connection.close()
"""


REMOVE = (sys.executable, "-c", "import os; os.remove('../elsewhere')")


class TcpEngine(ServerEngine):
    """Answers ``ok``; the setting `words` makes it misbehave."""

    name: ClassVar[str] = "tcp"
    title: ClassVar[str] = "Tcp"
    flags: ClassVar[Flags] = Flags(embedded=False)
    consistencies: ClassVar[Mapping[str, str]] = {"durable": "", "relaxed": ""}
    ready_seconds: ClassVar[float] = 5.0

    def versions(self, settings=None):
        return {}

    def roles(self, topology, settings):
        return tuple(NodeSpec("data", index) for index in range(topology.nodes))

    def find(self, settings):
        return Installation({"python": Path(sys.executable)}, "Tcp 1")

    def launch(self, node):
        words = node.settings.get("words", ())
        step = (
            sys.executable,
            "-c",
            node.settings.get("program", f"import sys; sys.exit({node.settings.get('step', 0)!r})"),
        )
        return Launch(
            command=(sys.executable, "server.py", str(node.port), *words),
            files={"server.py": SERVER, "etc/secret": node.credentials.password},
            directories=("data",),
            steps=(step,),
            cleanup=(REMOVE,) if "elsewhere" in words else (),
            remove_when_ready=("etc/secret",),
            stop_seconds=2.0,
        )

    def not_ready_reason(self, endpoint, credentials):
        try:
            with socket.create_connection((endpoint.address, endpoint.port), 1) as connection:
                return None if connection.recv(2) == b"ok" else "it does not say ok"
        except OSError as error:
            return str(error)

    def connect(self, cluster, mode):
        raise EngineError("the server of the tests only says ok: nothing can connect to it")


def node_of(directory, **settings):
    """A node of the engine below `directory`."""
    engine = TcpEngine()
    return Node(
        spec=NodeSpec("data", 0),
        topology=Topology(),
        settings=settings,
        consistency="durable",
        session="test",
        directory=directory / "data0",
        address="127.0.0.1",
        port=0,
        installation=engine.find({}),
        credentials=Credentials.make(),
    )


def main():
    """Start a server as a node job does, say its pids, and wait to be killed."""
    from storewise.session.server.server import start_server

    directory, *words = sys.argv[1:]
    server = start_server(
        TcpEngine(), node_of(Path(directory), words=words), Path(directory) / "log", lambda: None
    )
    assert server._process is not None and server._process._guard is not None
    print(os.getpid(), server._process._guard.pid, server.pid, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
