"""The release directory of the stand-in for Riak: its start script, and nodes that join.

The port that a real node has for Erlang's distribution is where nodes and commands talk, and the
one of epmd where they find each other: who gets it first keeps the names of all.
"""

from __future__ import annotations

import http.server
import json
import os
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any

from riak_standin import KNOWN, Server, Standin, call, stop_at_signal

SCRIPT = """\
#!{python}
# As with relx, the release is what lies above this file itself.
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import riak_standin_release
root = Path(__file__).resolve().parent.parent
os.chdir(root)
riak_standin_release.command(root, sys.argv[1:])
"""
#: What the engine must change in its copies.
NODETOOL = 'ERL_FLAGS="${ERL_FLAGS} ${NAME_TYPE} $nodetool_id -setcookie ${COOKIE}" \\\n'


def make_release(directory: Path, version: str = "3.2.2") -> Path:
    """A directory as Riak's packages have it in /usr/lib/riak."""
    home = directory / "riak"
    for name in ("bin/hooks", f"releases/{version}", "erts-12.3.2/bin", "lib", "share/schema"):
        (home / name).mkdir(parents=True)
    text = SCRIPT.format(python=sys.executable, tests=str(Path(__file__).resolve().parent))
    (home / "bin/riak").write_text(text + "# " + NODETOOL)
    (home / "bin/riak").chmod(0o755)
    (home / "bin/riak-admin").write_text(f"PLATFORM_BIN_DIR={home}/bin\n{NODETOOL}")
    (home / "bin/hooks/riak_not_running").write_text(f'RIAK="{home}/bin/riak"\n')
    (home / "releases/start_erl.data").write_text(f"12.3.2 {version}\n")
    (home / "releases" / version / "vm.args").write_text("-name riak@127.0.0.1\n")
    return home


def command(root: Path, words: list[str]) -> None:
    if words == ["chkconfig"]:
        check(root)
    elif words == ["foreground"]:
        Node(root).run()
    elif words[:1] == ["admin"]:
        conf = config(root)
        address = conf["nodename"].partition("@")[2]
        where = (address, int(conf["erlang.distribution.port_range.minimum"]))
        said = call(where, cookie(), "admin", *words[1:])
        print(said)
        # As nodetool does where a function gives anything but ok.
        sys.exit(1 if said.startswith(("Node ", "Failed")) else 0)
    else:
        sys.exit(f"Usage: riak [COMMAND]; not {' '.join(words)}")


def config(root: Path) -> dict[str, str]:
    lines = (root / "etc/riak.conf").read_text().splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def cookie() -> str:
    """Of the file, as Erlang has it where no command line says otherwise."""
    path = Path(os.environ["HOME"]) / ".erlang.cookie"
    assert path.stat().st_mode & 0o077 == 0, "Cookie file must be accessible by owner only"
    return path.read_text()


def check(root: Path) -> None:
    """Cuttlefish: refuses unknown lines, and makes vm.args."""
    conf = config(root)
    for key in conf:
        if not KNOWN.fullmatch(key):
            print(f"[error] You've tried to set {key}, but there is no setting with that name.")
            print("Cuttlefish failed! Oh no!")
            sys.exit(1)
    made = Path(os.environ["RUNNER_GEN_DIR"]) / "generated.conf"
    made.mkdir(exist_ok=True)
    text = f"-name {conf['nodename']}\n-setcookie {conf['distributed_cookie']}\n+Q 65536\n"
    (made / "vm.2026.01.02.03.04.05.args").write_text(text)
    print("config is OK")


