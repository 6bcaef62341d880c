"""Kinds of other workloads on real servers: keys of their own choice, and composite keys."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.riak.standin import Standin
from support.servers.samples import holds
from support.servers.stores import SERVERS, Clusters, Target, cells

from storewise.documents import Document, Field, Kind
from storewise.engines.contract.engine import Client, Cluster, Endpoint, Flags, Mode, Schema
from storewise.engines.contract.queries import (
    Count,
    Find,
    Get,
    Histogram,
    Scan,
    Top,
    Where,
    between,
)
from storewise.engines.registry import engine
from storewise.engines.support.splits import split_points
from storewise.errors import EngineError

KEYED = Kind(
    "usertable",
    (
        Field("_id", "key", "user and a number"),
        Field("field0", "str", "text"),
        Field("field1", "str", "text"),
    ),
)
READINGS = Kind(
    "readings",
    (
        Field("_id", "id", "m, s and bt"),
        Field("m", "int", "machine"),
        Field("s", "int", "sensor"),
        Field("bt", "int", "time"),
        Field("mv", "float", "value"),
        Field("note", "str", "text"),
    ),
    key=(("m", 2), ("s", 2), ("bt", 8)),
)
BOTH = (KEYED, READINGS)


def keyed(number: int, text: str = "x") -> Document:
    hashed = random.Random(number).randrange(1 << 63)
    return {"_id": b"user%d" % hashed, "field0": f"{text}{number}", "field1": "é" * 50}


def reading(m: int, s: int, bt: int, mv: float | None = 1.5, note: str | None = None) -> Document:
    values = {"m": m, "s": s, "bt": bt}
    return {"_id": READINGS.pack((m, s, bt)), **values, "mv": mv, "note": note}


#: Those that all tests find; what a test changes is its own.
USERS = sorted((keyed(number) for number in range(200)), key=lambda d: d["_id"])
#: Values with ties, nulls, and some near the limits of classes.
ROWS = [
    reading(m, s, 1_700_000_000_000_000 + 256**t, None if t == 3 else m * 0.1 + s + t % 2, f"n{m}")
    for m in (1, 2, 300)
    for s in (1, 7)
    for t in range(6)
]


@dataclass
class Store:
    """A store with `USERS` and `ROWS`."""

    name: str
    cluster: Cluster
    writer: Client
    reader: Client
    standin: Standin | None = None

    @property
    def flags(self) -> Flags:
        return engine(self.cluster.engine).flags


TARGETS = [
    *(target for target in SERVERS if target.name in ("mongodb", "cassandra", "hbase", "valkey")),
    Target("riak"),
]


@pytest.fixture(scope="module", params=cells(TARGETS))
def store(request: pytest.FixtureRequest, clusters: Clusters) -> Iterator[Store]:
    target: Target = request.param
    standin = None
    if target.name == "riak":
        standin = Standin()
        endpoint = Endpoint("data", 0, "here", "127.0.0.1", standin.port, {"http": 1})
        cluster = Cluster(engine="riak", endpoints=(endpoint,))
    else:
        cluster = clusters.fresh(target)
    cluster = replace(cluster, kinds=BOTH)
    writer = loaded(cluster)
    reader = connect(cluster, "read")
    yield Store(target.name, cluster, writer, reader, standin)
    reader.close()
    writer.close()
    if standin is not None:
        standin.close()


def connect(cluster: Cluster, mode: Mode) -> Client:
    """Every engine takes dicts, whatever it likes best."""
    return engine(cluster.engine).connect(cluster, mode)


def loaded(cluster: Cluster) -> Client:
    writer = connect(cluster, "write")
    indexes = ((READINGS, "mv"),) if engine(cluster.engine).flags.secondary_indexes else ()
    schema = Schema(BOTH, indexes, "before" if indexes else "none")
    writer.create(schema)
    writer.insert(KEYED, USERS)
    writer.insert(READINGS, ROWS)
    writer.create(schema)  # what is there stays
    writer.finish()
    return writer


def test_documents_come_back_to_a_client_that_connects_later(store: Store) -> None:
    for kind, documents in ((KEYED, USERS), (READINGS, ROWS)):
        ids = [document["_id"] for document in documents]
        for client in (store.reader, store.writer):
            assert client.get(kind, ids[3]) == documents[3]
            result = client.get_many(kind, [*reversed(ids), ids[0]])
            assert result == [*reversed(documents), documents[0]]
        assert holds(store.reader, kind, len(documents))
    result = store.reader.get(READINGS, ROWS[0]["_id"])
    assert result is not None
    assert {name: type(value) for name, value in result.items()} == {
        name: type(value) for name, value in ROWS[0].items()
    }
    assert store.reader.get(KEYED, b"nobody") is None
    assert store.reader.get(READINGS, READINGS.pack((9, 9, 9))) is None
    missing = [b"nobody", USERS[0]["_id"], b"user"]
    assert store.reader.get_many(KEYED, missing) == [None, USERS[0], None]


def test_overwrite_update_and_delete(store: Store) -> None:
    writer = store.writer
    for kind, one, changes in (
        (KEYED, keyed(1000), {"field1": "new"}),
        (READINGS, reading(65535, 3, 2**62), {"mv": None, "note": "new"}),
    ):
        key = one["_id"]
        writer.insert(kind, [one])
        assert writer.get(kind, key) == one
        first, last = ({**one, kind.fields[-1].name: text} for text in ("first", "last"))
        writer.insert(kind, [first, last])
        assert writer.get(kind, key) == last
        assert writer.update(kind, key, changes)
        assert writer.get(kind, key) == {**last, **changes}
        assert writer.delete(kind, key)
        assert writer.get(kind, key) is None
        assert not writer.delete(kind, key)
        assert not writer.update(kind, key, changes)
        assert writer.get(kind, key) is None
        for wrong in ({}, {"_id": key}, {"colour": "red"}):
            with pytest.raises(EngineError):
                writer.update(kind, key, wrong)
        assert holds(writer, kind, len(USERS if kind is KEYED else ROWS))
    with pytest.raises(EngineError, match="bt"):
        writer.update(READINGS, ROWS[0]["_id"], {"bt": 5})
    assert writer.get(READINGS, ROWS[0]["_id"]) == ROWS[0]


@pytest.mark.parametrize(
    "wrong",
    [
        *({**keyed(1), "_id": key} for key in (b"", b"x" * 65, "user1", "usér1".encode(), None)),
        {**keyed(1), "more": 1},
        {"_id": b"user1", "field0": "x"},
        {**reading(1, 2, 3), "bt": 4},
        {**reading(1, 2, 3), "m": 1 << 16},
        {**reading(1, 2, 3), "s": None},
        {**reading(1, 2, 3), "_id": b"123"},
    ],
    ids=repr,
)
def test_impossible_ids_and_documents_are_refused(store: Store, wrong: Document) -> None:
    kind = KEYED if "field0" in wrong else READINGS
    with pytest.raises(EngineError, match=f"{kind.table}|{wrong['_id']!r}"):
        store.writer.insert(kind, [wrong])
    assert holds(store.reader, kind, len(USERS if kind is KEYED else ROWS))


def test_keys_may_have_64_bytes_of_any_ascii(store: Store) -> None:
    odd = [{**USERS[0], "_id": key} for key in (b"x" * 64, b"~ /\\'\"%$.", b"\x7f\x01", b"0")]
    store.writer.insert(KEYED, odd)
    assert store.writer.get_many(KEYED, [d["_id"] for d in odd]) == odd
    if store.flags.scans:
        every = sorted([*USERS, *odd], key=lambda d: d["_id"])
        assert store.writer.scan(Scan(KEYED, b"\x01", 1000)) == every
    for document in odd:
        assert store.writer.delete(KEYED, document["_id"])


def test_scans_are_in_the_order_of_keys(store: Store) -> None:
    if not store.flags.scans:
        with pytest.raises(EngineError, match="its flags say so"):
            store.reader.scan(Scan(KEYED, b"user", 5))
        return
    for kind, documents in ((KEYED, USERS), (READINGS, ROWS)):
        documents = sorted(documents, key=lambda d: d["_id"])
        ids = [d["_id"] for d in documents]
        assert store.reader.scan(Scan(kind, ids[7], 10)) == documents[7:17]
        assert store.reader.scan(Scan(kind, ids[-2], 10)) == documents[-2:]
        assert store.reader.scan(Scan(kind, ids[5] + b"\0", 2)) == documents[6:8]
        short = ids[9][:-2]
        assert (
            store.reader.scan(Scan(kind, short, 3))
            == [d for d in documents if d["_id"] >= short][:3]
        )
        assert store.reader.scan(Scan(kind, b"\xff" * 12, 3)) == []
        assert store.reader.scan(Scan(kind, ids[0], 0)) == []
    # Readings of one sensor are together, and in the order of time.
    assert store.reader.scan(Scan(READINGS, READINGS.pack((2, 0, 0)), 6)) == ROWS[12:18]


CONDITIONS = [
    (),
    (Where("mv", ">", 1.3),),
    (Where("mv", ">=", 1.1), Where("mv", "<", 7.5)),
    (Where("m", "=", 300), Where("s", "=", 7), Where("note", "=", "n300")),
    (Where("mv", "<=", 10**30), Where("bt", ">", 0.5)),
    (Where("note", ">", "n1"), Where("note", "<=", "n300")),
    (Where("_id", ">=", ROWS[5]["_id"]), Where("_id", "<", ROWS[9]["_id"])),
    (Where("_id", ">", ROWS[5]["_id"][:5]), Where("_id", "<=", ROWS[9]["_id"] + b"\0")),
    (Where("_id", "=", b"123"),),
    (Where("m", ">", 10**30),),
]


def fulfils(document: Document, where: tuple[Where, ...]) -> bool:
    compare = {
        "=": lambda a, b: a == b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b,
    }
    return all(
        document[one.field] is not None and compare[one.op](document[one.field], one.value)
        for one in where
    )


def by_id(documents: list[Document]) -> list[Document]:
    return sorted(documents, key=lambda d: d["_id"])


@pytest.mark.parametrize("where", CONDITIONS, ids=repr)
def test_conditions_are_answered(store: Store, where: tuple[Where, ...]) -> None:
    reader = store.reader
    if not (store.flags.finds or store.flags.scans):
        with pytest.raises(EngineError, match="its flags say so"):
            reader.find(Find(READINGS, where, "mv"))
        with pytest.raises(EngineError, match="its flags say so"):
            reader.histogram(Histogram(READINGS, "mv", 1, where))
        return
    expected = [row for row in ROWS if fulfils(row, where)]
    assert by_id(reader.find(Find(READINGS, where))) == by_id(expected)
    assert len(reader.find(Find(READINGS, where, limit=3))) == min(3, len(expected))
    assert reader.find(Find(READINGS, where, limit=0)) == []
    assert reader.count(Count(READINGS, where)) == len(expected)
    present = [row for row in by_id(expected) if row["mv"] is not None]
    up = sorted(present, key=lambda d: d["mv"])
    assert reader.find(Find(READINGS, where, "mv", limit=9)) == up[:9]
    down = sorted(present, key=lambda d: -d["mv"])
    assert reader.find(Find(READINGS, where, "mv", descending=True)) == down
    assert reader.find(Find(READINGS, where, "_id", descending=True)) == by_id(expected)[::-1]
    for width in (0.1, 0.5, 3):
        classes = Counter(class_of(row["mv"], width) for row in present)
        answer = reader.histogram(Histogram(READINGS, "mv", width, where))
        assert answer == classes
        assert {type(n) for pair in answer.items() for n in pair} <= {int}
    times = Counter(row["bt"] // 1000 for row in expected)
    assert reader.histogram(Histogram(READINGS, "bt", 1000, where)) == times


def class_of(value: float, width: float) -> int:
    """By the words of the contract."""
    return next(n for n in range(-1, 10_000) if n * width <= value < (n + 1) * width)


def test_conditions_that_cannot_be(store: Store) -> None:
    if not (store.flags.finds or store.flags.scans):
        with pytest.raises(EngineError, match="its flags say so"):
            store.reader.histogram(Histogram(READINGS, "mv", 1.0))
        return
    reader = store.reader
    for where in (
        Where("colour", "=", 1),
        Where("mv", "=", "x"),
        Where("note", "<", 5),
        Where("_id", "<", "text"),
        Where("mv", "~", 1),  # type: ignore[arg-type]
        Where("mv", "<", float("nan")),
    ):
        with pytest.raises(EngineError, match="readings"):
            reader.find(Find(READINGS, (where,)))
        with pytest.raises(EngineError, match="readings"):
            reader.count(Count(READINGS, (where,)))
    for name, width in (("note", 1.0), ("mv", 0.0), ("mv", -1.0), ("colour", 1.0)):
        with pytest.raises(EngineError, match="readings"):
            reader.histogram(Histogram(READINGS, name, width))
    with pytest.raises(EngineError, match="colour"):
        reader.find(Find(READINGS, (), "colour"))
    with pytest.raises(EngineError, match="limit"):
        reader.find(Find(READINGS, (), limit=-1))


def test_plans_name_what_is_read(store: Store) -> None:
    explain = store.reader.explain
    if not store.flags.explains:
        with pytest.raises(EngineError, match="its flags say so"):
            explain(Get(KEYED, USERS[0]["_id"]))
        return
    above = (Where("mv", ">", 7.0),)
    plans = {
        "get": explain(Get(KEYED, USERS[0]["_id"])),
        "scan": explain(Scan(READINGS, ROWS[0]["_id"], 50)),
        "range": explain(Find(READINGS, between("mv", 3.0))),
        "find": explain(Find(READINGS, above)),
        "count": explain(Count(READINGS, above)),
    }
    for verb, plan in plans.items():
        index = "IDHACK" if verb == "get" else "_id_" if verb == "scan" else "mv_1"
        assert index in plan and "COLLSCAN" not in plan, (verb, plan)
    assert "(7.0, inf.0]" in plans["find"]
    assert "COLLSCAN" in explain(Find(READINGS, (Where("note", "=", "n1"),)))
    assert "COLLSCAN" in explain(Top(READINGS, "note", 5))
    assert "SORT" in explain(Find(READINGS, above, order_by="note", limit=3))
    assert "IXSCAN mv_1" in explain(Histogram(READINGS, "mv", 0.5, above))
    assert not any("\n" in plan for plan in plans.values())


def test_owners_are_the_servers_own(store: Store) -> None:
    """The place of each key by the client's hash or table against the server's answer."""
    checks = {
        "mongodb": hashed_by_mongodb,
        "cassandra": tokens_of_cassandra,
        "hbase": regions_of_hbase,
        "riak": partitions_of_riak,
        "valkey": keys_of_valkey,
    }
    checks[store.name](store)
    if len(store.cluster.endpoints) > 1 and store.name == "valkey":
        return  # one server of several, each looked at
    for kind, documents in ((KEYED, USERS), (READINGS, ROWS)):
        for document in documents[:5]:
            assert store.reader.owner(kind, document["_id"]) == store.cluster.endpoints[-1].name


def hashed_by_mongodb(store: Store) -> None:
    from storewise.engines.contract.server import Credentials
    from storewise.engines.mongodb.cluster import as_user
    from storewise.engines.mongodb.sharding import hashed_id, hashed_text

    assert store.cluster.credentials is not None
    secrets = Credentials.read(store.cluster.credentials)
    hashed = [{"$project": {"h": {"$toHashedIndexKey": "$_id"}}}]
    with as_user(store.cluster.endpoints[0], secrets, 5.0) as connection:
        for row in connection.storewise.usertable.aggregate(hashed):
            assert row["h"] == hashed_text(row["_id"].encode())
        for row in connection.storewise.readings.aggregate(hashed):
            assert row["h"] == hashed_id(row["_id"].binary)


def tokens_of_cassandra(store: Store) -> None:
    from cassandra.metadata import Murmur3Token

    from storewise.engines.cassandra.cluster import query
    from storewise.engines.contract.server import Credentials

    assert store.cluster.credentials is not None
    secrets = Credentials.read(store.cluster.credentials)

    def ask(cql: str) -> list[tuple[Any, ...]]:
        return query(store.cluster.endpoints[0], secrets.user, secrets.password, cql)

    rows = [(KEYED, *row) for row in ask('SELECT "_id", token("_id") FROM storewise.usertable')]
    readings = ask("SELECT m, s, bt, token(m, s) FROM storewise.readings")
    rows += [(READINGS, READINGS.pack(row[:3]), row[3]) for row in readings]
    assert len(rows) == len(USERS) + len(ROWS)
    for kind, key, token in rows:
        routing = store.reader.routing_key(kind, key)  # type: ignore[attr-defined]
        assert Murmur3Token.from_key(routing).value == token


def regions_of_hbase(store: Store) -> None:
    """Where the regions are is the server's own answer; keys are spread over them."""
    from storewise.engines.hbase.connection import Link

    link = Link(next(e for e in store.cluster.endpoints if e.role == "thrift"), 30.0)
    starts: dict[Kind, list[bytes]] = {}
    try:
        for kind in BOTH:
            name = kind.table.encode()
            result = link.call("look", lambda c, n=name: c.getAllRegionLocations(n))  # type: ignore[misc]
            starts[kind] = sorted(region.regionInfo.startKey or b"" for region in result)
    finally:
        link.close()
    # Two regions a server, about half of the keys in each; of readings nothing is known.
    assert starts == {KEYED: [b"", *split_points(KEYED, 2)], READINGS: [b""]}
    below = sum(user["_id"] < starts[KEYED][1] for user in USERS)
    assert len(USERS) // 3 < below < len(USERS) * 2 // 3


