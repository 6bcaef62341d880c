"""What the nodes of a cluster are started with: secrets, addresses, options; no server runs."""

import os
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from support.paths import ROOT
from support.servers.nodes import make_node

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials, Installation, Topology
from storewise.engines.registry import engine
from storewise.errors import EngineError

JAVA = {"java": Path("/opt/java/bin/java")}
HERE = {"home": Path("/x"), "jars": Path("/x/lib"), "jamm": Path("/x/lib/jamm-0.4.0.jar")} | JAVA
INSTALLED = {
    "cassandra": (HERE, "Cassandra 5.0.9, Java 17"),
    "hbase": (HERE, "HBase 2.6.1, Java 17"),
    "mariadb": ({"mariadbd": Path("/x"), "mariadb-install-db": Path("/x/i")}, "MariaDB 10.11.6"),
    "mongodb": ({"mongod": Path("/x/mongod"), "mongos": Path("/x/mongos")}, "MongoDB 7.0.11"),
    "postgres": ({"postgres": Path("/x/postgres"), "initdb": Path("/x/initdb")}, "PostgreSQL 15.4"),
    "riak": (
        {
            "riak": Path("/opt/riak/bin/riak"),
            "escript": Path("/opt/riak/erts-1/bin/escript"),
            "boot": Path("/opt/riak/releases/3.2.2/start"),
        },
        "Riak KV 3.2.2",
    ),
    "valkey": ({"valkey-server": Path("/opt/valkey-server")}, "Valkey 9.1.2"),
}
MYSQL = Installation({"mariadbd": Path("/x/mysqld")}, "MySQL 8.4.6")
TWO, THREE, RING = {"nodes": 2}, {"nodes": 3}, {"nodes": 3, "replicas": 3}


def node_of(where, shape=None, level="durable", settings=None, **changes):
    """The node `engine node` of a cluster whose nodes have addresses of their own."""
    name, _, node = where.partition(" ")
    settings, topology = settings or {}, Topology(**{"memory_mb": 2048} | (shape or {}))
    specs = engine(name).roles(topology, settings)
    mine = next(spec for spec in specs if spec.name == node)
    endpoints = [
        Endpoint(spec.role, spec.index, "h", f"10.7.0.{k}", 3000 + k,
                 {port: 4000 + 10 * k + n for n, port in enumerate(spec.ports)})
        for k, spec in enumerate(specs)
    ]  # fmt: skip
    own = endpoints[specs.index(mine)]
    known = {
        "consistency": level,
        "directory": Path("/scratch") / f"storewise-x-{node}",
        "installation": Installation(*INSTALLED[name]),
        "peers": tuple(e for e in endpoints if e.role in (*mine.after, *mine.meets)),
        **{"address": own.address, "port": own.port, "ports": own.ports},
    }
    return make_node(engine(name), node, topology, settings, **known | changes)


def launched(where, shape=None, level="durable", settings=None, **changes):
    node = node_of(where, shape, level, settings, **changes)
    return engine(where.split()[0]).launch(node)


def flat(value, prefix=""):
    if not isinstance(value, dict):
        return {prefix[:-1]: value}
    return {k: v for name, x in value.items() for k, v in flat(x, f"{prefix}{name}.").items()}


def options_of(launch):
    """The options in a server's file by their full names; none is there twice."""
    files = "cassandra.yaml hbase-site.xml my.cnf mongod.conf mongos.conf postgresql.conf"
    known = [*files.split(), "riak.conf", "valkey.conf"]
    (name,) = launch.files.keys() & known
    text = launch.files[name]
    if name.endswith(".xml"):
        return {p.findtext("name"): p.findtext("value") for p in ET.fromstring(text)}
    if name in ("cassandra.yaml", "mongod.conf", "mongos.conf"):
        return flat(yaml.safe_load(text))
    lines = [
        re.split(" = |=| ", line, maxsplit=1)
        for line in text.splitlines()
        if line and line[0] not in "[#"
    ]
    assert len(dict(lines)) == len(lines)
    return dict(lines)


