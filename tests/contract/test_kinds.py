"""Kinds of other workloads in every store: ids that are texts, composite keys, conditions, plans.

What a store answers itself is asked with every case; where the client answers from a scan, which
unit tests look at, the first one is enough.
"""

import math
import pkgutil
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from operator import eq, ge, gt, itemgetter, le, lt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.servers.samples import holds, secrets_of
from support.servers.stores import SERVERS, STANDIN, Target, cells, marks_of

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Client, Cluster, Schema
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
from storewise.errors import EngineError

USERS = Kind(
    "usertable", (Field("_id", "key", ""), *(Field(f"field{n}", "str", "") for n in range(10)))
)
TYPES = {"m": "int", "s": "int", "bt": "int", "et": "int", "mv": "int", "x": "float", "name": "str"}
MEASURES = Kind(
    "measures",
    (Field("_id", "id", ""), *(Field(name, type_, "") for name, type_ in TYPES.items())),
    key=(("m", 2), ("s", 2), ("bt", 8)),
)
KINDS = (USERS, MEASURES)
OPERATORS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


def _measure(m, s, bt, mv, x, name):
    key = {"_id": MEASURES.pack((m, s, bt)), "m": m, "s": s, "bt": bt}
    return {**key, "et": bt + 7, "mv": mv, "x": x, "name": name}


def _user(key, text="x"):
    return {"_id": key, **{f"field{f}": f"{text}é{f}" * (f % 3) for f in range(10)}}


def _documents():
    draw = random.Random(5)
    numbers = [-1000, -7, 0, 1, 2, 3, 1000, 1 << 60]
    fractions = [-0.3, 0.0, 0.3, 1.5, 2.0, 1e25]
    measures = [
        _measure(
            draw.choice([0, 1, 3, 255, 256, 65535]),
            draw.randrange(3),
            n if n % 3 else (1 << 40) + n,
            draw.choice([*numbers, n]) if n % 11 else None,
            draw.choice([*fractions, draw.random() * 9]) if n % 7 else None,
            draw.choice(["a", "B", "b", "é", "abc", ""]) if n % 5 else None,
        )
        for n in range(400)
    ]
    # As YCSB has them, and some of other lengths.
    numbers = [
        draw.randrange(1 << (63 if n < 120 else 8 * draw.randrange(1, 7))) for n in range(150)
    ]
    users = [_user(b"user%d" % (number + n), str(n)) for n, number in enumerate(numbers)]
    users[0]["_id"], users[1]["_id"] = b"u", b"u" * 64
    return {USERS: users, MEASURES: measures}


DOCUMENTS = _documents()
BY_ID = {kind: sorted(found, key=itemgetter("_id")) for kind, found in DOCUMENTS.items()}

SQL = ("sqlite", "duckdb", "chdb", "parquet", "postgres", "mariadb", "sql")
#: 2 "nodes" of an embedded engine are two stores that one reader has open.
TARGETS = [
    *(Target(name, n) for name in ("sqlite", "duckdb", "chdb", "parquet") for n in (0, 2)),
    Target("parquet", 2, (("reader", "pyarrow"),)),
    *SERVERS,
    STANDIN,
]
WRITING = [target for target in TARGETS if target in SERVERS or not target.nodes]


@dataclass
class Store:
    """A store with `DOCUMENTS`; what a test changes is its own."""

    target: Target
    cluster: Cluster
    reader: Client
    writer: Client | None

    @property
    def flags(self):
        return engine(self.target.name).flags

    @property
    def answers(self):
        """Whether conditions are answered: by the store, or from a scan."""
        return self.flags.finds or self.flags.scans

    def some(self, cases):
        return cases if self.flags.finds else cases[:1]

    def refuses(self, *verbs):
        for verb in verbs:
            with pytest.raises(EngineError, match="its flags say so"):
                verb()


def connect(cluster, mode):
    """Every engine takes dicts, whatever it likes best."""
    return engine(cluster.engine).connect(cluster, mode)