def keys_of_valkey(store: Store) -> None:
    """Each server has the keys of its documents, and nothing else but the schema on the first."""
    from storewise.engines.contract.server import Credentials
    from storewise.engines.valkey.connection import Links
    from storewise.engines.valkey.launch import user_of
    from storewise.engines.valkey.slots import tag_of

    assert store.cluster.credentials is not None
    endpoints = store.cluster.endpoints
    links = Links(endpoints, *user_of(Credentials.read(store.cluster.credentials)), 10.0)
    for server, endpoint in enumerate(endpoints):
        _, keys = links.ask(server, (b"SCAN", b"0", b"COUNT", 10_000))[0]
        tag = tag_of(server, len(endpoints))
        expected = {tag + b":schema"} if server == 0 else set()
        for kind, documents in ((KEYED, USERS), (READINGS, ROWS)):
            table = tag + kind.table.encode()
            ids = [d["_id"] for d in documents]
            mine = [i for i in ids if store.reader.owner(kind, i) == endpoint.name]
            expected |= {table, *(table + b":" + i for i in mine)}
        assert set(keys) == expected
    links.close()


def partitions_of_riak(store: Store) -> None:
    """The client itself refuses an answer with another partition than its hash gives."""
    for user in USERS:
        assert store.reader.owner(KEYED, user["_id"]) == "data0"


