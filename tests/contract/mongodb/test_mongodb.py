"""MongoDB: nodes and options (pure), then standalone servers, a replica set and, slowly, shards."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pymongo
import pytest
from bson.objectid import ObjectId
from pymongo.errors import OperationFailure
from support.needs import unavailable
from support.servers import mongodb_binaries
from support.servers.samples import fill, sample
from support.servers.stores import Clusters, Target
from support.waiting import wait_until

from storewise.documents import KINDS, Document, Kind
from storewise.engines import mongo_link
from storewise.engines.base import Client, Cluster, Schema
from storewise.engines.mongo import MongoEngine
from storewise.engines.mongo_cluster import as_system, as_user
from storewise.engines.mongo_routing import hashed_id
from storewise.engines.server import Credentials, Topology
from storewise.errors import EngineError
from storewise.session.local import LocalCluster, running
from storewise.ssearch.build import to_bson

ENGINE = MongoEngine()
pytestmark = pytest.mark.xdist_group("mongodb")


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
def alone(clusters: Clusters) -> LocalCluster:
    """The server of the contract, with nothing but the tables of the study."""
    target = Target("mongodb", 1)
    fill(clusters.fresh(target), {})
    return clusters.servers(target)


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