def _schema(name, index_time="after"):
    if not engine(name).flags.secondary_indexes:
        return Schema(kinds=KINDS)
    return Schema(kinds=KINDS, indexes=((MEASURES, "mv"),), index_time=index_time)


def _fresh(target, clusters, directory):
    if target in SERVERS:
        return replace(clusters.fresh(target), kinds=KINDS)
    return target.embedded(directory / "store", kinds=KINDS)


def _loaded(cluster, part=slice(None)):
    client = connect(cluster, "write")
    schema = _schema(cluster.engine)
    client.create(schema)
    for kind, documents in DOCUMENTS.items():
        some = documents[part]
        for start in range(0, len(some), 90):
            client.insert(kind, some[start : start + 90])
    client.create(schema)  # what is there stays
    client.finish()
    return client


@pytest.fixture(scope="module", params=cells(TARGETS))
def store(request, tmp_path_factory):
    """One that was written by the client that reads it, or by another one; or a reader of two."""
    target = request.param
    directory = tmp_path_factory.mktemp("kinds")
    writer = None
    if not target.nodes:
        cluster = target.embedded(directory / "store", kinds=KINDS)
        writer = reader = _loaded(cluster)
    elif engine(target.name).flags.embedded:
        places = (directory / "first", directory / "second")
        for path, part in zip(places, (slice(0, None, 2), slice(1, None, 2)), strict=True):
            _loaded(target.embedded(path, kinds=KINDS), part).close()
        cluster = target.embedded(*places, kinds=KINDS)
        reader = connect(cluster, "read")
    else:
        cluster = replace(request.getfixturevalue("clusters").fresh(target), kinds=KINDS)
        writer = _loaded(cluster)
        reader = connect(cluster, "read")
    yield Store(target, cluster, reader, writer)
    reader.close()
    if writer is not None:
        writer.close()


def _fulfils(document, where):
    return all(
        document[w.field] is not None and OPERATORS[w.op](document[w.field], w.value) for w in where
    )


def _ordered(documents, name, descending):
    known = [d for d in documents if d[name] is not None]
    known.sort(key=itemgetter("_id"))
    return sorted(known, key=itemgetter(name), reverse=descending)


def _class(x, width):
    n = math.floor(x / width)
    return n - 1 if n * width > x else n + 1 if (n + 1) * width <= x else n


def _same(result, expected):
    return sorted(result, key=itemgetter("_id")) == sorted(expected, key=itemgetter("_id"))


def test_documents_come_back_by_their_ids(store):
    for kind, documents in DOCUMENTS.items():
        ids = [d["_id"] for d in documents]
        for client in (store.reader, store.writer or store.reader):
            assert holds(client, kind, len(documents))
            assert client.get_many(kind, [*ids, ids[0]]) == [*documents, documents[0]]
            for document in documents[:5]:
                result = client.get(kind, document["_id"])
                assert result == document
                assert all(type(result[name]) is type(document[name]) for name in document)
    for kind, missing in (
        (USERS, b"nobody"),
        (USERS, b"user"),
        (MEASURES, MEASURES.pack((7, 7, 7))),
        (MEASURES, b"short"),
        (MEASURES, DOCUMENTS[MEASURES][0]["_id"] + b"\0"),
        (MEASURES, b"\xff" * 12),
    ):
        there = DOCUMENTS[kind][3]
        assert store.reader.get(kind, missing) is None
        request = [missing, there["_id"], missing]
        assert store.reader.get_many(kind, request) == [None, there, None]


def test_scans_go_in_the_order_of_ids(store):
    if not store.flags.scans:
        return store.refuses(lambda: store.reader.scan(Scan(USERS, b"user", 5)))
    for kind in KINDS:
        ids = [d["_id"] for d in BY_ID[kind]]
        for start in (ids[0], ids[40], ids[-1], ids[40] + b"\1", ids[7][:-1], b"\0", b"zz",
                      b"\xff" * 12):  # fmt: skip
            expected = [d for d in BY_ID[kind] if d["_id"] >= start]
            assert store.reader.scan(Scan(kind, start, 12)) == expected[:12], start
        assert store.reader.scan(Scan(kind, ids[3], 0)) == []
        assert store.reader.scan(Scan(kind, ids[0], 10_000)) == BY_ID[kind]