def test_tables_of_another_workload_are_not_taken_for_ours(store: Store) -> None:
    other = Kind("other", (Field("_id", "key", "a key"), Field("f", "str", "text")))
    with pytest.raises(EngineError, match=r"other was never created|another workload: usertable"):
        connect(replace(store.cluster, kinds=(other,)), "read").get(other, b"1")


@pytest.mark.all_cells
@pytest.mark.long("it waits for a scheduler or for servers", limit=1500)
@pytest.mark.parametrize("key", ["hashed", "ranged"])
def test_keys_on_the_shards_of_mongodb(key: str, tmp_path: Path) -> None:
    """Where the routing table has a key, there it is."""
    from support.servers.local import running
    from support.servers.mongodb_binaries import emulated

    from storewise.engines.contract.server import Credentials, Topology
    from storewise.engines.mongodb.cluster import as_system

    settings = {"home": str(emulated()), "shard_key": key}
    shape = Topology(nodes=3, routers=1, memory_mb=512)
    schema = Schema(BOTH)
    with running("mongodb", tmp_path, shape, settings, schema=schema) as result:
        cluster = replace(result.cluster, kinds=BOTH)
        writer = loaded(cluster)
        for kind, documents in ((KEYED, USERS), (READINGS, ROWS)):
            content: dict[str, set[Any]] = {}
            assert cluster.credentials is not None
            secrets = Credentials.read(cluster.credentials)
            for endpoint in cluster.endpoints:
                if endpoint.role == "data":
                    with as_system(endpoint, secrets, 30.0) as connection:
                        ids = connection.storewise[kind.table].find({}, {"_id": 1})
                        content[endpoint.name] = {row["_id"] for row in ids}
            owners = Counter(writer.owner(kind, document["_id"]) for document in documents)
            assert owners == {name: len(ids) for name, ids in content.items() if ids}
            if kind is KEYED:
                assert min(owners.values()) > 40 and len(owners) == 3
            ordered = by_id(documents)
            thread = writer.for_thread()
            assert thread.scan(Scan(kind, b"", 999)) == ordered
            assert thread.get_many(kind, [d["_id"] for d in documents]) == documents
        assert writer.count(Count(READINGS, CONDITIONS[1])) == sum(
            fulfils(row, CONDITIONS[1]) for row in ROWS
        )
        assert "IXSCAN mv_1" in writer.explain(Find(READINGS, CONDITIONS[1]))
        writer.close()
