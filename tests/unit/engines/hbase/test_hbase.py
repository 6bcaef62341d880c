"""HBase: nodes, options and regions; no server runs here."""

import random
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.servers.nodes import make_node
from support.servers.samples import sample

from storewise.documents import PARAMS_COLUMN, Field, Kind
from storewise.engines.contract.engine import Endpoint, Schema
from storewise.engines.contract.server import Installation, Topology
from storewise.engines.hbase.engine import HbaseEngine
from storewise.engines.hbase.launch import class_path
from storewise.engines.hbase.rows import make_layouts
from storewise.engines.hbase.settings import LEVELS
from storewise.engines.support.splits import split_points
from storewise.errors import EngineError

ENGINE = HbaseEngine()
JAVA = Path("/opt/java/bin/java")
INSTALLED = Installation(
    {"home": Path("/opt/hbase"), "jars": Path("/opt/hbase/lib"), "java": JAVA},
    "HBase 2.6.1, Java 17",
    {"CLASSPATH": "/opt/hbase/lib/a.jar"},
)
ZOOKEEPER = Endpoint("zookeeper", 0, "h", "10.0.0.1", 3001)
ALONE = Endpoint(
    "master", 0, "h", "10.0.0.1", 3000, {"zookeeper": 3001, "master": 3002, "info": 3003}
)


def test_gateways_are_jobs_or_stand_on_worker_hosts():
    beside = ENGINE.roles(Topology(nodes=2), {})[0]
    assert (beside.placement, beside.after) == ("worker", ("zookeeper",))
    assert ENGINE.roles(Topology(), {})[0].after == ("master",)
    roles = ENGINE.roles(Topology(nodes=2, routers=3, threads=4), {})[:3]
    assert {(s.placement, s.after, s.threads) for s in roles} == {("node", ("zookeeper",), 4)}


def test_what_others_need_ends_last():
    specs = {spec.role: spec for spec in ENGINE.roles(Topology(nodes=2, routers=1), {})}
    assert set(specs["zookeeper"].outlives) >= {"thrift", "regionserver", "master"}
    assert set(specs["master"].outlives) == {"thrift", "regionserver"}
    assert specs["regionserver"].outlives == ()


def node_of(name, topology, level="durable", **settings):
    specs = ENGINE.roles(topology, settings)
    peer = ZOOKEEPER if any(s.role == "zookeeper" for s in specs) else ALONE
    node = make_node(
        ENGINE,
        name,
        topology,
        settings,
        consistency=level,
        directory=Path("/scratch") / f"storewise-x-{name}",
        installation=INSTALLED,
    )
    return replace(node, peers=(peer,) if node.spec.after else ())


def site_of(launch):
    tree = ET.fromstring(launch.files["conf/hbase-site.xml"])
    return {p.findtext("name") or "": p.findtext("value") or "" for p in tree}


def launched(name, topology, level="durable", **settings):
    launch = ENGINE.launch(node_of(name, topology, level, **settings))
    return launch, site_of(launch)


@pytest.mark.parametrize("name", ["thrift0", "zookeeper0", "master0", "regionserver1"])
def test_a_launch_hides_its_secrets_and_listens_on_one_address(name):
    node = node_of(name, Topology(nodes=2))
    launch = ENGINE.launch(node)
    shown = " ".join([*launch.command, *launch.environment.values(), *launch.files.values()])
    assert node.credentials.password not in shown and node.credentials.key not in shown
    assert "0.0.0.0" not in shown
    site = site_of(launch)
    role = {"thrift0": "thrift.ip", "zookeeper0": "clientPortA", "master0": "master.ipc.a"}
    key = next(key for key in site if role.get(name, "regionserver.ipc.a") in key)
    assert site[key] == node.address
    if name != "zookeeper0":
        assert site["hbase.zookeeper.quorum"] == ZOOKEEPER.address
    assert "-Dzookeeper.admin.enableServer=false" in launch.command
    assert site["hbase.thrift.info.port"] == "-1"


def test_one_node_is_one_server():
    launch, site = launched("master0", Topology())
    assert launch.command[-2:] == ("org.apache.hadoop.hbase.master.HMaster", "start")
    assert site["hbase.rootdir"] == "file:///scratch/storewise-x-master0/root"
    assert launch.steps == ()
    # ZooKeeper is for the server itself; clients ask the master.
    assert site["hbase.zookeeper.property.clientPortAddress"] == "127.0.0.1"
    gateway = launched("thrift0", Topology())[1]
    assert gateway["hbase.client.bootstrap.servers"] == "10.0.0.1:3002"
    assert "hbase.zookeeper.quorum" not in gateway


def test_several_nodes_share_the_first_one_s_root():
    root = "/scratch/storewise-x-zookeeper0/root"
    assert "root" in launched("zookeeper0", Topology(nodes=2))[0].directories
    for name in ("master0", "regionserver1"):
        launch, site = launched(name, Topology(nodes=2))
        assert site["hbase.rootdir"] == f"file://{root}"
        assert site["fs.file.impl"] == "org.apache.hadoop.fs.RawLocalFileSystem"
        assert launch.steps[0][-1] == root and "root" not in launch.directories
        assert site["hbase.master.wait.on.regionservers.mintostart"] == "2"


