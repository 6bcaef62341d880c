"""MongoDB: nodes and options (pure), then standalone servers, a replica set and, slowly, shards."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pymongo
import pytest
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from engine_samples import sample
from harness import unavailable, wait_until
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import OperationFailure

from storewise.config import load_study
from storewise.documents import KINDS, Document, Field, Kind
from storewise.engines import mongo_link
from storewise.engines.base import Client, Cluster, Endpoint, Schema
from storewise.engines.mongo import MongoEngine
from storewise.engines.mongo_cluster import as_system, as_user
from storewise.engines.mongo_routing import RoutingTable, hashed_id
from storewise.engines.mongo_sharding import key_field
from storewise.engines.mongo_status import counters_of
from storewise.engines.server import Credentials, Installation, Node, Topology
from storewise.engines.splits import split_points
from storewise.errors import ConfigError, EngineError
from storewise.session.local import LocalCluster, running
from storewise.ssearch.build import to_bson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import mongodb_binaries

ENGINE = MongoEngine()
MONGOD = Path("/opt/bin/mongod")
BOTH = Installation({"mongod": MONGOD, "mongos": Path("/opt/bin/mongos")}, "MongoDB 7.0.11")
CONFIG = (Endpoint("config", 0, "h", "10.0.0.1", 3001), Endpoint("config", 1, "h", "::1", 3002))


def names(topology: Topology, **settings: Any) -> list[str]:
    return [spec.name for spec in ENGINE.roles(topology, settings)]


@pytest.mark.parametrize(
    ("shape", "settings", "expected"),
    [
        ({}, {}, "data0"),
        ({"replicas": 3}, {}, "data0 data1 data2"),
        ({}, {"sharded": "always"}, "config0 data0 router0"),
        ({"nodes": 2}, {}, "config0 data0 data1 router0"),
        ({"nodes": 2, "replicas": 2}, {}, "config0 data0 data1 data2 data3 router0"),
        ({"routers": 2}, {}, "config0 data0 router0 router1"),
        (
            {"nodes": 4, "routers": 1},
            {"config_servers": 3},
            "config0 config1 config2 data0 data1 data2 data3 router0",
        ),
    ],
)
def test_nodes_of_a_topology(
    shape: dict[str, int], settings: dict[str, Any], expected: str
) -> None:
    assert names(Topology(**shape), **settings) == expected.split()


def test_routers_are_jobs_or_stand_on_worker_hosts() -> None:
    beside = ENGINE.roles(Topology(nodes=2), {})[-1]
    assert (beside.placement, beside.after) == ("worker", ("config",))
    own = ENGINE.roles(Topology(nodes=2, routers=3, threads=4), {})[-3:]
    assert {(s.placement, s.after, s.threads) for s in own} == {("node", ("config",), 4)}


@pytest.mark.parametrize("shape", [{"nodes": 0}, {"replicas": 0}, {"replicas": 8}, {"routers": -1}])
def test_impossible_topologies_are_refused(shape: dict[str, int]) -> None:
    with pytest.raises(EngineError, match="mongodb"):
        names(Topology(**shape))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shard_key": "ranged", "initial_chunks": 8}, "hashed"),
        ({"config": {"security.authorization": "disabled"}}, "security.authorization is set by"),
        ({"config": {"net": {"bindIp": "0.0.0.0"}}}, "net.bindIp is set by"),
        ({"cache_share": 0.95}, "cache_share"),
        ({"shards": 3}, "shards"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        names(Topology(), **settings)


def test_a_shard_key_is_a_field_of_the_workload() -> None:
    other = Kind("usertable", (Field("_id", "key", "a key"), Field("field0", "str", "text")))
    settings = {"shard_key_field": "field0"}
    ENGINE.check_kinds(settings, (other,))
    with pytest.raises(EngineError, match=r"no document has a field 'field0'; fields: _id, b"):
        ENGINE.check_kinds(settings, KINDS)
    assert key_field(other, ENGINE.Settings.model_validate(settings)) == "field0"
    assert key_field(Kind.RNA, ENGINE.Settings.model_validate(settings)) == "_id"


def test_a_study_with_another_shard_key_is_refused_when_it_is_read(tmp_path: Path) -> None:
    study = tmp_path / "s.yaml"
    text = "workload: ycsb\nengines: {{mongodb: {{shard_key_field: {}}}}}\nphases: [load: {{}}]\n"
    study.write_text(text.format("field3"))
    load_study(str(study))
    study.write_text(text.format("ti"))
    with pytest.raises(ConfigError, match=r"engines\.mongodb.*no document has a field 'ti'"):
        load_study(str(study))


def launched(
    name: str, topology: Topology, installation: Installation = BOTH, **settings: Any
) -> tuple[Node, Any, dict[str, Any]]:
    spec = next(s for s in ENGINE.roles(topology, settings) if s.name == name)
    node = Node(
        spec=spec,
        topology=topology,
        settings=settings,
        consistency="durable",
        session="s-1",
        directory=Path("/scratch/x") / name,
        address="10.0.0.7",
        port=31000,
        installation=installation,
        credentials=Credentials.make(),
        peers=CONFIG if spec.after else (),
    )
    launch = ENGINE.launch(node)
    conf = next(text for file, text in launch.files.items() if file.endswith(".conf"))
    return node, launch, json.loads(conf)


@pytest.mark.parametrize("name", ["config0", "data0", "router0"])
def test_a_launch_hides_its_key_and_listens_on_one_address(name: str) -> None:
    node, launch, conf = launched(name, Topology(nodes=2))
    assert conf["net"] == {
        "bindIp": "10.0.0.7", "port": 31000, "unixDomainSocket": {"enabled": False}
    }  # fmt: skip
    assert conf["security"]["keyFile"] == "/scratch/x/" + name + "/key"
    assert launch.files["key"] == node.credentials.key
    assert 6 <= len(launch.files["key"]) <= 1024
    shown = " ".join([*launch.command, *launch.environment.values(), json.dumps(conf)])
    assert node.credentials.key not in shown and node.credentials.password not in shown
    assert ("authorization" in conf["security"]) == (name != "router0")


def test_options_by_role() -> None:
    def of(name: str, topology: Topology, **settings: Any) -> dict[str, Any]:
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


def test_a_router_needs_its_program() -> None:
    alone = Installation({"mongod": MONGOD}, "MongoDB 6.0.5")
    launched("data0", Topology(), alone)
    with pytest.raises(EngineError, match=r"needs mongos.*install"):
        launched("router0", Topology(nodes=2), alone)


def test_programs_are_found_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{name} version v7.0.11'\n")
        path.chmod(0o755)

    monkeypatch.setenv("STOREWISE_MONGODB_BIN", str(tmp_path))
    with pytest.raises(EngineError, match=r"no mongod.*STOREWISE_MONGODB_BIN"):
        ENGINE.find({})
    program("mongod")
    found = ENGINE.find({})
    assert (found.version, set(found.programs)) == ("MongoDB 7.0.11", {"mongod"})
    with pytest.raises(EngineError, match="no mongos"):
        ENGINE.find({"sharded": "always"})
    program("mongos")
    assert set(ENGINE.find({}).programs) == {"mongod", "mongos"}


@given(parts=st.integers(1, 64), identifier=st.binary(min_size=12, max_size=12))
def test_equal_ranges_hold_equal_parts_of_the_ids(parts: int, identifier: bytes) -> None:
    points = split_points(Kind.RNA, parts)
    assert points == sorted(set(points)) and len(points) == parts - 1
    bounds: list[Any] = [MinKey(), *map(ObjectId, points), MaxKey()]
    chunks = [
        {"min": {"_id": low}, "max": {"_id": high}, "shard": f"shard{number}"}
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    table = RoutingTable.of_chunks(chunks, hashed=False)
    share = int.from_bytes(identifier[:4], "big") * parts >> 32
    assert table.shard_of(identifier) == f"shard{share}"
    with pytest.raises(ValueError, match="highest" if parts > 1 else "lowest"):
        RoutingTable.of_chunks(chunks[:-1], hashed=False)


def test_counters_are_numbers_by_name() -> None:
    status = {
        "opcounters": {"insert": 3, "deprecated": {"x": 1}},
        "metrics": {"document": {"returned": 7}, "other": {"x": 1}},
        "wiredTiger": {"cache": {"bytes currently in the cache": 9, "colour": 1}},
    }
    assert dict(counters_of(status)) == {
        "opcounters.insert": 3.0, "document.returned": 7.0, "cache.bytes": 9.0
    }  # fmt: skip


# Real servers from here on.


def home(kind: str = "native") -> str:
    """Where MongoDB is; the test ends where it cannot be had."""
    try:
        found = mongodb_binaries.native() if kind == "native" else mongodb_binaries.emulated()
    except mongodb_binaries.Unavailable as error:
        unavailable(str(error))
    return str(found)


FILES = {seed: sample(seed, 200) for seed in range(6)}


def insert(client: Client, kind: Kind, documents: list[Document]) -> None:
    client.insert(kind, [to_bson(document) for document in documents])


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    place = tmp_path_factory.mktemp("mongodb")
    with running("mongodb", place, Topology(memory_mb=512), {"home": home()}) as found:
        yield found


def changed(cluster: Cluster, directory: Path, **secrets: str) -> Cluster:
    assert cluster.credentials is not None
    known = asdict(Credentials.read(cluster.credentials))
    wrong = directory / "wrong.json"
    Credentials(**{**known, **secrets}).write(wrong)
    return replace(cluster, credentials=wrong)


@pytest.mark.parametrize("secrets", [{"password": "guess"}, {"user": "nobody"}])
def test_bad_credentials_are_refused(
    alone: LocalCluster, tmp_path: Path, secrets: dict[str, str]
) -> None:
    with pytest.raises(EngineError, match="refuses the user or password"):
        ENGINE.connect(changed(alone.cluster, tmp_path, **secrets), "read")


def test_a_foreign_server_is_not_waited_for(alone: LocalCluster) -> None:
    with pytest.raises(EngineError, match="refuses this session's key"):
        ENGINE.answers(alone.cluster.endpoints[0], Credentials.make())


def test_without_a_password_nothing_is_shown(alone: LocalCluster) -> None:
    endpoint = alone.cluster.endpoints[0]
    with pymongo.MongoClient[dict[str, Any]](
        endpoint.address, endpoint.port, directConnection=True
    ) as nobody:
        for command in ("listDatabases", "serverStatus", "fsync"):
            with pytest.raises(OperationFailure, match="requires authentication"):
                nobody.admin.command(command)
        with pytest.raises(OperationFailure, match="requires authentication"):
            nobody.storewise.rna.find_one()


def test_the_session_s_user_rules_only_the_session_s_data(alone: LocalCluster) -> None:
    assert alone.cluster.credentials is not None
    secrets = Credentials.read(alone.cluster.credentials)
    with as_user(alone.cluster.endpoints[0], secrets, 5.0) as connection:
        for refused in ({"shutdown": 1}, {"createUser": "x", "pwd": "y", "roles": ["root"]}):
            with pytest.raises(OperationFailure, match="not authorized"):
                connection.admin.command(refused)
        with pytest.raises(OperationFailure, match="not authorized"):
            connection.other.things.insert_one({})


def test_one_port_on_one_address_and_private_files(alone: LocalCluster) -> None:
    endpoint = alone.cluster.endpoints[0]
    process = psutil.Process(alone.servers["data0"].pid)
    listening = [c.laddr for c in process.net_connections("all") if c.status == psutil.CONN_LISTEN]
    assert [(a.ip, a.port) for a in listening] == [(endpoint.address, endpoint.port)]
    assert not any(c.laddr for c in process.net_connections("unix"))
    key = alone.servers["data0"].node.directory / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("level", list(ENGINE.consistencies))
def test_levels_of_acknowledgement(alone: LocalCluster, level: str) -> None:
    """What was sent is there after `flush`, whatever the level; writes are as it says."""
    client = ENGINE.connect(replace(alone.cluster, consistency=level), "write")
    number = list(ENGINE.consistencies).index(level)
    before = client.status()

    def load(part: int) -> None:
        mine = client.for_thread()
        documents = sample(100 * number + part + 1000, 300)[Kind.GS]
        for start in range(0, 300, 30):
            insert(mine, Kind.GS, documents[start : start + 30])
        mine.flush()

    count = client.count(Kind.GS)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(load, range(4)))
    assert client.count(Kind.GS) == count + 1200
    assert client.status()["opcounters.insert"] == before["opcounters.insert"] + 1200
    assert client.update(Kind.GS, sample(100 * number + 1000, 1)[Kind.GS][0]["_id"], {"b": 1})
    assert client.delete(Kind.GS, sample(100 * number + 1000, 1)[Kind.GS][0]["_id"])
    client.close()


def test_an_existing_id_is_overwritten(alone: LocalCluster) -> None:
    client = ENGINE.connect(alone.cluster, "write")
    old = FILES[0][Kind.ALIGN]
    insert(client, Kind.ALIGN, old)
    new = [{**d, "gene": "NEW"} for d in old[50:150]]
    twice = {**old[180], "gene": "LAST"}
    insert(client, Kind.ALIGN, [*old[:60], *new, {**old[180], "gene": "FIRST"}, twice])
    expected = {d["_id"]: d for d in [*old, *new, twice]}
    assert client.count(Kind.ALIGN) == 200
    assert client.get_many(Kind.ALIGN, list(expected)) == list(expected.values())
    client.close()


def test_the_hash_is_the_server_s(alone: LocalCluster) -> None:
    client = ENGINE.connect(alone.cluster, "write")
    insert(client, Kind.TASKS, FILES[1][Kind.TASKS])
    insert(client, Kind.RNA, FILES[1][Kind.RNA])
    client.close()
    assert alone.cluster.credentials is not None
    secrets = Credentials.read(alone.cluster.credentials)
    with as_user(alone.cluster.endpoints[0], secrets, 5.0) as connection:
        collection = connection.storewise.rna
        collection.create_index([("_id", "hashed")])
        for document in FILES[1][Kind.RNA]:
            found = connection.storewise.command(
                "find", "rna", filter={"_id": ObjectId(document["_id"])},
                hint={"_id": "hashed"}, returnKey=True,
            )  # fmt: skip
            assert found["cursor"]["firstBatch"] == [{"_id": hashed_id(document["_id"])}]
        collection.drop_index([("_id", "hashed")])


def test_an_unreachable_server_is_named(alone: LocalCluster, free: int) -> None:
    nowhere = replace(alone.cluster.endpoints[0], port=free)
    with pytest.raises(EngineError, match=rf"connect: 127\.0\.0\.1:{free}.*refused"):
        ENGINE.connect(replace(alone.cluster, endpoints=(nowhere,)), "read")
    assert not ENGINE.answers(nowhere, Credentials.make())


def test_a_server_that_never_answered_is_named_too(
    alone: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is over before the driver's first attempt is."""
    monkeypatch.setattr(mongo_link, "_CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        nowhere = replace(alone.cluster.endpoints[0], port=port)
        with pytest.raises(EngineError, match=rf"connect: 127\.0\.0\.1:{port}: \w+"):
            ENGINE.connect(replace(alone.cluster, endpoints=(nowhere,)), "read")


@pytest.fixture
def free() -> int:
    from storewise.session.address import free_port

    return free_port("127.0.0.1")


def test_acknowledged_documents_outlive_the_server(tmp_path: Path) -> None:
    with running("mongodb", tmp_path, Topology(memory_mb=512), {"home": home()}) as found:
        client = ENGINE.connect(found.cluster, "write")
        for kind in KINDS:
            insert(client, kind, FILES[2][kind])
        os.kill(found.servers["data0"].pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="mongodb: insert"):
            insert(client, Kind.RNA, FILES[3][Kind.RNA])
        found.servers["data0"].stop()
        found.servers["data0"].restart()
        assert found.cluster.credentials is not None
        secrets = Credentials.read(found.cluster.credentials)
        wait_until(lambda: ENGINE.answers(found.cluster.endpoints[0], secrets), 30, "it answers")
        for kind in KINDS:
            stored = client.get_many(kind, [d["_id"] for d in FILES[2][kind]])
            assert stored == FILES[2][kind]
        client.close()


def test_a_replica_set_outlives_its_primary(tmp_path: Path) -> None:
    shape = Topology(replicas=3, memory_mb=512)
    with running("mongodb", tmp_path, shape, {"home": home()}) as found:
        client = ENGINE.connect(found.cluster, "write").for_thread()
        insert(client, Kind.RNA, FILES[0][Kind.RNA])
        some = FILES[0][Kind.RNA][0]["_id"]
        assert client.owner(Kind.RNA, some) == "data0"
        assert client.status()["servers"] == 3
        secondary = replace(found.cluster, settings={"read_preference": "secondary"})
        reader = ENGINE.connect(secondary, "read")
        assert reader.get(Kind.RNA, some) == FILES[0][Kind.RNA][0]
        reader.close()
        os.kill(found.servers["data0"].pid, signal.SIGKILL)
        for seed in range(1, 6):
            insert(client, Kind.RNA, FILES[seed][Kind.RNA])
        assert client.count(Kind.RNA) == 1200
        assert client.owner(Kind.RNA, some) in ("data1", "data2")
        assert client.status()["servers"] == 2
        every = [d for file in FILES.values() for d in file[Kind.RNA]]
        assert client.get_many(Kind.RNA, [d["_id"] for d in every]) == every
        client.close()


def held(found: LocalCluster, kind: Kind) -> dict[str, set[bytes]]:
    """The ids that each data node itself has."""
    assert found.cluster.credentials is not None
    secrets = Credentials.read(found.cluster.credentials)
    content = {}
    for endpoint in found.cluster.endpoints:
        if endpoint.role == "data":
            with as_system(endpoint, secrets, 30.0) as connection:
                ids = connection.storewise[kind.table].find({}, {"_id": 1})
                content[f"data{endpoint.index}"] = {d["_id"].binary for d in ids}
    return content


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_sharded_cluster(tmp_path: Path) -> None:
    """Hashed and ranged keys, owners, exact counts, and what is said when a shard dies."""
    settings = {"home": home("emulated")}
    shape = Topology(nodes=2, routers=1, memory_mb=512)
    files = {seed: sample(seed, 40) for seed in range(12)}
    every = {kind: [d for file in files.values() for d in file[kind]] for kind in KINDS}
    schema = Schema(indexes=((Kind.ALIGN, "e"),), index_time="after")
    with running("mongodb", tmp_path, shape, settings) as found:
        for key in ({}, {"shard_key": "ranged"}, {"shard_key_field": "ti"}):
            cluster = replace(found.cluster, settings={**settings, **key})
            writer = ENGINE.connect(cluster, "write")
            _empty(cluster)
            writer.create(schema)
            writer.create(schema)
            for kind in KINDS:
                insert(writer, kind, every[kind])
                insert(writer, kind, every[kind][:50])
            writer.finish()
            client = ENGINE.connect(cluster, "read").for_thread()
            for kind in KINDS:
                assert client.count(kind) == len(every[kind])
                ids = [d["_id"] for d in every[kind]]
                assert client.get_many(kind, ids) == every[kind]
                content = held(found, kind)
                owners = {i: client.owner(kind, i) for i in ids}
                if key.get("shard_key_field") and kind is not Kind.TASKS:
                    assert set(owners.values()) == {None}
                else:
                    assert all(i in content[str(owners[i])] for i in ids)
                if kind is Kind.ALIGN:
                    assert min(len(part) for part in content.values()) > 40
                assert sum(len(part) for part in content.values()) == len(ids)
            ordered = sorted(every[Kind.GS], key=lambda d: d["_id"])
            assert client.scan(Kind.GS, ordered[100]["_id"], 90) == ordered[100:190]
            genes = Counter(d["gene"] for d in every[Kind.ALIGN] if d["gene"] is not None)
            assert dict(client.aggregate(Kind.ALIGN, "gene", 99)) == genes
            low = {d["_id"] for d in every[Kind.ALIGN] if d["e"] <= 1e-3}
            assert {d["_id"] for d in client.range(Kind.ALIGN, "e", None, 1e-3)} == low
            assert client.disk_bytes() > 0
            assert client.status()["servers"] == 2
            client.close()
            writer.close()
        _a_shard_dies(found, settings)


def _empty(cluster: Cluster) -> None:
    assert cluster.credentials is not None
    router = next(e for e in cluster.endpoints if e.role == "router")
    with as_user(router, Credentials.read(cluster.credentials), 30.0) as connection:
        connection.drop_database("storewise")


def _a_shard_dies(found: LocalCluster, settings: dict[str, Any]) -> None:
    cluster = replace(found.cluster, settings=settings)
    writer = ENGINE.connect(cluster, "write").for_thread()
    _empty(cluster)
    writer.create(Schema())
    documents = [d for seed in range(4) for d in sample(seed, 40)[Kind.RNA]]
    insert(writer, Kind.RNA, documents)
    owners = {d["_id"]: writer.owner(Kind.RNA, d["_id"]) for d in documents}
    os.kill(found.servers["data1"].pid, signal.SIGKILL)
    lost = next(i for i, owner in owners.items() if owner == "data1")
    with pytest.raises(EngineError, match=r"mongodb: get: .*shard1"):
        writer.get(Kind.RNA, lost)
    with pytest.raises(EngineError, match=r"mongodb: insert.*shard1"):
        insert(writer, Kind.RNA, sample(9, 40)[Kind.RNA])
    kept = next(d for d in documents if owners[d["_id"]] == "data0")
    assert writer.get(Kind.RNA, kept["_id"]) == kept
    assert writer.status()["servers"] == 1
    writer.close()
