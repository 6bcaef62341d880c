"""A store of engine `parquet` on S3, over a real socket."""

import shutil

import pytest
from support.paths import SAMPLE
from support.s3.faults import Status
from support.servers.samples import fill, holds, sample
from support.workspace import Workspace

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Cluster, Schema
from storewise.engines.contract.queries import Count, Find, Scan, Where
from storewise.engines.registry import engine
from storewise.errors import EngineError

ENGINE = engine("parquet")
FIRST, SECOND = sample(1, 60), sample(2, 60)


def cluster_of(s3, store, **settings):
    more = {"place": f"{s3.uri}/bench", "partition": "query", "partitions": 3, **settings}
    return Cluster("parquet", stores=(store,), settings=more)


def has(client, documents):
    return all(
        client.get_many(kind, [d["_id"] for d in documents[kind]]) == documents[kind]
        for kind in KINDS
    )


@pytest.mark.parametrize("partition", ["query", "hash"])
def test_a_store_on_s3(s3, tmp_path, partition):
    store = tmp_path / "trial" / "store.0" / "p0"
    cluster = cluster_of(s3, store, partition=partition)
    fill(cluster, FIRST)
    keys = s3.keys("bench/")
    (name,) = {key.split("/")[1] for key in keys}
    assert name.startswith("trial-store.0-p0-")
    kept = {key.removeprefix(f"bench/{name}/") for key in keys}
    assert {"dataset.json", "inputs/0001.parquet"} < kept and "lock.txt" not in kept
    assert [path.name for path in store.iterdir()] == ["place.json"]
    client = ENGINE.connect(cluster, "read")
    assert all(holds(client, kind, len(FIRST[kind])) for kind in KINDS)
    assert has(client, FIRST)
    ids = sorted(d["_id"] for d in FIRST[Kind.GS])
    assert [d["_id"] for d in client.scan(Scan(Kind.GS, ids[7], 9))] == ids[7:16]
    hits = FIRST[Kind.ALIGN]
    where = (Where("q", "=", hits[0]["q"]), Where("z", ">", 60))
    expected = [d for d in hits if d["q"] == hits[0]["q"] and d["z"] is not None and d["z"] > 60]
    assert client.count(Count(Kind.ALIGN, where)) == len(expected)
    assert len(client.find(Find(Kind.ALIGN, where))) == len(expected)
    assert "ARROW" in client.explain(Count(Kind.ALIGN, where)).text.upper()
    sizes = sum(s3.client.head_object(Bucket=s3.name, Key=key)["ContentLength"] for key in keys)
    assert 0 < (client.disk_bytes() or 0) <= sizes + 1000
    client.close()
    # A later phase writes there, too, and an id that is inserted again is overwritten.
    newer = {kind: [*SECOND[kind], *FIRST[kind][:3]] for kind in KINDS}
    newer[Kind.RNA][-1] = {**newer[Kind.RNA][-1], "s": "NEW"}
    fill(cluster, newer)
    client = ENGINE.connect(cluster, "read")
    assert has(client, newer)
    assert all(holds(client, kind, len(FIRST[kind]) + len(SECOND[kind])) for kind in KINDS)
    client.close()
    ENGINE.remove(cluster)
    assert s3.keys() == []


def test_what_a_killed_trial_left_goes(s3, tmp_path):
    store = tmp_path / "store"
    cluster = cluster_of(s3, store)
    fill(cluster, FIRST)
    shutil.rmtree(store)
    fill(cluster, SECOND)
    client = ENGINE.connect(cluster, "read")
    assert has(client, SECOND)
    assert client.get(Kind.RNA, FIRST[Kind.RNA][0]["_id"]) is None
    client.close()


def test_s3_that_refuses_is_one_clear_error(s3, tmp_path):
    cluster = cluster_of(s3, tmp_path / "store")
    client = ENGINE.connect(cluster, "write")
    client.create(Schema())
    client.insert(Kind.RNA, FIRST[Kind.RNA])
    s3.faults.add(Status(403, "AccessDenied", "no"), target=".parquet", method="PUT")
    with pytest.raises(EngineError, match=r"parquet: .*access denied"):
        client.finish()
    client.close()
    # Nothing is lost: the parts are still there.
    s3.faults.clear()
    client = ENGINE.connect(cluster, "write")
    client.create(Schema())
    assert client.count(Count(Kind.RNA)) == 60
    client.finish()
    client.close()
    client = ENGINE.connect(cluster, "read")
    assert client.count(Count(Kind.RNA)) == 60
    client.close()


def test_a_trial_leaves_nothing_on_s3(s3, tmp_path):
    workspace = Workspace(tmp_path)
    workspace.write_study(
        f"""\
inputs: {{paths: ["{SAMPLE}/queries_04*"]}}
engines:
  parquet: {{place: "{s3.uri}/bench", partition: query, partitions: 2}}
factors: {{processes: 2, threads: 2}}
phases: [write, read: {{operations: 40}}, query: {{operations: 5}}]
"""
    )
    done = workspace.snakemake("--omit-from", "analyse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(workspace.counts().values()) == {(workspace.documents(), workspace.documents())}
    written = {request.target.split("?")[0] for request in s3.faults.seen("PUT", "/bench/")}
    assert any("store.0-p0" in path and "/align/part=0" in path for path in written)
    assert any("store.0-p1" in path for path in written)
    assert s3.keys() == []
    assert workspace.left_behind() == []


def test_a_bucket_that_is_not_there(s3, tmp_path):
    cluster = cluster_of(s3, tmp_path / "store", place="s3://no-such-bucket-here/x")
    with pytest.raises(EngineError, match="no such bucket"):
        ENGINE.connect(cluster, "write")
