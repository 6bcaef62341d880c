"""MongoDB: nodes, options, routing and counters, without a server."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from hypothesis import given
from hypothesis import strategies as st
from support.servers.nodes import make_node

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Endpoint, Schema
from storewise.engines.contract.server import Installation, Topology
from storewise.engines.mongodb.counters import counters_of
from storewise.engines.mongodb.engine import MongoEngine
from storewise.engines.mongodb.sharding import RoutingTable, key_field
from storewise.engines.support.splits import split_points
from storewise.errors import ConfigError, EngineError
from storewise.study.load import load_study

ENGINE = MongoEngine()
MONGOD = Path("/opt/bin/mongod")
BOTH = Installation({"mongod": MONGOD, "mongos": Path("/opt/bin/mongos")}, "MongoDB 7.0.11")
CONFIG = (Endpoint("config", 0, "h", "10.0.0.1", 3001), Endpoint("config", 1, "h", "::1", 3002))


def test_routers_are_jobs_or_stand_on_worker_hosts():
    beside = ENGINE.roles(Topology(nodes=2), {})[-1]
    assert (beside.placement, beside.after) == ("worker", ("config",))
    roles = ENGINE.roles(Topology(nodes=2, routers=3, threads=4), {})[-3:]
    assert {(s.placement, s.after, s.threads) for s in roles} == {("node", ("config",), 4)}


def test_a_shard_key_is_a_field_of_the_workload():
    other = Kind("usertable", (Field("_id", "key", "a key"), Field("field0", "str", "text")))
    settings = {"shard_key_field": "field0"}
    ENGINE.check_schema(settings, Schema((other,)))
    with pytest.raises(EngineError, match=r"no document has a field 'field0'; fields: _id, b"):
        ENGINE.check_schema(settings, Schema())
    assert key_field(other, ENGINE.Settings.model_validate(settings)) == "field0"
    assert key_field(Kind.RNA, ENGINE.Settings.model_validate(settings)) == "_id"


def test_a_study_with_another_shard_key_is_refused_when_it_is_read(tmp_path):
    study = tmp_path / "s.yaml"
    text = "workload: ycsb\nengines: {{mongodb: {{shard_key_field: {}}}}}\nphases: [load: {{}}]\n"
    study.write_text(text.format("field3"))
    load_study(str(study))
    study.write_text(text.format("ti"))
    with pytest.raises(ConfigError, match=r"engines\.mongodb.*no document has a field 'ti'"):
        load_study(str(study))


def launched(name, topology, installation=BOTH, **settings):
    node = make_node(ENGINE, name, topology, settings, installation=installation)
    node = replace(node, peers=CONFIG if node.spec.after else ())
    launch = ENGINE.launch(node)
    conf = next(text for file, text in launch.files.items() if file.endswith(".conf"))
    return node, launch, json.loads(conf)


@pytest.mark.parametrize("name", ["config0", "data0", "router0"])
def test_a_launch_hides_its_key_and_listens_on_one_address(name):
    node, launch, conf = launched(name, Topology(nodes=2))
    assert conf["net"] == {
        "bindIp": "10.0.0.7", "port": 31000, "unixDomainSocket": {"enabled": False}
    }  # fmt: skip
    assert conf["security"]["keyFile"] == "/scratch/" + name + "/key"
    assert launch.files["key"] == node.credentials.key
    assert 6 <= len(launch.files["key"]) <= 1024
    shown = " ".join([*launch.command, *launch.environment.values(), json.dumps(conf)])
    assert node.credentials.key not in shown and node.credentials.password not in shown
    assert ("authorization" in conf["security"]) == (name != "router0")


def test_options_by_role():
    def of(name, topology, **settings):
        return launched(name, topology, **settings)[2]

    alone = of("data0", Topology(memory_mb=4096), compressor="zstd")
    assert "replication" not in alone and "sharding" not in alone
    tiger = alone["storage"]["wiredTiger"]
    assert tiger["engineConfig"]["cacheSizeGB"] == 2
    assert tiger["collectionConfig"]["blockCompressor"] == "zstd"
    small = of("data0", Topology(memory_mb=256))["storage"]["wiredTiger"]
    assert small["engineConfig"]["cacheSizeGB"] == 0.25
    assert of("data2", Topology(replicas=3))["replication"] == {"replSetName": "set0"}
    shard = of("data5", Topology(nodes=3, replicas=2))
    assert shard["replication"] == {"replSetName": "shard2"}
    assert shard["sharding"] == {"clusterRole": "shardsvr"}
    config = of("config0", Topology(nodes=2), config={"replication.oplogSizeMB": 990})
    assert config["sharding"] == {"clusterRole": "configsvr"}
    assert config["replication"] == {"replSetName": "config"}
    router = of("router0", Topology(nodes=2))
    assert router["sharding"] == {"configDB": "config/10.0.0.1:3001,[::1]:3002"}
    assert "storage" not in router
    more = of("data0", Topology(replicas=3), config={"replication": {"oplogSizeMB": 990}})
    assert more["replication"] == {"replSetName": "set0", "oplogSizeMB": 990}


def test_a_router_needs_its_program():
    alone = Installation({"mongod": MONGOD}, "MongoDB 6.0.5")
    launched("data0", Topology(), alone)
    with pytest.raises(EngineError, match=r"needs mongos.*install"):
        launched("router0", Topology(nodes=2), alone)


@given(parts=st.integers(1, 64), identifier=st.binary(min_size=12, max_size=12))
def test_equal_ranges_hold_equal_parts_of_the_ids(parts, identifier):
    points = split_points(Kind.RNA, parts)
    assert points == sorted(set(points)) and len(points) == parts - 1
    bounds = [MinKey(), *map(ObjectId, points), MaxKey()]
    chunks = [
        {"min": {"_id": low}, "max": {"_id": high}, "shard": f"shard{number}"}
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    table = RoutingTable.of_chunks(chunks, hashed=False)
    share = int.from_bytes(identifier[:4], "big") * parts >> 32
    assert table.shard_of(identifier) == f"shard{share}"
    with pytest.raises(ValueError, match="highest" if parts > 1 else "lowest"):
        RoutingTable.of_chunks(chunks[:-1], hashed=False)


def test_counters_are_numbers_by_name():
    status = {
        "opcounters": {"insert": 3, "deprecated": {"x": 1}},
        "metrics": {"document": {"returned": 7}, "other": {"x": 1}},
        "wiredTiger": {"cache": {"bytes currently in the cache": 9, "colour": 1}},
    }
    assert dict(counters_of(status)) == {
        "opcounters.insert": 3.0, "document.returned": 7.0, "cache.bytes": 9.0
    }  # fmt: skip