@pytest.mark.parametrize(
    ("where", "shape", "secret"),
    [
        *((f"cassandra data{k}", RING, "" if k else "first_start/plan.json") for k in range(3)),
        *((f"hbase {role}", TWO, "") for role in ("thrift0", "zookeeper0", "master0")),
        ("hbase regionserver1", TWO, ""),
        ("mariadb data0", {}, "init.sql"),
        *((f"mongodb {role}", TWO, "key") for role in ("config0", "data0", "router0")),
        ("postgres data0", {}, "password"),
        ("riak data0", RING, ""),
        ("valkey data0", {}, ""),
    ],
)
def test_a_launch_hides_its_secrets_and_listens_on_one_address(where, shape, secret):
    node = node_of(where, shape)
    launch = engine(where.split()[0]).launch(node)
    password, key = node.credentials.password, node.credentials.key
    seen = repr((launch.command, launch.environment, launch.steps))
    assert password not in seen and key not in seen
    having = [name for name, text in launch.files.items() if password in text or key in text]
    assert having == [secret] * bool(secret)
    # What a server reads each time it is started stays: the members' key.
    assert list(launch.remove_when_ready) == [name for name in having if name != "key"]
    assert "0.0.0.0" not in seen + repr(launch.files)
    listening = [name for name, text in options_of(launch).items() if node.address == text]
    assert listening or where.startswith(("mongodb", "postgres"))
    assert launch.refuses_root == where.startswith(("mariadb", "postgres"))
    assert "init.sql" not in repr(launch.command)


GOLDEN = ROOT / "tests" / "data" / "launches"
LAUNCHES = yaml.safe_load((GOLDEN / "launches.yaml").read_text())


def launch_text(launch):
    """All that a node is started with, as a text to be read."""
    parts = [("steps", launch.steps), ("command", (launch.command,)), ("cleanup", launch.cleanup)]
    lines = [f"{name}: {' '.join(words)}" for name, commands in parts for words in commands]
    lines += [f"environment: {name}={value}" for name, value in launch.environment.items()]
    lines += [f"directory: {name}" for name in launch.directories]
    lines += [f"removed when ready: {name}" for name in launch.remove_when_ready]
    lines += [f"stop: {launch.stop_signal.name}, {launch.stop_seconds:g} s"]
    lines += [f"\n===== {name}\n{text.rstrip()}" for name, text in launch.files.items()]
    return "\n".join(lines).replace(sys.executable, "python") + "\n"


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_server_is_started_as_written_down(name):
    """After a change that is meant: write the files by STOREWISE_WRITE_GOLDEN=1, read the
    difference, commit it."""
    secrets = Credentials("storewise", "password-of-the-session", "key-of-the-session")
    what = LAUNCHES[name]
    more = {"installation": MYSQL} if what.get("product") == "MySQL" else {}
    chosen = (what.get("shape"), what.get("level", "durable"), what.get("settings"))
    text = launch_text(launched(what["node"], *chosen, credentials=secrets, **more))
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("STOREWISE_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_a_router_needs_mongos():
    mongod = Installation({"mongod": Path("/x/mongod")}, "MongoDB 6.0.5")
    with pytest.raises(EngineError, match="mongos"):
        launched("mongodb router0", settings={"sharded": "always"}, installation=mongod)


def test_routers_know_config_servers_by_ipv6():
    router = launched("mongodb router0", TWO, peers=(Endpoint("config", 0, "h", "::1", 3002),))
    assert options_of(router)["sharding.configDB"] == "config/[::1]:3002"


def test_clusters_of_cassandra_have_names_of_their_own():
    """A node that finds another session's at a port that was its peer's does not join it."""
    secrets = [Credentials.make(), Credentials.make()]
    launches = [launched("cassandra data0", RING, credentials=s) for s in (*secrets, secrets[0])]
    names = [options_of(launch)["cluster_name"] for launch in launches]
    assert names[0] == names[2] != names[1]
    assert not any(secrets[0].key[:8] in name for name in names)


def test_java_8_has_no_modules_to_open():
    old = Installation(HERE, "HBase 2.5.11, Java 8")
    command = launched("hbase master0", installation=old).command
    assert not any(option.startswith("--add-") for option in command)


def test_a_root_of_the_site_for_hbase():
    """Each session has its own, which those remove that end last; its files are not counted."""
    settings, secrets = {"rootdir": "/shared/me"}, Credentials.make()
    launches = {
        name: launched(f"hbase {name}", TWO, settings=settings, credentials=secrets)
        for name in ("master0", "zookeeper0", "regionserver0")
    }
    root = options_of(launches["master0"])["hbase.rootdir"]
    assert re.fullmatch(r"file:///shared/me/storewise-s-1-\w{8}", root)
    removed = {name: launch.cleanup for name, launch in launches.items()}
    assert removed["master0"] == removed["zookeeper0"] != removed["regionserver0"] == ()
    assert removed["master0"][0][-5:] == ("-rm", "-r", "-f", "-skipTrash", root)
    assert engine("hbase").directories({}, Path("node")) == (Path("node"),)
    assert engine("hbase").directories(settings, Path("node")) is None
