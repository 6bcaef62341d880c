"""MongoDB's clusters: a replica set whose primary is killed, and shards of which one is."""

import os
import signal
from collections import Counter
from dataclasses import replace

import pytest
from support.needs import unavailable
from support.servers import mongodb_binaries
from support.servers.local import running
from support.servers.samples import sample, secrets_of
from support.servers.stores import available

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find, Scan, Top, Where
from storewise.engines.contract.server import Topology
from storewise.engines.mongodb.cluster import as_system, as_user
from storewise.engines.mongodb.engine import MongoEngine
from storewise.errors import EngineError

ENGINE = MongoEngine()
pytestmark = pytest.mark.xdist_group("mongodb")
FILES = {seed: sample(seed, 200) for seed in range(6)}


def emulated():
    """Where a MongoDB with routers is; the test ends where it cannot be had."""
    try:
        return str(mongodb_binaries.emulated())
    except mongodb_binaries.Unavailable as error:
        unavailable(str(error))
        raise


def test_a_replica_set_outlives_its_primary(tmp_path):
    shape = Topology(replicas=3, memory_mb=512)
    with running("mongodb", tmp_path, shape, available("mongodb")) as result:
        client = ENGINE.connect(result.cluster, "write").open_thread()
        client.insert(Kind.RNA, FILES[0][Kind.RNA])
        some = FILES[0][Kind.RNA][0]["_id"]
        assert client.owner(Kind.RNA, some) == "data0"
        os.kill(result.servers["data0"].pid, signal.SIGKILL)
        for seed in range(1, 6):
            client.insert(Kind.RNA, FILES[seed][Kind.RNA])
        assert client.count(Count(Kind.RNA)) == 1200
        assert client.owner(Kind.RNA, some) in ("data1", "data2")
        every = [d for file in FILES.values() for d in file[Kind.RNA]]
        assert client.get_many(Kind.RNA, [d["_id"] for d in every]) == every
        client.close()
        # Started again, the member has recovered when it is primary or secondary.
        result.servers["data0"].again(lambda: None)
        member = next(e for e in result.cluster.endpoints if e.name == "data0")
        with as_system(member, secrets_of(result.cluster)) as mongo:
            hello = mongo.admin.command("hello")
        assert hello["isWritablePrimary"] or hello["secondary"]


def held(result, kind):
    """The ids that each data node itself has."""
    secrets = secrets_of(result.cluster)
    content = {}
    for endpoint in result.cluster.endpoints:
        if endpoint.role == "data":
            with as_system(endpoint, secrets, 30.0) as connection:
                ids = connection.storewise[kind.table].find({}, {"_id": 1})
                content[f"data{endpoint.index}"] = {d["_id"].binary for d in ids}
    return content


@pytest.mark.long("it waits for a scheduler or for servers", limit=1500)
def test_a_sharded_cluster(tmp_path):
    """Keys, owners, exact counts, and what is said when a shard dies. The router
    is one of those that stand on the workers' hosts."""
    settings = {"home": emulated()}
    shape = Topology(nodes=2, routers=0, memory_mb=512)
    files = {seed: sample(seed, 40) for seed in range(12)}
    every = {kind: [d for file in files.values() for d in file[kind]] for kind in KINDS}
    schema = Schema(indexes=((Kind.ALIGN, "e"),), index_time="after")
    with running("mongodb", tmp_path, shape, settings) as result:
        for key in ({}, {"shard_key_field": "ti"}):
            cluster = replace(result.cluster, settings={**settings, **key})
            writer = ENGINE.connect(cluster, "write")
            _empty(cluster)
            writer.create(schema)
            writer.create(schema)
            for kind in KINDS:
                writer.insert(kind, every[kind])
                writer.insert(kind, every[kind][:50])
            writer.finish()
            client = ENGINE.connect(cluster, "read").open_thread()
            for kind in KINDS:
                assert client.count(Count(kind)) == len(every[kind])
                ids = [d["_id"] for d in every[kind]]
                assert client.get_many(kind, ids) == every[kind]
                content = held(result, kind)
                owners = {i: client.owner(kind, i) for i in ids}
                if key.get("shard_key_field") and kind is not Kind.TASKS:
                    assert set(owners.values()) == {None}
                else:
                    assert all(i in content[str(owners[i])] for i in ids)
                if kind is Kind.ALIGN:
                    assert min(len(part) for part in content.values()) > 40
                assert sum(len(part) for part in content.values()) == len(ids)
            ordered = sorted(every[Kind.GS], key=lambda d: d["_id"])
            assert client.scan(Scan(Kind.GS, ordered[100]["_id"], 90)) == ordered[100:190]
            genes = Counter(d["gene"] for d in every[Kind.ALIGN] if d["gene"] is not None)
            assert dict(client.top(Top(Kind.ALIGN, "gene", 99))) == genes
            low = {d["_id"] for d in every[Kind.ALIGN] if d["e"] <= 1e-3}
            assert {
                d["_id"] for d in client.find(Find(Kind.ALIGN, (Where("e", "<=", 1e-3),)))
            } == low
            assert client.disk_bytes() > 0
            client.close()
            writer.close()
        _a_shard_dies(result, settings)


def _empty(cluster):
    router = next(e for e in cluster.endpoints if e.role == "router")
    with as_user(router, secrets_of(cluster), 30.0) as connection:
        connection.drop_database("storewise")


def _a_shard_dies(result, settings):
    cluster = replace(result.cluster, settings=settings)
    writer = ENGINE.connect(cluster, "write").open_thread()
    _empty(cluster)
    writer.create(Schema())
    documents = [d for seed in range(4) for d in sample(seed, 40)[Kind.RNA]]
    writer.insert(Kind.RNA, documents)
    owners = {d["_id"]: writer.owner(Kind.RNA, d["_id"]) for d in documents}
    os.kill(result.servers["data1"].pid, signal.SIGKILL)
    lost = next(i for i, owner in owners.items() if owner == "data1")
    with pytest.raises(EngineError, match=r"mongodb: get: .*shard1"):
        writer.get(Kind.RNA, lost)
    with pytest.raises(EngineError, match=r"mongodb: insert.*shard1"):
        writer.insert(Kind.RNA, sample(9, 40)[Kind.RNA])
    kept = next(d for d in documents if owners[d["_id"]] == "data0")
    assert writer.get(Kind.RNA, kept["_id"]) == kept
    writer.close()