VALUES = {
    "mv": [-7, 0.5, -6.5, 1 << 60, float(1 << 60), math.inf, -math.inf],
    "m": [255, 255.0, 254.5, 1e30, -(1 << 70)],
    "x": [0, 2, 10**20, 0.3, 0.1 + 0.2, (1 << 53) + 1, math.inf, -math.inf, 10**400],
    "name": ["b", "", "é", "zz"],
    "_id": [DOCUMENTS[MEASURES][9]["_id"], b"", b"\0\1", b"\xff" * 14],
}


def test_each_operator_compares_as_python_does(store):
    reader = store.reader
    if not store.answers:
        return store.refuses(lambda: reader.find(Find(MEASURES, (Where("mv", "<", 1),), "x")))
    for name, values in VALUES.items():
        for where in [(Where(name, op, v),) for v in store.some(values) for op in OPERATORS]:
            expected = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
            assert reader.count(Count(MEASURES, where)) == len(expected), where
            assert _same(reader.find(Find(MEASURES, where)), expected), where
    for operator in OPERATORS:
        where = (Where("_id", operator, BY_ID[USERS][70]["_id"]),)
        expected = [d for d in DOCUMENTS[USERS] if _fulfils(d, where)]
        assert _same(reader.find(Find(USERS, where)), expected)
    where = (Where("m", "=", 255), Where("s", "<", 2), Where("name", ">", "a"), Where("x", "<", 9))
    expected = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
    assert expected and _same(reader.find(Find(MEASURES, where)), expected)


def test_order_limit_and_ties(store):
    """Few values of a field are shared by many documents, so that most places are ties."""
    if not store.answers:
        return
    cases = [(n, d) for n in ("mv", "x", "name", "m", "_id") for d in (False, True)]
    for name, descending in store.some(cases):
        for where in ((), (Where("m", ">", 1), Where("x", "<=", 1.5))):
            every = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
            expected = _ordered(every, name, descending)
            for limit in (0, 1, 37, None):
                result = store.reader.find(Find(MEASURES, where, name, descending, limit))
                assert result == expected[:limit]
    expected = _ordered(DOCUMENTS[USERS], "field4", False)[:9]
    assert store.reader.find(Find(USERS, (), "field4", limit=9)) == expected
    # Without an order.
    every = [d for d in DOCUMENTS[MEASURES] if d["m"] >= 3]
    result = store.reader.find(Find(MEASURES, (Where("m", ">=", 3),), limit=50))
    assert len(result) == len({document["_id"] for document in result}) == 50
    assert all(document in every for document in result)
    assert _same(store.reader.find(Find(MEASURES)), DOCUMENTS[MEASURES])
    assert store.reader.count(Count(MEASURES, ())) == len(DOCUMENTS[MEASURES])


def test_histograms_and_aggregates(store):
    reader, where = store.reader, (Where("mv", "<", 1 << 50), Where("x", "<", 60000))
    if not store.answers:
        return store.refuses(lambda: reader.histogram(Histogram(MEASURES, "mv", 1, where)))
    cases = [
        ("mv", 3), ("mv", 1000.0), ("mv", 0.5), ("x", 0.1), ("x", 1), ("x", 0.3), ("bt", 1 << 40)
    ]  # fmt: skip
    for name, width in store.some(cases):
        every = [d for d in DOCUMENTS[MEASURES] if d[name] is not None and _fulfils(d, where)]
        exact = isinstance(every[0][name], int) and width == int(width)
        expected = Counter(
            d[name] // int(width) if exact else _class(d[name], width) for d in every
        )
        result = reader.histogram(Histogram(MEASURES, name, width, where))
        assert result == dict(expected)
        assert {type(n) for pair in result.items() for n in pair} <= {int}
    for kind, name in ((MEASURES, "mv"), (MEASURES, "m"), (MEASURES, "name"), (USERS, "field1")):
        counted = Counter(d[name] for d in DOCUMENTS[kind] if d[name] is not None)
        expected_top = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:5]
        assert reader.top(Top(kind, name, 5)) == expected_top


