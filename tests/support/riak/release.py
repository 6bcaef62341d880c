"""The release directory of the stand-in for Riak: its Erlang's programs, and nodes that join.

Commands say what a real Riak said (`recordings`), with its exit status. Nodes with one port for
epmd are one cluster: what they share lies in a directory of the release.
"""

import os
import re
import signal
import sys
from pathlib import Path

from support.paths import TESTS
from support.riak.recordings import all_recorded, recorded
from support.riak.standin import Server, Standin

#: Reads that a node answers after its start before its key-value service is up.
LATE_READS = 3
KNOWN = re.compile(
    r"nodename|listener\.(protobuf|http)\.internal|handoff\.(ip|port)|mdc\.cluster_manager|"
    r"erlang\.(distribution\.port_range\.(min|max)imum|crash_dump)|storage_backend|ring_size|"
    r"platform_(bin|data|etc|lib|log)_dir|buckets\.default\.(n_val|r|w|dw|rw|allow_mult)|"
    r"buckets\.default\.last_write_wins|leveldb\.(maximum_memory|sync_on_write)|"
    r"cluster\.job\.riak_kv\.map_reduce(_js)?"
)
SCRIPT = """\
#!{python}
import sys
sys.path.insert(0, {tests!r})
from support.riak import release
release.{function}(sys.argv)
"""


def make_release(directory, version="3.2.2"):
    """A directory as Riak's packages have it in /usr/lib/riak."""
    home = directory / "riak"
    erlang = home / "erts-12.3.2" / "bin"
    for made in (home / "bin", home / f"releases/{version}", erlang, home / "cluster"):
        made.mkdir(parents=True)
    (home / "releases/start_erl.data").write_text(f"12.3.2 {version}\n")
    (home / "bin/riak").write_text("#!/bin/sh\n")
    (home / "bin/riak").chmod(0o755)
    programs = {"escript": "escript", "erlexec": "run_node"}
    for name, function in programs.items():
        values = {"python": sys.executable, "tests": str(TESTS), "function": function}
        (erlang / name).write_text(SCRIPT.format(**values))
    # Nodes find each other in their directory.
    (erlang / "epmd").write_text("#!/bin/sh\n")
    for program in erlang.iterdir():
        program.chmod(0o755)
    return home


def say(record):
    print(record["stdout"])
    sys.exit(record["exit_status"])


def escript(words):
    if words[1].endswith("/cuttlefish"):
        cuttlefish(config())
    else:
        name, module, function, arguments = words[3], *words[5:8]
        say(Cluster(Path(words[1]).parents[1]).command(name, f"{module} {function}", arguments))


def config():
    lines = Path("riak.conf").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}


def cuttlefish(conf):
    """Refuses unknown lines, and makes Erlang's configuration."""
    key = next((key for key in conf if not KNOWN.fullmatch(key)), None)
    if key is not None:
        record = recorded("cuttlefish by hand on an unknown key")
        say({**record, "stdout": record["stdout"].replace("no.such.line", key)})
    made = Path("generated.conf")
    made.mkdir()
    text = f"-setcookie riak\n-name {conf['nodename']}\n+Q 65536"
    (made / "vm.2026.01.02.03.04.05.args").write_text(text)
    (made / "app.2026.01.02.03.04.05.config").write_text("[]")


class Cluster:
    """The state that the stand-in's nodes share: those with the same port of epmd."""

    def __init__(self, release):
        self.directory = release / "cluster" / os.environ["ERL_EPMD_PORT"]
        self.directory.mkdir(exist_ok=True)

    def read(self, name):
        path = self.directory / name
        return path.read_text().split() if path.exists() else []

    def add(self, name, word):
        with (self.directory / name).open("a") as file:
            file.write(f"{word}\n")
        return len(self.read(name))

    def command(self, node, function, arguments):
        members, staged = self.read("members"), self.read("staged")
        several = "three nodes" if members else "one node"
        match function:
            case "riak_kv_console staged_join":
                if self.add(f"joins of {node}", "once") == 1:
                    return recorded("join a node that is not there")
                self.add("staged", node)
                return recorded("join", f"'{node}'")
            case "riak_core_console print_staged":
                record = recorded("plan with all staged" if staged else "plan")
                kept = [
                    line
                    for line in record["stdout"].splitlines()
                    if not line.startswith("join") or line.split("'")[1] in staged
                ]
                return {**record, "stdout": "\n".join(kept)}
            case "riak_core_console commit_staged":
                for member in sorted([node, *staged]):
                    self.add("members", member)
                return recorded("commit")
            case "riak_core_console member_status":
                on_their_way = all_recorded("member-status while partitions are on their way")
                looks = self.add("looks", "once")
                if members and looks <= len(on_their_way):
                    return on_their_way[looks - 1]
                return recorded(f"member-status of {several}")
            case "riak_kv_console ringready":
                if members and self.add("asked", "once") == 1:
                    return recorded("ringready with one of three nodes killed")
                return recorded("ringready of three nodes" if members else "ringready")
        raise AssertionError(f"nobody has recorded what Riak says to {function} {arguments}")


def run_node(words):
    """A node in the foreground."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    conf, log = config(), Path("log/console.log")
    arguments = Path(words[words.index("-args_file") + 1]).read_text()
    assert f"-name {conf['nodename']}\n" in arguments and "+Q 65536\n" in arguments, arguments
    assert "-setcookie" not in arguments and "\n-start_epmd false" in arguments, arguments
    cookie = Path(os.environ["HOME"]) / ".erlang.cookie"
    assert cookie.stat().st_mode & 0o077 == 0, "Cookie file must be accessible by owner only"
    cluster = Cluster(Path(os.environ["ROOTDIR"]))

    def listen(where):
        address, _, port = conf[f"listener.{where}.internal"].rpartition(":")
        return address, int(port)

    try:
        node = Standin(
            cluster.directory,
            conf["nodename"],
            listen("protobuf"),
            int(conf["ring_size"]),
            late=LATE_READS,
        )
        Server(listen("http"), None)
    except OSError as error:
        log.write_text(f"[error] Failed to start listener: {error.strerror} (eaddrinuse)\n")
        sys.exit(1)
    node.n_val = int(conf["buckets.default.n_val"])
    node.members = lambda: cluster.read("members") or [node.name]
    log.write_text("[info] Riak stand-in is up\n")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
