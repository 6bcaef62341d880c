"""The release directory of the stand-in for Riak: its start script, and nodes that join.

Commands say what a real Riak said (`riak_recordings`), with its exit status. The port that a real
node has for Erlang's distribution is where nodes and commands talk, and the one of epmd where they
find each other: who gets it first keeps the names of all.
"""

import http.server
import json
import os
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

from support.paths import TESTS
from support.riak.recordings import all_recorded, recorded
from support.riak.standin import KNOWN, Server, Standin, call, stop_at_signal

#: Reads that a node answers after its start before its key-value service is up.
LATE_READS = 3

SCRIPT = """\
#!{python}
# As with relx, the release is what lies above this file itself.
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.riak import release
root = Path(__file__).resolve().parent.parent
os.chdir(root)
release.command(root, sys.argv[1:])
"""
#: What the engine must change in its copies.
NODETOOL = 'ERL_FLAGS="${ERL_FLAGS} ${NAME_TYPE} $nodetool_id -setcookie ${COOKIE}" \\\n'
#: Sourced by the real scripts; makes the directory whatever PIPE_DIR says.
CF_CONFIG = 'NAME="$1"\nPIPE_DIR="/tmp/erl_pipes/$NAME/"\nmkdir -p "$PIPE_DIR"\n'
#: In the place of escript, which runs Cuttlefish by hand.
ESCRIPT = """\
#!{python}
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.riak import release
release.cuttlefish(Path.cwd())
"""


def make_release(directory, version="3.2.2"):
    """A directory as Riak's packages have it in /usr/lib/riak."""
    home = directory / "riak"
    for name in ("bin/hooks", f"releases/{version}", "erts-12.3.2/bin", "lib", "share/schema"):
        (home / name).mkdir(parents=True)
    environment = {"python": sys.executable, "tests": str(TESTS)}
    text = SCRIPT.format(**environment)
    escript = home / "erts-12.3.2/bin/escript"
    escript.write_text(ESCRIPT.format(**environment))
    escript.chmod(0o755)
    # Who finds whom is told by the nodes themselves.
    (home / "erts-12.3.2/bin/epmd").write_text("#!/bin/sh\n")
    (home / "erts-12.3.2/bin/epmd").chmod(0o755)
    (home / "bin/cf_config").write_text(CF_CONFIG)
    (home / "bin/riak").write_text(text + "# " + NODETOOL)
    (home / "bin/riak").chmod(0o755)
    (home / "bin/riak-admin").write_text(f"PLATFORM_BIN_DIR={home}/bin\n{NODETOOL}")
    (home / "bin/hooks/riak_not_running").write_text(f'RIAK="{home}/bin/riak"\n')
    (home / "releases/start_erl.data").write_text(f"12.3.2 {version}\n")
    (home / "releases" / version / "vm.args").write_text("-name riak@127.0.0.1\n")
    return home


def command(root, words):
    if words == ["chkconfig"]:
        check(root)
    elif words == ["foreground"]:
        Node(root).run()
    elif words[:1] == ["admin"]:
        admin(root, words[1:])
    else:
        print(recorded("version")["stdout"])
        sys.exit(recorded("version")["exit_status"])


def admin(root, words):
    conf = config(root)
    address = conf["nodename"].partition("@")[2]
    where = (address, int(conf["erlang.distribution.port_range.minimum"]))
    nodetool = os.environ.get("USE_NODETOOL") == "true"
    if not nodetool and words[0] == "wait-for-service":
        line = recorded("wait-for-service with USE_NODETOOL=1")["stdout"].splitlines()[0]
        while True:
            print(line, flush=True)
            time.sleep(3)
    status, output = call(where, cookie(), "admin", *words)
    print(output if nodetool else recorded("member-status with USE_NODETOOL=1")["stdout"])
    sys.exit(status)


def config(root):
    lines = (root / "etc/riak.conf").read_text().splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}


def cookie():
    """Of the file, as Erlang has it where no command line says otherwise."""
    path = Path(os.environ["HOME"]) / ".erlang.cookie"
    assert path.stat().st_mode & 0o077 == 0, "Cookie file must be accessible by owner only"
    return path.read_text()


def unknown(conf):
    return next((key for key in conf if not KNOWN.fullmatch(key)), None)


def cuttlefish(root):
    """Says why, where its script does not."""
    output = recorded("cuttlefish by hand on an unknown key")
    if (key := unknown(config(root))) is not None:
        print(output["stdout"].replace("no.such.line", key))
        sys.exit(output["exit_status"])


def check(root):
    """Cuttlefish: refuses unknown lines, and makes vm.args."""
    conf = config(root)
    if unknown(conf) is not None:
        output = recorded("check of a bad configuration")
        print(output["stdout"])
        sys.exit(output["exit_status"])
    subprocess.run(["sh", root / "bin/cf_config", conf["nodename"]], check=True)
    made = Path(os.environ["RUNNER_GEN_DIR"]) / "generated.conf"
    made.mkdir(exist_ok=True)
    text = f"-name {conf['nodename']}\n-setcookie {conf['distributed_cookie']}\n+Q 65536\n"
    (made / "vm.2026.01.02.03.04.05.args").write_text(text)
    print("config is OK")