WRONG_CONDITIONS = [
    ("nothing", "=", 1), ("mv", "=", "1"), ("mv", "=", True), ("x", "<", math.nan),
    ("name", ">", 1.0), ("_id", ">", "text"), ("mv", "!=", 1),
]  # fmt: skip
WRONG_QUESTIONS = [
    *(
        lambda c, where=where: c.find(Find(MEASURES, (Where(*where),)))
        for where in WRONG_CONDITIONS
    ),
    lambda c: c.find(Find(USERS, (Where("_id", ">", "text"),))),
    lambda c: c.find(Find(MEASURES, (), "nothing")),
    lambda c: c.count(Count(MEASURES, (Where("nothing", "=", 1),))),
    lambda c: c.histogram(Histogram(MEASURES, "name", 1)),
    lambda c: c.histogram(Histogram(MEASURES, "nothing", 1.0)),
    lambda c: c.explain(Find(MEASURES, (Where("nothing", "=", 1),))),
]


def test_wrong_questions_are_refused(store):
    for ask in WRONG_QUESTIONS:
        with pytest.raises(EngineError):
            ask(store.reader)
    if store.target.name in SQL:
        with pytest.raises(EngineError):
            store.reader.histogram(Histogram(MEASURES, "x", 1e-300))


def test_plans_are_told(store):
    explain, document = store.reader.explain, DOCUMENTS[MEASURES][5]
    if not store.flags.explains:
        return store.refuses(lambda: explain(Get(MEASURES, document["_id"])))
    above = (Where("mv", ">", 5),)
    plans = [
        explain(query)
        for query in (
            Get(MEASURES, document["_id"]),
            Scan(MEASURES, document["_id"], 3),
            Find(MEASURES, between("mv", 1, 2)),
            Find(MEASURES, above),
            Count(MEASURES, above),
            Histogram(MEASURES, "mv", 10, above),
            Find(MEASURES, above, "x", True, 3),
            Top(MEASURES, "m", 3),
            Find(MEASURES, where=(), order_by="mv", limit=1),
            Find(MEASURES, (Where("name", "=", "a"),)),
        )
    ]
    if store.target.name != "mongodb":
        assert all("measures" in p or (p and store.target.name == "parquet") for p in plans), plans
        return
    assert not any("\n" in plan for plan in plans)
    for plan, index in zip(plans, ("IDHACK", "_id_", *["mv_1"] * 4), strict=False):
        assert index in plan and "COLLSCAN" not in plan, plan
    assert "(5, inf.0]" in plans[3] and "SORT" in plans[6]
    assert "COLLSCAN" in plans[7] and "COLLSCAN" in plans[9]


def _updates_nothing(client, kind, document_id, changes):
    """Of a document that is not there; a store that does not tell keeps what was set."""
    told = client.update(kind, document_id, changes)
    assert not told
    if told is None:
        client.delete(kind, document_id)


