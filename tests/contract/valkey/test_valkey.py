"""Valkey: a server alone and a cluster, what is let in, updates that meet, memory that is full."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.servers.local import running
from support.servers.samples import connect, fill, sample, secrets_of
from support.servers.stores import Target, available, valkey_servers
from valkey import Valkey
from valkey.exceptions import NoPermissionError, ResponseError

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.contract.server import Topology
from storewise.engines.valkey.cluster import CLUSTER_ADMIN
from storewise.errors import EngineError

pytestmark = pytest.mark.xdist_group("valkey")
DOCUMENTS = sample(5, alignments=120)
ONE, THREE = Target("valkey", 1), Target("valkey", 3)


@pytest.fixture(params=[ONE, pytest.param(THREE, marks=pytest.mark.slow)], ids=str)
def cluster(request, clusters):
    result = clusters.fresh(request.param)
    fill(result, DOCUMENTS)
    return result


@pytest.mark.slow
def test_a_cluster_is_one_by_its_own_words(clusters):
    cluster = clusters.fresh(THREE)
    for endpoint in cluster.endpoints:
        secret = secrets_of(cluster).key
        with Valkey(endpoint.address, endpoint.port, username=CLUSTER_ADMIN, password=secret) as db:
            known = db.cluster("INFO")
            assert (known["cluster_state"], known["cluster_size"]) == ("ok", "3")
            # Who makes the cluster has no business with documents.
            with pytest.raises(NoPermissionError):
                db.get(":schema")


def test_clients_can_do_no_more_than_they_need(cluster):
    commands = ("CONFIG GET dir", "FLUSHALL", "DEBUG SLEEP 0", "EVAL x 0", "SHUTDOWN", "KEYS *",
                "ACL LIST", "CLUSTER INFO", "SAVE", "MONITOR", "CLIENT LIST")  # fmt: skip
    refusal = pytest.raises(ResponseError, match=r"no permissions|not allowed")
    for command in commands:
        with valkey_servers(cluster)[0] as valkey, refusal:
            valkey.execute_command(*command.split())


def test_updates_that_meet_lose_nothing(cluster):
    """Four threads add to one document: each sees what the others have done."""
    client = connect(cluster, "write")
    document_id = DOCUMENTS[Kind.RNA][0]["_id"]
    names = ("b", "e", "l", "s")

    def work(name):
        mine = client.open_thread()
        for number in range(25):
            value = str(number) if name == "s" else number
            assert mine.update(Kind.RNA, document_id, {name: value})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, names))
    stored = client.get(Kind.RNA, document_id)
    assert stored is not None
    assert [stored[name] for name in names] == [24, 24, 24, "24"]
    client.close()


def test_a_scan_goes_on_where_documents_vanish_meanwhile(cluster, monkeypatch):
    """Between the question for ids and the one for documents others may delete."""
    client, other = connect(cluster, "read"), connect(cluster, "write")
    ordered = sorted(DOCUMENTS[Kind.GS], key=lambda d: d["_id"])
    zrange = Valkey.zrange

    def ids_then_delete(*arguments, **options):
        ids = zrange(*arguments, **options)
        for document in ordered[:2]:
            other.delete(Kind.GS, document["_id"])
        return ids

    monkeypatch.setattr(Valkey, "zrange", ids_then_delete)
    assert client.scan(Scan(Kind.GS, b"", 5)) == ordered[2:7]
    for one in (client, other):
        one.close()


def test_a_batch_that_does_not_fit_is_refused_as_a_whole(tmp_path):
    with running("valkey", tmp_path, Topology(memory_mb=64), available("valkey")) as small:
        client = connect(small.cluster, "write")
        stored = 0
        with pytest.raises(EngineError, match=r"data0.*maxmemory.*node_memory_mb"):
            for seed in range(200):
                documents = [{**d, "s": "A" * 5000} for d in sample(seed, 100)[Kind.RNA]]
                client.insert(Kind.RNA, documents)
                stored += 100
        assert 1000 < stored == client.count(Count(Kind.RNA))
        assert client.get_many(Kind.RNA, [d["_id"] for d in documents]) == [None] * 100
        # Nothing was thrown away for it.
        first = [d["_id"] for d in sample(0, 100)[Kind.RNA]]
        assert None not in client.get_many(Kind.RNA, first)
        client.close()


@pytest.mark.slow
def test_a_store_in_memory_comes_back_empty_with_its_tables(tmp_path):
    with running("valkey", tmp_path, Topology(memory_mb=256), available("valkey"), "memory") as one:
        client = connect(one.cluster, "write")
        client.insert(Kind.RNA, DOCUMENTS[Kind.RNA])
        assert client.disk_bytes() is None
        # What is there stays: the snapshot of the empty store is not made again.
        client.create(Schema())
        one.servers["data0"].kill()
        one.servers["data0"].again(lambda: None)
        reader = connect(one.cluster, "read")
        assert reader.count(Count(Kind.RNA)) == 0
        client.insert(Kind.RNA, DOCUMENTS[Kind.RNA][:5])
        assert reader.count(Count(Kind.RNA)) == 5
        client.close()
        reader.close()


def test_what_is_no_document_is_said_and_the_connection_stays_usable(cluster):
    client = connect(cluster, "write")
    document = DOCUMENTS[Kind.RNA][2]
    for wrong in ({"b": 1 << 80}, {"s": "\ud800"}, {"b": "1"}, {"s": 1}):
        with pytest.raises(EngineError, match="rna"):
            client.update(Kind.RNA, document["_id"], wrong)
    assert client.get(Kind.RNA, document["_id"]) == document
    server = int(str(client.owner(Kind.RNA, document["_id"])).removeprefix("data"))
    asked = valkey_servers(cluster)[server]
    (key,) = asked.scan_iter(b"*rna:" + document["_id"], count=1000)
    asked.hset(key, "b", "x")
    with pytest.raises(EngineError, match=r"rna.*not a valid document"):
        client.get(Kind.RNA, document["_id"])
    asked.set(key, "x")
    with pytest.raises(EngineError, match="wrong kind"):
        client.get(Kind.RNA, document["_id"])
    client.insert(Kind.RNA, [document])
    assert client.get(Kind.RNA, document["_id"]) == document
    client.close()