class Node:
    """A node in the foreground."""

    def __init__(self, root):
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
        self.names = {}
        self.staged = []
        self.planned = False
        self.joins = self.looks = self.asked = 0
        self.node: Standin

    def say(self, text):
        self.log.write(f"{time.strftime('%FT%T')} [info] {text}\n")

    def listen(self, what, where):
        address, _, port = self.conf[where].rpartition(":")
        self.say(f"{what} listens on {address}:{port}")
        return address, int(port)

    def run(self):
        try:
            self.begin()
        except OSError as error:
            self.say(f"[error] Failed to start listener: {error.strerror} (eaddrinuse)")
            self.log.close()
            sys.exit(1)
        self.say("Riak stand-in is up")
        stop_at_signal()
        self.say("stopped in order")

    def begin(self):
        conf = self.conf
        self.node = Standin(
            conf["nodename"],
            self.listen("protocol buffers", "listener.protobuf.internal"),
            int(conf["ring_size"]),
            int(conf["buckets.default.n_val"]),
            self.root / "data" / "objects",
            late=LATE_READS,
        )
        self.node.cookie = cookie()
        assert self.node.cookie == conf["distributed_cookie"]
        if (ring := self.root / "data" / "ring").is_file():
            self.node.members, peers = json.loads(ring.read_text())
            self.node.peers = {name: tuple(where) for name, where in peers.items()}
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

    def serve(self, where, answer):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                if line := self.rfile.readline():
                    output = answer(*json.loads(line))
                    self.wfile.write(json.dumps(output).encode() + b"\n")

        Server(where, Handler, self.node).begin()

    def for_names(self, _, verb, name, *where):
        if verb == "register":
            self.names[name] = list(where)
        return self.names.get(name)

    def for_nodes(self, secret, verb, *words):
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
            serves, (stamp, result) = node.own(bytes.fromhex(words[0]), bytes.fromhex(words[1]))
            return serves, stamp, None if result is None else result.hex()
        if verb == "keys":
            bucket = bytes.fromhex(words[0])
            return [k.hex() for (b, k), (_, value) in node.objects.items() if b == bucket and value]
        if verb == "stage":
            self.staged.append(words[0])
            return True
        if verb == "members":
            self.become(words[0])
            return True
        record = self.admin(" ".join(words))
        return record["exit_status"], record["stdout"]

    def become(self, members):
        self.node.peers = {name: tuple(call(self.epmd, "", "find", name)) for name in members}
        self.node.members = members
        (self.root / "data" / "ring").write_text(json.dumps([members, self.node.peers]))
        self.say(f"members: {', '.join(members)}")

    def admin(self, words):
        self.say(f"admin {words}")
        verb = words.split()[0] if words.split()[0] != "cluster" else words.split()[1]
        several = len(self.node.members) > 1
        if verb == "wait-for-service":
            return recorded("wait-for-service right after the first pong")
        if verb == "join":
            return self.join(words.split()[-1])
        if verb == "plan":
            return self.plan()
        if verb == "commit":
            return self.commit()
        if verb == "member-status":
            on_their_way = all_recorded("member-status while partitions are on their way")
            self.looks += 1
            if several and self.looks <= len(on_their_way):
                return on_their_way[self.looks - 1]
            return recorded(f"member-status of {'three nodes' if several else 'one node'}")
        if verb == "ringready":
            self.asked += 1
            if several and self.asked == 1:
                return recorded("ringready with one of three nodes killed")
            return recorded("ringready of three nodes" if several else "ringready")
        raise AssertionError(f"nobody has recorded what Riak says to {words}")

    def plan(self):
        self.planned = bool(self.staged)
        if not self.staged:
            return recorded("plan")
        record = recorded("plan with all staged")
        lines = record["stdout"].splitlines()
        kept = [x for x in lines if not x.startswith("join") or x.split("'")[1] in self.staged]
        return {**record, "stdout": "\n".join(kept)}

    def commit(self):
        if not self.planned:
            return recorded("commit without plan")
        members = sorted([self.node.name, *self.staged])
        for name in members:
            where = tuple(call(self.epmd, "", "find", name))
            if name != self.node.name:
                call(where, self.node.cookie, "members", members)
        self.become(members)
        return recorded("commit")

    def join(self, first):
        self.joins += 1
        if self.joins == 1:
            record = recorded("join a node that is not there")
            return {**record, "stdout": record["stdout"].replace("nobody@127.0.0.1", first)}
        where = tuple(call(self.epmd, "", "find", first))
        call(where, self.node.cookie, "stage", self.node.name)
        return recorded("join", f"'{self.node.name}'")


def _stats(node):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            result = {
                "node_gets_total": node.asked[9],
                "node_puts_total": node.asked[11],
                "memory_total": 12345678,
                "nodename": node.name,
                "node_gets": 3,
            }
            text = json.dumps(result).encode() if self.path == "/stats" else b"OK"
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            """Not on stderr."""

    return Handler