def test_writes_by_text_and_composite_ids(store):
    writer = store.writer
    if writer is None or not store.flags.updates:
        return
    for kind, one, changes in (
        (USERS, _user(b"user-new"), {"field3": "new", "field9": "é"}),
        (MEASURES, _measure(65535, 3, 1 << 62, 5, 0.5, "x"), {"mv": None, "name": "n"}),
    ):
        key, last = one["_id"], kind.fields[-1].name
        writer.insert(kind, [one])
        assert writer.get(kind, key) == one
        writer.insert(kind, [{**one, last: "first"}, {**one, last: "last"}])
        assert writer.get(kind, key) == {**one, last: "last"}
        assert writer.update(kind, key, changes) is not False
        assert writer.get(kind, key) == {**one, last: "last", **changes}
        assert holds(writer, kind, len(DOCUMENTS[kind]) + 1)
        wrong = [{}, {"_id": key}, {"colour": "red"}]
        for change in [*wrong, *({name: 1} for name, _ in kind.key)]:
            with pytest.raises(EngineError):
                writer.update(kind, key, change)
        assert writer.delete(kind, key)
        assert not writer.delete(kind, key)
        _updates_nothing(writer, kind, key, changes)
        assert writer.get(kind, key) is None
        assert holds(writer, kind, len(DOCUMENTS[kind]))
    # An empty id is none to ask HBase for.
    for absent in (MEASURES.pack((9, 9, 9)), b"\xff" * 12, *([b""] if store.flags.finds else [])):
        _updates_nothing(writer, MEASURES, absent, {"mv": 1})
        assert not writer.delete(MEASURES, absent)
    # Many at once, some of them twice, and as they were.
    some = DOCUMENTS[MEASURES][:60]
    changed = [{**d, "mv": 4, "x": 0.5} for d in some]
    writer.insert(MEASURES, [*changed[:30], *changed, *changed[:5]])
    assert writer.get_many(MEASURES, [d["_id"] for d in changed]) == changed
    writer.insert(MEASURES, some)
    assert holds(writer, MEASURES, len(DOCUMENTS[MEASURES]))
    # Keys may have 64 bytes of any ASCII.
    odd = [_user(key) for key in (b"x" * 64, b"~ /\\'\"%$.", b"\x7f\x01", b"0")]
    ids = [d["_id"] for d in odd]
    writer.insert(USERS, odd)
    assert writer.get_many(USERS, ids) == odd
    if store.flags.scans:
        every = sorted([*DOCUMENTS[USERS], *odd], key=itemgetter("_id"))
        assert writer.scan(Scan(USERS, b"\x01", 1000)) == every
    assert all(writer.delete(USERS, key) for key in ids)


#: Where a driver sends a request.
SENDS = {
    "cassandra": "cassandra.cluster.ResponseFuture.send_request",
    "hbase": "thriftpy2.thrift.TClient._send",
    "riak": "storewise.engines.riak.connection.Link._ask",
    "valkey": "valkey.connection.AbstractConnection.send_packed_command",
}


def test_an_update_is_one_request(store, monkeypatch):
    """Of all fields in Riak, which keeps whole records; more often only by happybase."""
    place, by = SENDS.get(store.target.name), dict(store.target.settings)
    if place is None or by.get("gateway") == "happybase" or by.get("layout") == "json":
        return
    target, name = place.rsplit(".", 1)
    send, sent = getattr(pkgutil.resolve_name(target), name), []

    def counted(self, *args, **options):
        sent.append(name)
        return send(self, *args, **options)

    old = DOCUMENTS[USERS][7]
    changes = {name: "é" for name in old if name != "_id"}
    few = changes if store.target.name == "riak" else {"field0": "é"}
    store.writer.update(USERS, old["_id"], few)  # prepares the statement
    monkeypatch.setattr(pkgutil.resolve_name(target), name, counted)
    assert store.writer.update(USERS, old["_id"], few) is not False
    monkeypatch.undo()
    assert sent == [name]
    assert store.writer.get(USERS, old["_id"]) == {**old, **few}
    store.writer.insert(USERS, [old])


#: Stores would keep some of them, and change others without a word.
WRONG_TYPES = [("mv", "text"), ("mv", 1.5), ("mv", True), ("x", "text"), ("name", 5)]
WRONG = [
    *((USERS, {"_id": key}) for key in (b"", b"u" * 65, "text", "é".encode(), None)),
    (USERS, {"field10": "more"}),
    *((MEASURES, wrong) for wrong in ({"m": 2}, {"m": 70000}, {"bt": None}, {"s": "1"})),
    *((MEASURES, wrong) for wrong in ({"_id": b"short"}, {"more": 1})),
    *((MEASURES, {name: value}) for name, value in WRONG_TYPES),
    *((USERS, wrong) for wrong in ({"field1": 5}, {"field1": b"x"})),
]