class Node:
    """A node in the foreground."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.conf = conf = config(root)
        self.log = (root / "log/console.log").open("a", buffering=1)
        arguments = Path(os.environ["VMARGS_PATH"]).read_text()
        assert f"-name {conf['nodename']}\n" in arguments and "+Q 65536" in arguments, arguments
        # What a real one would show to everybody who lists processes.
        self.say(f"started with {' '.join(arguments.split())}")
        self.address = conf["nodename"].partition("@")[2]
        self.own = (self.address, int(conf["erlang.distribution.port_range.minimum"]))
        self.epmd = (os.environ["ERL_EPMD_ADDRESS"], int(os.environ["ERL_EPMD_PORT"]))
        self.names: dict[str, list[Any]] = {}
        self.staged: list[str] = []
        self.planned = False
        self.joins = self.looks = 0
        self.node: Standin

    def say(self, text: str) -> None:
        self.log.write(f"{time.strftime('%FT%T')} [info] {text}\n")

    def listen(self, what: str, where: str) -> tuple[str, int]:
        address, _, port = self.conf[where].rpartition(":")
        self.say(f"{what} listens on {address}:{port}")
        return address, int(port)

    def run(self) -> None:
        try:
            self.begin()
        except OSError as error:
            self.say(f"[error] Failed to start listener: {error.strerror} (eaddrinuse)")
            self.log.close()
            sys.exit(1)
        self.say("Riak stand-in is up")
        stop_at_signal()
        self.say("stopped in order")

    def begin(self) -> None:
        conf = self.conf
        self.node = Standin(
            conf["nodename"],
            self.listen("protocol buffers", "listener.protobuf.internal"),
            int(conf["ring_size"]),
            int(conf["buckets.default.n_val"]),
            self.root / "data" / "objects",
        )
        self.node.cookie = cookie()
        assert self.node.cookie == conf["distributed_cookie"]
        self.serve(self.own, self.for_nodes)
        try:
            self.serve(self.epmd, self.for_names)
        except OSError:
            self.say("epmd runs already")
        call(self.epmd, "", "register", self.node.name, *self.own)
        stats = http.server.ThreadingHTTPServer(
            self.listen("http", "listener.http.internal"), _stats(self.node)
        )
        threading.Thread(target=stats.serve_forever, daemon=True).start()

    def serve(self, where: tuple[str, int], answer: Any) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                if line := self.rfile.readline():
                    said = answer(*json.loads(line))
                    self.wfile.write(json.dumps(said).encode() + b"\n")

        Server(where, Handler, self.node).begin()

    def for_names(self, _: str, verb: str, name: str, *where: Any) -> Any:
        if verb == "register":
            self.names[name] = list(where)
        return self.names.get(name)

    def for_nodes(self, secret: str, verb: str, *words: Any) -> Any:
        if secret != self.node.cookie:
            self.say("** Connection attempt from disallowed node **")
            raise ConnectionError
        node = self.node
        if verb == "store":
            bucket, key, stamp, value = words
            data = None if value is None else bytes.fromhex(value)
            node.store(bytes.fromhex(bucket), bytes.fromhex(key), stamp, data)
            return True
        if verb == "fetch":
            stamp, found = node.objects.get(
                (bytes.fromhex(words[0]), bytes.fromhex(words[1])), (0, None)
            )
            return stamp, None if found is None else found.hex()
        if verb == "keys":
            bucket = bytes.fromhex(words[0])
            return [k.hex() for (b, k), (_, value) in node.objects.items() if b == bucket and value]
        if verb == "stage":
            if words[1] != node.ring_size:
                return f"Failed: {node.name} has a different ring_creation_size"
            self.staged.append(words[0])
            return f"Success: staged join request for '{words[0]}' to '{node.name}'"
        if verb == "members":
            self.become(words[0])
            return True
        return self.admin(" ".join(words))

    def become(self, members: list[str]) -> None:
        self.node.peers = {name: tuple(call(self.epmd, "", "find", name)) for name in members}
        self.node.members = members
        self.say(f"members: {', '.join(members)}")

    def admin(self, words: str) -> str:
        self.say(f"admin {words}")
        if words.startswith("wait-for-service"):
            return "riak_kv is up"
        if words.startswith("cluster join "):
            return self.join(words.split()[-1])
        if words == "cluster plan":
            self.planned = bool(self.staged)
            lines = "\n".join(f"join           '{name}'" for name in self.staged)
            return f"Staged Changes\nAction         Details(s)\n{lines}" if lines else "no changes"
        if words == "cluster commit":
            if not self.planned:
                return "You must verify the plan with 'riak-admin cluster plan' before committing"
            members = sorted([self.node.name, *self.staged])
            for name in members:
                where = tuple(call(self.epmd, "", "find", name))
                if name != self.node.name:
                    call(where, self.node.cookie, "members", members)
            self.become(members)
            return "Cluster changes committed"
        if words == "member-status":
            self.looks += 1
            share = 100 / len(self.node.members)
            left = f"{share:5.1f}%" if self.looks < 3 else "  --  "
            rows = [f"valid     {share:5.1f}%    {left}    '{m}'" for m in self.node.members]
            return "\n".join(["Status     Ring    Pending    Node", *rows])
        if words == "ringready":
            return f"TRUE All nodes agree on the ring {self.node.members}"
        return f"Usage: riak-admin; not {words}"

    def join(self, first: str) -> str:
        self.joins += 1
        if self.joins == 1:
            return f"Node {first} is not reachable!"
        where = tuple(call(self.epmd, "", "find", first))
        said: str = call(where, self.node.cookie, "stage", self.node.name, self.node.ring_size)
        return said


def _stats(node: Standin) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {
                "node_gets_total": node.asked[9],
                "node_puts_total": node.asked[11],
                "memory_total": 12345678,
                "nodename": node.name,
                "node_gets": 3,
            }
            text = json.dumps(found).encode() if self.path == "/stats" else b"OK"
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Not on stderr."""

    return Handler