def test_a_root_of_the_site():
    for given_, expected in (
        ("hdfs://name:8020/user/me/", "hdfs://name:8020/user/me/storewise-s-1-"),
        ("/shared/me", "file:///shared/me/storewise-s-1-"),
    ):
        launch, site = launched("master0", Topology(nodes=2), rootdir=given_)
        root = site["hbase.rootdir"]
        assert root.startswith(expected) and len(root) == len(expected) + 8
        assert ("fs.file.impl" in site) == given_.startswith("/")
        assert launch.steps[0][-3:] == ("-mkdir", "-p", expected.rpartition("/")[0])
        for name in ("master0", "zookeeper0", "regionserver0"):
            launch, site = launched(name, Topology(nodes=2), rootdir=given_)
            cleanup = [("-rm", "-r", "-f", "-skipTrash", site["hbase.rootdir"])]
            if name == "regionserver0":
                cleanup = []
            assert [step[-5:] for step in launch.cleanup] == cleanup
    # Files there are not counted, where they are none of ours to read.
    own = Path("node")
    assert ENGINE.directories({}, own) == (own,)
    assert ENGINE.directories({"rootdir": "hdfs://name:8020/user/me/"}, own) is None


def test_memory_levels_and_java():
    launch, _ = launched("regionserver0", Topology(nodes=2, memory_mb=8192), heap_share=0.75)
    assert "-Xmx6144m" in launch.command
    small = launched("master0", Topology(nodes=2, memory_mb=8192))[0].command
    assert "-Xmx256m" in small
    assert any(option.startswith("--add-opens=") for option in small)
    old = replace(
        node_of("master0", Topology()), installation=replace(INSTALLED, version="HBase 2.5, Java 8")
    )
    assert not any(option.startswith("--add-") for option in ENGINE.launch(old).command)
    for level, result in LEVELS.items():
        site = launched("regionserver0", Topology(nodes=2), level)[1]
        assert site["hbase.wal.hsync"] == str(result.hsync).lower()
        assert site["hfile.block.cache.size"] == "0.4"
    more = launched("regionserver0", Topology(nodes=2), config={"hbase.hregion.max.filesize": 7})
    assert more[1]["hbase.hregion.max.filesize"] == "7"


def test_happybase_has_no_asynchronous_log():
    settings = {"gateway": "happybase"}
    launched("happybase0", Topology(), "relaxed", **settings)
    with pytest.raises(EngineError, match=r"'async' needs `gateway: thrift2`"):
        launched("happybase0", Topology(), "async", **settings)


def test_an_update_of_what_another_has_changed_starts_again():
    """Fields without a cell of their own share one, which is the one that must be unchanged."""
    layouts = make_layouts(Schema(), "columns")
    layout, document = layouts[Kind.TASKS], sample(1, alignments=1)[Kind.TASKS][0]
    row = document["_id"]
    old = layout.rows([document])[row]
    new = layout.changed(row, old, {"mp_other": "1"})
    assert list(new) == [layout.guard(new)] == [PARAMS_COLUMN.encode()]
    assert layout.guard(layout.changed(row, old, {"lib": "x"})) == b"t"


def test_every_port_is_open():
    for topology in (Topology(), Topology(nodes=2, routers=1)):
        for spec in ENGINE.roles(topology, {}):
            result = ENGINE.open_ports(spec, topology, {})
            # A standalone server has its ZooKeeper on loopback.
            assert set(result) == {"client port", *spec.ports} - {"zookeeper"}


@given(regions=st.integers(1, 200))
def test_regions_cut_the_ids_into_equal_parts(regions):
    keys = split_points(Kind.RNA, regions)
    assert len(keys) == regions - 1
    bounds = [0, *(int.from_bytes(key[:4], "big") for key in keys), 1 << 32]
    widths = [high - low for low, high in pairwise(bounds)]
    assert min(widths) > 0 and max(widths) - min(widths) <= 1


def test_regions_cut_keys_of_text_about_in_halves():
    users = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))
    (middle,) = split_points(users, 2)
    draw = random.Random(5)
    below = sum(b"user%d" % draw.randrange(1 << 63) < middle for _ in range(900))
    assert 300 < below < 600


def test_the_class_path_of_a_tarball(tmp_path):
    """Its jars lie in several directories; some must not be there, and one binding is enough."""
    for name in (
        "hbase-server-2.6.1.jar",
        "servlet-api-2.5-6.1.14.jar",
        "slf4j-reload4j-1.7.36.jar",
        "client-facing-thirdparty/slf4j-api-1.7.33.jar",
        "client-facing-thirdparty/log4j-slf4j-impl-2.17.2.jar",
        "jdk11/jakarta.jar",
        "shaded-clients/hbase-shaded-client-2.6.1.jar",
        "ruby/jruby.jar",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    result = [Path(text).name for text in class_path(tmp_path, 17).split(":")]
    assert result == [
        "hbase-server-2.6.1.jar",
        "slf4j-reload4j-1.7.36.jar",
        "slf4j-api-1.7.33.jar",
        "jakarta.jar",
    ]
    assert "jakarta" not in class_path(tmp_path, 8)