def test_wrong_documents_are_refused(store):
    writer = store.writer
    if writer is None or not store.flags.deletes:
        return
    good = {USERS: _user(b"user-good"), MEASURES: _measure(77, 1, 1, 1, 0.5, "x")}
    for kind, wrong in WRONG:
        document = {**DOCUMENTS[kind][3], **wrong}
        with pytest.raises(EngineError, match=f"{kind.table}|{document['_id']!r}"):
            writer.insert(kind, [good[kind], document])
    for kind, field in ((MEASURES, "m"), (MEASURES, "x"), (USERS, "field1")):
        lacking = {name: value for name, value in good[kind].items() if name != field}
        with pytest.raises(EngineError, match=f"lacks the field '{field}'"):
            writer.insert(kind, [lacking])
    there = DOCUMENTS[MEASURES][3]
    for name, value in WRONG_TYPES if store.flags.updates else ():
        assert writer.update(MEASURES, there["_id"], {name: there[name]}) is not False
        with pytest.raises(EngineError, match=rf"measures\.{name} is of type .* cannot hold"):
            writer.update(MEASURES, there["_id"], {name: value})
    for kind in KINDS:
        assert holds(store.reader, kind, len(DOCUMENTS[kind]))
        assert store.reader.get(kind, good[kind]["_id"]) is None


def _hashed_by_mongodb(store):
    from storewise.engines.mongodb.cluster import as_user
    from storewise.engines.mongodb.sharding import hashed_id, hashed_text

    secrets = secrets_of(store.cluster)
    hashed = [{"$project": {"h": {"$toHashedIndexKey": "$_id"}}}]
    with as_user(store.cluster.endpoints[0], secrets, 5.0) as connection:
        for row in connection.storewise.usertable.aggregate(hashed):
            assert row["h"] == hashed_text(row["_id"].encode())
        for row in connection.storewise.measures.aggregate(hashed):
            assert row["h"] == hashed_id(row["_id"].binary)
    _all_on_one(store)


def _tokens_of_cassandra(store):
    from cassandra.metadata import Murmur3Token

    from storewise.engines.cassandra.cluster import query

    secrets = secrets_of(store.cluster)

    def ask(cql):
        return query(store.cluster.endpoints[0], secrets.user, secrets.password, cql)

    rows = [(USERS, *row) for row in ask('SELECT "_id", token("_id") FROM storewise.usertable')]
    measures = ask("SELECT m, s, bt, token(m, s) FROM storewise.measures")
    rows += [(MEASURES, MEASURES.pack(row[:3]), row[3]) for row in measures]
    assert len(rows) == sum(map(len, DOCUMENTS.values()))
    for kind, key, token in rows:
        routing = store.reader.routing_key(kind, key)
        assert Murmur3Token.from_key(routing).value == token
    _all_on_one(store)


def _keys_of_valkey(store):
    """Each server has the keys of its documents, and nothing else but the schema on the first."""
    from storewise.engines.valkey.connection import Links
    from storewise.engines.valkey.launch import user_of
    from storewise.engines.valkey.slots import tag_of

    endpoints = store.cluster.endpoints
    links = Links(endpoints, *user_of(secrets_of(store.cluster)), 10.0)
    for server, endpoint in enumerate(endpoints):
        keys = list(links.servers[server].scan_iter(count=1000))
        tag = tag_of(server, len(endpoints))
        expected = {tag + b":schema"} if server == 0 else set()
        for kind, documents in DOCUMENTS.items():
            table = tag + kind.table.encode()
            ids = [d["_id"] for d in documents]
            mine = [i for i in ids if store.reader.owner(kind, i) == endpoint.name]
            expected |= {table, *(table + b":" + i for i in mine)}
            assert len(mine) > len(ids) / len(endpoints) / 2
        assert set(keys) == expected
    links.close()


