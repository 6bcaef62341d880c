"""The nodes of a cluster, and shapes and settings that an engine cannot have."""

from collections import Counter

import pytest

from storewise.documents import KINDS, make_id
from storewise.engines.contract.engine import hash_placement
from storewise.engines.contract.server import Topology
from storewise.engines.registry import engine
from storewise.errors import EngineError

NODES = [
    ("cassandra", {"nodes": 3, "replicas": 2}, {}, "data0 data1 data2"),
    ("postgres", {"nodes": 3}, {}, "data0 data1 data2"),
    ("mariadb", {"nodes": 3}, {}, "data0 data1 data2"),
    ("hbase", {}, {}, "thrift0 master0"),
    ("hbase", {}, {"distributed": True}, "thrift0 zookeeper0 master0 regionserver0"),
    ("hbase", {"nodes": 2}, {}, "thrift0 zookeeper0 master0 regionserver0 regionserver1"),
    ("hbase", {"routers": 2}, {}, "thrift0 thrift1 master0"),
    ("mongodb", {}, {}, "data0"),
    ("mongodb", {"replicas": 3}, {}, "data0 data1 data2"),
    ("mongodb", {}, {"sharded": "always"}, "config0 data0 router0"),
    ("mongodb", {"nodes": 2}, {}, "config0 data0 data1 router0"),
    ("mongodb", {"nodes": 2, "replicas": 2}, {}, "config0 data0 data1 data2 data3 router0"),
    ("mongodb", {"routers": 2}, {}, "config0 data0 router0 router1"),
    ("riak", {"nodes": 3, "replicas": 3}, {}, "data0 data1 data2"),
]
SHAPES = [
    ("cassandra", {"nodes": 0}, "0 nodes"),
    ("cassandra", {"nodes": 3, "replicas": 4}, "1 to 3 replicas"),
    ("cassandra", {"routers": 1}, "leave routers at 0"),
    ("hbase", {"nodes": 0}, "0 nodes"),
    ("hbase", {"replicas": 3}, r"replicas is 3.*HDFS"),
    ("hbase", {"routers": -1}, "-1 routers"),
    ("mariadb", {"nodes": 0}, "nodes"),
    ("mariadb", {"replicas": 2}, "replicas"),
    ("mariadb", {"routers": 1}, "routers"),
    ("mongodb", {"nodes": 0}, "mongodb"),
    ("mongodb", {"replicas": 8}, "mongodb"),
    ("mongodb", {"routers": -1}, "mongodb"),
    ("postgres", {"replicas": 2}, "replicas"),
    ("postgres", {"routers": 1}, "routers"),
    ("riak", {"nodes": 0}, "0 nodes"),
    ("riak", {"routers": 1}, "leave routers at 0"),
    ("riak", {"nodes": 2, "replicas": 3}, "2 nodes has 1 to 2 replicas of a document, not 3"),
    ("valkey", {"nodes": 3, "replicas": 2}, "replicas is 2"),
]
#: Of options in `config`: tests/unit/study/test_injection.py.
SETTINGS = [
    ("cassandra", {"colour": 1}, "colour.*known"),
    ("cassandra", {"jvm_options": ["-Xmx9g"]}, "heap_share"),
    ("hbase", {"rootdir": "hbase"}, "neither an absolute path nor a URI"),
    ("hbase", {"config": {"hbase.rootdir": "/x"}}, "hbase.rootdir is set by"),
    ("postgres", {"config": {"work_mem": "1\n2"}}, "one line"),
    ("riak", {"config": {"riak_control": "on"}}, "riak_control opens the server"),
]


@pytest.mark.parametrize(("name", "shape", "settings", "expected"), NODES)
def test_nodes_of_a_topology(name, shape, settings, expected):
    specs = engine(name).roles(Topology(**shape, threads=2, memory_mb=700), settings)
    assert [spec.name for spec in specs] == expected.split()
    assert {(s.threads, s.memory_mb) for s in specs if s.role == "data"} <= {(2, 700)}


@pytest.mark.parametrize(("name", "shape", "words"), SHAPES)
def test_shapes_that_an_engine_cannot_have(name, shape, words):
    with pytest.raises(EngineError, match=words):
        engine(name).roles(Topology(**shape), {})


@pytest.mark.parametrize(("name", "settings", "words", "shape"), [(*s, {})[:4] for s in SETTINGS])
def test_settings_that_an_engine_cannot_have(name, settings, words, shape):
    with pytest.raises(EngineError, match=words):
        described = engine(name)
        described.settings_of(settings)
        described.roles(Topology(**shape), settings)


@pytest.mark.parametrize(("name", "behind"), [("hbase", "zookeeper"), ("mongodb", "config")])
def test_routers_are_jobs_or_stand_on_worker_hosts(name, behind):
    role = {"hbase": "thrift", "mongodb": "router"}[name]

    def of(**shape):
        specs = engine(name).roles(Topology(nodes=2, **shape), {})
        return [(s.placement, s.after, s.threads) for s in specs if s.role == role]

    assert [x[:2] for x in of()] == [("worker", (behind,))]
    assert of(routers=3, threads=4) == [("node", (behind,), 4)] * 3


def test_what_others_need_ends_last():
    specs = engine("hbase").roles(Topology(nodes=2, routers=1), {})
    outlives = {spec.role: set(spec.outlives) for spec in specs}
    assert outlives["zookeeper"] >= {"thrift", "regionserver", "master"}
    assert outlives["master"] == {"thrift", "regionserver"}
    assert outlives["regionserver"] == set()
    assert engine("hbase").roles(Topology(), {})[0].after == ("master",)


@pytest.mark.parametrize(
    ("name", "shape", "guarded"),
    [
        ("cassandra", {}, None),
        ("cassandra", {"nodes": 3, "replicas": 2}, {"client port"}),
        # A standalone server has its ZooKeeper on loopback.
        ("hbase", {}, {"zookeeper"}),
        ("hbase", {"nodes": 2, "routers": 1}, set()),
        ("riak", {}, {"distribution"}),
        ("valkey", {}, None),
        ("valkey", {"nodes": 3}, {"client port"}),
    ],
)
def test_ports_without_a_guard_are_named(name, shape, guarded):
    described, topology = engine(name), Topology(**shape)
    for spec in described.roles(topology, {}):
        ports = {"client port", *spec.ports}
        expected = set() if guarded is None else ports - guarded
        assert set(described.open_ports(spec, topology)) == expected
        if name == "cassandra":
            assert bool(spec.meets) == bool(expected)


@pytest.mark.parametrize("servers", [2, 3, 4, 7, 8, 16])
def test_the_hash_spreads_consecutive_ids_evenly(servers):
    placement, number = hash_placement(servers), 16_000
    for kind in KINDS:
        ids = (make_id(b"\x01\x5a\xff\x33\x00\x80\x07", kind, n) for n in range(number))
        result = Counter(map(placement, ids))
        assert len(result) == servers
        assert max(result.values()) < 1.1 * number / servers
    # A known answer: stored data depend on them.
    assert hash_placement(servers)(bytes(range(12))) == 0x9270C965 % servers