def _all_on_one(store):
    """The client of Riak refuses an answer with another partition than its hash gives."""
    for kind, documents in DOCUMENTS.items():
        for document in documents[:50]:
            assert store.reader.owner(kind, document["_id"]) == store.cluster.endpoints[-1].name


OWNERS = {
    "mongodb": _hashed_by_mongodb,
    "cassandra": _tokens_of_cassandra,
    "hbase": _all_on_one,
    "riak": _all_on_one,
    "valkey": _keys_of_valkey,
}


def test_owners_are_the_servers_own(store):
    """The place of each key by the client's hash or table against the server's answer."""
    if store.target.name in OWNERS:
        OWNERS[store.target.name](store)


def test_tables_of_another_workload_are_not_taken_for_ours(store):
    name = store.target.name
    if store.target in SERVERS and name != "sql":
        other, words = MEASURES, "tables of another workload: usertable; this one has"
        if name not in SQL:
            other = Kind("other", (Field("_id", "key", "a key"), Field("f", "str", "text")))
            words = r"other was never created|another workload: usertable"
        with pytest.raises(EngineError, match=words):
            connect(replace(store.cluster, kinds=(other,)), "read").get(other, b"1")
    elif name == "sqlite" or (store.writer is None and name != "chdb"):
        other = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))
        cluster = replace(store.cluster, kinds=(other, MEASURES))
        with pytest.raises(EngineError, match="usertable has the columns _id, field0, field1"):
            connect(cluster, "read")
        if store.writer is not None:
            words = "usertable has the columns _id, field0, field1"
            refused = pytest.raises(EngineError, match=words)
            with closing(connect(cluster, "write")) as client, refused:
                client.create(Schema(kinds=(other,)))


# From here on each test has a store of its own: what `store` has loaded is gone.


@pytest.mark.parametrize("target", cells(t for t in WRITING if t.name not in ("parquet", "riak")))
def test_a_later_phase_goes_on_with_the_store(target, clusters, tmp_path):
    """A phase that changes the store is another process: it connects, creates, changes, ends."""
    cluster = _fresh(target, clusters, tmp_path)
    flags = engine(target.name).flags
    _loaded(cluster).close()
    for turn in range(2):
        client = connect(cluster, "write")
        client.create(_schema(target.name))

        def change(n, first=client, turn=turn):
            session = first.open_thread()
            user, measure = DOCUMENTS[USERS][10 + n], DOCUMENTS[MEASURES][10 + n]
            assert session.update(USERS, user["_id"], {"field0": f"turn {turn}"}) is not False
            assert session.get(USERS, user["_id"]) == {**user, "field0": f"turn {turn}"}
            new = _measure(9, turn, n, 5, 0.25, "new")
            session.insert(MEASURES, [new])
            if flags.scans:
                assert session.scan(Scan(MEASURES, new["_id"], 1)) == [new]
            assert session.get(MEASURES, measure["_id"]) == measure
            if n % 2 == 0:
                assert session.delete(MEASURES, new["_id"])
            if target.name in SQL:
                session.close()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(change, range(8)))
        client.finish()
        client.close()
    client = connect(cluster, "read" if target not in SERVERS else "write")
    assert holds(client, MEASURES, len(DOCUMENTS[MEASURES]) + 2 * 4)
    if flags.finds:
        assert client.find(Find(MEASURES, (Where("m", "=", 9),), "bt", limit=2)) == [
            _measure(9, turn, 1, 5, 0.25, "new") for turn in range(2)
        ]
    client.close()


#: What a plan says where it takes the primary key (DuckDB leaves blocks out instead).
PRIMARY = {
    "sqlite": "USING PRIMARY KEY",
    "postgres": "measures_pkey",
    "mariadb": "key=PRIMARY",
    "chdb": " Keys:\n",
}


def _indexed():
    """Plans of databases behind `sql` are not ours; more servers repeat the first one."""
    for target in WRITING:
        for time in ("none", "before", "after"):
            if target.name in (*PRIMARY, "duckdb") and (target.nodes < 2 or time == "after"):
                marks = [*marks_of(target), *[pytest.mark.slow] * (time != "after")]
                yield pytest.param(target, time, marks=marks, id=f"{target}-{time}")


@pytest.mark.parametrize(("target", "index_time"), _indexed())
def test_a_selective_condition_takes_the_index(target, index_time, clusters, tmp_path):
    client = connect(_fresh(target, clusters, tmp_path), "write")
    client.create(_schema(target.name, index_time))
    documents = [_measure(1, 2, n, n, None, None) for n in range(6000)]
    for start in range(0, len(documents), 2000):
        client.insert(MEASURES, documents[start : start + 2000])
    client.finish()
    few, most = (Where("mv", ">", 5995.5),), (Where("mv", ">", -3),)
    named = "Index Scan" if target.name == "duckdb" else "measures_mv"
    for query in (Find(MEASURES, few), Count(MEASURES, few)):
        plan = client.explain(query)
        assert (named in plan) == (index_time != "none"), plan
    if target.name in ("postgres", "duckdb") or (
        target.name == "mariadb" and ("layout", "columns") in target.settings
    ):
        # The values count: nearly all rows are read without it.
        assert named not in client.explain(Find(MEASURES, most))
    assert client.count(Count(MEASURES, few)) == 4
    if target.name in PRIMARY and ("layout", "json") not in target.settings:
        start = documents[5900]["_id"]
        for plan in map(client.explain, (Get(MEASURES, start), Scan(MEASURES, start, 3))):
            assert PRIMARY[target.name] in plan
    client.close()


_INTEGERS = st.integers(-20, 20) | st.integers(-(1 << 63), (1 << 63) - 1)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, 0.3, 1e16, -2.5])
_VALUES = st.none() | _INTEGERS, st.none() | _FLOATS | st.integers(-30, 30).map(lambda n: n * 0.1)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    place = tmp_path_factory.mktemp("property") / "store"
    cluster = Cluster(engine="sqlite", stores=(place,), consistency="relaxed", kinds=KINDS)
    client = connect(cluster, "write")
    client.create(_schema("sqlite", "before"))
    yield client
    client.close()


@given(
    rows=st.lists(st.tuples(*_VALUES), max_size=12),
    where=st.builds(
        Where, st.sampled_from(["mv", "x"]), st.sampled_from(sorted(OPERATORS)), _INTEGERS | _FLOATS
    ),
    descending=st.booleans(),
    limit=st.none() | st.integers(0, 5),
    width=st.integers(1, 50) | st.floats(0.01, 100.0),
)
@example([(2**53 + 1, 9007199254740992.0)], Where("x", "<", 2**53 + 1), False, None, 1)
@example([(-(2**63), 1.1)], Where("mv", ">", -(2**63) - 1), True, 1, 7)
def test_any_question_is_answered_as_python_would(scratch, rows, where, descending, limit, width):
    documents = [_measure(1, 2, n, mv, x, None) for n, (mv, x) in enumerate(rows)]
    for document in scratch.find(Find(MEASURES)):
        scratch.delete(MEASURES, document["_id"])
    scratch.insert(MEASURES, documents)
    expected = [d for d in documents if _fulfils(d, (where,))]
    assert scratch.count(Count(MEASURES, (where,))) == len(expected)
    ordered = _ordered(expected, "x", descending)
    assert scratch.find(Find(MEASURES, (where,), "x", descending, limit)) == ordered[:limit]
    small = (Where("x", ">=", -1e6), Where("x", "<=", 1e6))
    counted = Counter(_class(d["x"], width) for d in documents if _fulfils(d, small))
    assert scratch.histogram(Histogram(MEASURES, "x", width, small)) == counted
    if width == int(width):
        counted = Counter(d["mv"] // int(width) for d in documents if d["mv"] is not None)
        assert scratch.histogram(Histogram(MEASURES, "mv", width)) == counted
