"""Kinds of other workloads in SQL stores: ids that are texts, composite keys, conditions, plans."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from operator import eq, ge, gt, itemgetter, le, lt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.servers import stores
from support.servers.samples import connect
from support.servers.stores import SINGLE, Clusters, Target, cell, cells

from storewise.documents import Document, Field, Kind
from storewise.engines.contract.engine import Client, Cluster, IndexTime, Schema
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
    "usertable",
    (Field("_id", "key", ""), *(Field(f"field{n}", "str", "") for n in range(10))),
)
MEASURES = Kind(
    "measures",
    (
        Field("_id", "id", ""),
        Field("m", "int", ""),
        Field("s", "int", ""),
        Field("bt", "int", ""),
        Field("et", "int", ""),
        Field("mv", "int", ""),
        Field("x", "float", ""),
        Field("name", "str", ""),
    ),
    key=(("m", 2), ("s", 2), ("bt", 8)),
)
KINDS = (USERS, MEASURES)
OPERATORS: dict[Any, Callable[[Any, Any], bool]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


def _measure(
    m: int, s: int, bt: int, mv: int | None, x: float | None, name: str | None
) -> Document:
    key = {"_id": MEASURES.pack((m, s, bt)), "m": m, "s": s, "bt": bt}
    return {**key, "et": bt + 7, "mv": mv, "x": x, "name": name}


def _documents() -> dict[Kind, list[Document]]:
    draw = random.Random(5)
    measures = [
        _measure(
            draw.choice([0, 1, 3, 255, 256, 65535]),
            draw.randrange(3),
            n if n % 3 else (1 << 40) + n,
            None if n % 11 == 0 else draw.choice([-1000, -7, 0, 1, 2, 3, 1000, 1 << 60, n]),
            None if n % 7 == 0 else draw.choice([-0.3, 0.0, 0.3, 0.7, 1.5, 2.0, draw.random() * 9]),
            None if n % 5 == 0 else draw.choice(["a", "B", "b", "é", "abc", ""]),
        )
        for n in range(400)
    ]
    users = [
        {
            "_id": b"user%d" % (n + 150 * draw.randrange(1 << (8 * draw.randrange(1, 7)))),
            **{f"field{f}": f"{n}-{f}" * draw.randrange(3) for f in range(10)},
        }
        for n in range(150)
    ]
    users[0]["_id"], users[1]["_id"] = b"u", b"u" * 64
    return {USERS: users, MEASURES: measures}


DOCUMENTS = _documents()
BY_ID = {kind: sorted(found, key=itemgetter("_id")) for kind, found in DOCUMENTS.items()}

SERVERS = [target for target in stores.SERVERS if target.name in ("postgres", "mariadb", "sql")]
#: 2 "nodes" of an embedded engine are two stores that one reader has open.
TARGETS = [
    *(Target(name, n) for name in ("sqlite", "duckdb", "chdb", "parquet") for n in (0, 2)),
    Target("parquet", 2, (("reader", "pyarrow"),)),
    *SERVERS,
]
WRITING = [*map(Target, ("sqlite", "duckdb", "chdb")), *SERVERS]


def _schema(name: str, index_time: IndexTime = "after") -> Schema:
    if not engine(name).flags.secondary_indexes:
        return Schema(kinds=KINDS)
    return Schema(kinds=KINDS, indexes=((MEASURES, "mv"),), index_time=index_time)


def _fresh(target: Target, clusters: Clusters, directory: Path) -> Cluster:
    if target in SERVERS:
        return replace(clusters.fresh(target), kinds=KINDS)
    return Cluster(engine=target.name, stores=(directory / "store",), kinds=KINDS)


def _fill(client: Client, schema: Schema, part: slice = slice(None)) -> None:
    client.create(schema)
    for kind, documents in DOCUMENTS.items():
        some = documents[part]
        for start in range(0, len(some), 90):
            client.insert(kind, some[start : start + 90])
    client.finish()


@pytest.fixture(scope="module", params=cells(TARGETS))
def target(request: pytest.FixtureRequest) -> Target:
    result: Target = request.param
    return result


@pytest.fixture(scope="module")
def store(
    target: Target, clusters: Clusters, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """All documents, through the client that wrote them, or through a reader of two stores."""
    directory = tmp_path_factory.mktemp("kinds")
    if target not in SERVERS and target.nodes:
        stores = (directory / "first", directory / "second")
        for path, part in zip(stores, (slice(0, None, 2), slice(1, None, 2)), strict=True):
            writer = connect(target.embedded(path, kinds=KINDS), "write")
            _fill(writer, _schema(target.name), part)
            writer.close()
        client = connect(target.embedded(*stores, kinds=KINDS), "read")
    else:
        client = connect(_fresh(target, clusters, directory), "write")
        _fill(client, _schema(target.name))
    yield client
    client.close()


def _fulfils(document: Document, where: tuple[Where, ...]) -> bool:
    return all(
        document[w.field] is not None and OPERATORS[w.op](document[w.field], w.value) for w in where
    )


def _ordered(documents: list[Document], name: str, descending: bool) -> list[Document]:
    known = [d for d in documents if d[name] is not None]
    known.sort(key=itemgetter("_id"))
    return sorted(known, key=itemgetter(name), reverse=descending)


def _class(x: float, width: float) -> int:
    n = math.floor(x / width)
    return n - 1 if n * width > x else n + 1 if (n + 1) * width <= x else n


def _same(result: list[Document], expected: list[Document]) -> bool:
    return sorted(result, key=itemgetter("_id")) == sorted(expected, key=itemgetter("_id"))


def test_documents_come_back_by_their_ids(store: Client) -> None:
    for kind, documents in DOCUMENTS.items():
        assert store.count(Count(kind)) == len(documents)
        ids = [d["_id"] for d in documents]
        assert store.get_many(kind, ids) == documents
        for document in documents[:5]:
            assert store.get(kind, document["_id"]) == document
    for kind, missing in (
        (USERS, b"nobody"),
        (MEASURES, MEASURES.pack((7, 7, 7))),
        (MEASURES, b"short"),
        (MEASURES, DOCUMENTS[MEASURES][0]["_id"] + b"\0"),
        (MEASURES, b"\xff" * 12),
    ):
        there = DOCUMENTS[kind][3]
        assert store.get(kind, missing) is None
        request = [missing, there["_id"], missing]
        assert store.get_many(kind, request) == [None, there, None]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.table)
def test_scans_go_in_the_order_of_ids(store: Client, kind: Kind) -> None:
    ids = [d["_id"] for d in BY_ID[kind]]
    starts = [ids[0], ids[40], ids[-1], ids[40] + b"\1", ids[7][:-1], b"\0", b"zz", b"\xff" * 12]
    for start in starts:
        expected = [d for d in BY_ID[kind] if d["_id"] >= start]
        assert store.scan(Scan(kind, start, 12)) == expected[:12], start
    assert store.scan(Scan(kind, ids[3], 0)) == []
    assert store.scan(Scan(kind, ids[0], 10_000)) == BY_ID[kind]


VALUES: list[tuple[str, list[Any]]] = [
    ("m", [255, 255.0, 254.5, 1e30, -(1 << 70)]),
    ("mv", [-7, 0.5, -6.5, 1 << 60, float(1 << 60), math.inf, -math.inf]),
    ("x", [0, 2, 0.3, 0.30000000000000004, (1 << 53) + 1, math.inf, -math.inf, 10**400]),
    ("name", ["b", "", "é", "zz"]),
    ("_id", [DOCUMENTS[MEASURES][9]["_id"], b"", b"\0\1", b"\xff" * 14]),
]


@pytest.mark.parametrize(("name", "values"), VALUES, ids=[name for name, _ in VALUES])
def test_each_operator_compares_as_python_does(
    store: Client, target: Target, name: str, values: list[Any]
) -> None:
    every = DOCUMENTS[MEASURES]
    for value in values:
        for operator in OPERATORS:
            where = (Where(name, operator, value),)
            expected = [d for d in every if _fulfils(d, where)]
            assert store.count(Count(MEASURES, where)) == len(expected), where
            assert _same(store.find(Find(MEASURES, where)), expected), where


def test_conditions_on_text_ids(store: Client) -> None:
    for operator in OPERATORS:
        where = (Where("_id", operator, BY_ID[USERS][70]["_id"]),)
        expected = [d for d in DOCUMENTS[USERS] if _fulfils(d, where)]
        assert _same(store.find(Find(USERS, where)), expected)
    expected = _ordered(DOCUMENTS[USERS], "field3", False)[:9]
    assert store.find(Find(USERS, (), "field3", limit=9)) == expected


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", ["mv", "x", "name", "m", "_id"])
def test_order_limit_and_ties(store: Client, name: str, descending: bool) -> None:
    """Few values of a field are shared by many documents, so that most places are ties."""
    for where in ((), (Where("m", ">", 1), Where("x", "<=", 1.5))):
        every = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
        expected = _ordered(every, name, descending)
        for limit in (0, 1, 37, None):
            result = store.find(Find(MEASURES, where, name, descending, limit))
            assert result == (expected if limit is None else expected[:limit])


def test_a_limit_without_an_order(store: Client) -> None:
    where = (Where("m", ">=", 3),)
    every = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
    result = store.find(Find(MEASURES, where, limit=50))
    assert len(result) == 50
    assert all(document in every for document in result)
    assert len({document["_id"] for document in result}) == 50
    assert _same(store.find(Find(MEASURES)), DOCUMENTS[MEASURES])
    assert store.count(Count(MEASURES, ())) == len(DOCUMENTS[MEASURES])


@pytest.mark.parametrize(
    ("name", "width"),
    [("mv", 3), ("mv", 1000.0), ("mv", 0.5), ("x", 0.1), ("x", 1), ("x", 0.3), ("bt", 1 << 40)],
)
def test_histograms(store: Client, name: str, width: float) -> None:
    where = (Where("mv", "<", 1 << 50), Where("m", "<", 60000))
    every = [d for d in DOCUMENTS[MEASURES] if d[name] is not None and _fulfils(d, where)]
    exact = isinstance(every[0][name], int) and width == int(width)
    expected = Counter(d[name] // int(width) if exact else _class(d[name], width) for d in every)
    assert store.histogram(Histogram(MEASURES, name, width, where)) == dict(expected)


def test_aggregates(store: Client) -> None:
    for kind, name in ((MEASURES, "mv"), (MEASURES, "m"), (MEASURES, "name"), (USERS, "field1")):
        counted = Counter(d[name] for d in DOCUMENTS[kind] if d[name] is not None)
        expected = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:5]
        assert store.top(Top(kind, name, 5)) == expected


def test_ranges(store: Client) -> None:
    where = (Where("mv", ">=", -7), Where("mv", "<=", 2.5))
    expected = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
    assert _same(store.find(Find(MEASURES, between("mv", -7, 2.5))), expected)


WRONG_QUESTIONS: list[Callable[[Client], object]] = [
    lambda c: c.find(Find(MEASURES, (Where("nothing", "=", 1),))),
    lambda c: c.find(Find(MEASURES, (Where("mv", "=", "1"),))),
    lambda c: c.find(Find(MEASURES, (Where("mv", "=", True),))),
    lambda c: c.find(Find(MEASURES, (Where("x", "<", math.nan),))),
    lambda c: c.find(Find(MEASURES, (Where("name", ">", 1.0),))),
    lambda c: c.find(Find(MEASURES, (Where("_id", ">", "text"),))),
    lambda c: c.find(Find(USERS, (Where("_id", ">", "text"),))),
    lambda c: c.find(Find(MEASURES, (Where("mv", "!=", 1),))),  # type: ignore[arg-type]
    lambda c: c.find(Find(MEASURES, (), "nothing")),
    lambda c: c.find(Find(MEASURES, (), limit=-1)),
    lambda c: c.count(Count(MEASURES, (Where("nothing", "=", 1),))),
    lambda c: c.histogram(Histogram(MEASURES, "name", 1)),
    lambda c: c.histogram(Histogram(MEASURES, "x", 0)),
    lambda c: c.histogram(Histogram(MEASURES, "x", math.inf)),
    lambda c: c.histogram(Histogram(MEASURES, "x", 1e-300)),
    lambda c: c.explain(Find(MEASURES, (Where("nothing", "=", 1),))),
]


def test_wrong_questions_are_refused(store: Client) -> None:
    for ask in WRONG_QUESTIONS:
        with pytest.raises(EngineError):
            ask(store)


def test_plans_are_told(store: Client, target: Target) -> None:
    document = DOCUMENTS[MEASURES][5]
    for query in (
        Get(MEASURES, document["_id"]),
        Scan(MEASURES, document["_id"], 3),
        Find(MEASURES, between("mv", 1, 2)),
        Find(MEASURES, (Where("mv", ">", 5),), "x", True, 3),
        Count(MEASURES, (Where("mv", ">", 5),)),
        Top(MEASURES, "m", 3),
        Histogram(MEASURES, "mv", 10),
    ):
        plan = store.explain(query)
        assert "measures" in plan or target.name == "parquet", plan
    assert store.explain(Find(MEASURES, where=(), order_by="mv", limit=1))


#: What a plan says where it takes the primary key (DuckDB leaves blocks out instead).
PRIMARY = {
    "sqlite": "USING PRIMARY KEY",
    "postgres": "measures_pkey",
    "mariadb": "key=PRIMARY",
    "chdb": " Keys:\n",
}


@pytest.fixture(params=cells(WRITING))
def writing(request: pytest.FixtureRequest) -> Target:
    result: Target = request.param
    return result


#: Plans of databases behind `sql` are not ours; more servers repeat the first one.
INDEXED = [
    cell(target, index_time)
    for target in WRITING
    for index_time in ("none", "before", "after")
    if target.name != "sql" and (target.nodes < 2 or index_time == "after")
]


@pytest.mark.parametrize(("writing", "index_time"), INDEXED)
def test_a_selective_condition_takes_the_index(
    writing: Target, index_time: IndexTime, clusters: Clusters, tmp_path: Path
) -> None:
    client = connect(_fresh(writing, clusters, tmp_path), "write")
    client.create(_schema(writing.name, index_time))
    documents = [_measure(1, 2, n, n, None, None) for n in range(6000)]
    for start in range(0, len(documents), 2000):
        client.insert(MEASURES, documents[start : start + 2000])
    client.finish()
    few, most = (Where("mv", ">", 5995.5),), (Where("mv", ">", -3),)
    for query in (Find(MEASURES, few), Count(MEASURES, few)):
        plan = client.explain(query)
        named = "Index Scan" if writing.name == "duckdb" else "measures_mv"
        assert (named in plan) == (index_time != "none"), plan
    if writing.name in ("postgres", "duckdb") or (
        writing.name == "mariadb" and ("layout", "columns") in writing.settings
    ):
        # The values count: nearly all rows are read without it.
        assert named not in client.explain(Find(MEASURES, most))
    assert client.count(Count(MEASURES, few)) == 4
    if writing.name in PRIMARY and ("layout", "json") not in writing.settings:
        start = documents[5900]["_id"]
        for plan in (
            client.explain(Get(MEASURES, start)),
            client.explain(Scan(MEASURES, start, 3)),
        ):
            assert PRIMARY[writing.name] in plan
    client.close()


def test_writes_by_text_and_composite_ids(
    writing: Target, clusters: Clusters, tmp_path: Path
) -> None:
    client = connect(_fresh(writing, clusters, tmp_path), "write")
    _fill(client, _schema(writing.name))
    changed = [{**d, "mv": 4, "x": 0.5} for d in DOCUMENTS[MEASURES][:60]]
    client.insert(MEASURES, [*changed[:30], *changed, *changed[:5]])
    assert client.count(Count(MEASURES)) == len(DOCUMENTS[MEASURES])
    assert client.get_many(MEASURES, [d["_id"] for d in changed]) == changed
    user, measure = DOCUMENTS[USERS][4], changed[7]
    assert client.update(USERS, user["_id"], {"field3": "new", "field9": "é"})
    assert client.get(USERS, user["_id"]) == {**user, "field3": "new", "field9": "é"}
    assert client.update(MEASURES, measure["_id"], {"mv": None, "name": "n"})
    assert client.get(MEASURES, measure["_id"]) == {**measure, "mv": None, "name": "n"}
    for kind, document in ((USERS, user), (MEASURES, measure)):
        assert client.delete(kind, document["_id"])
        assert not client.delete(kind, document["_id"])
        assert client.get(kind, document["_id"]) is None
        assert client.count(Count(kind)) == len(DOCUMENTS[kind]) - 1
    for absent in (MEASURES.pack((9, 9, 9)), b"", b"\xff" * 12):
        assert not client.update(MEASURES, absent, {"mv": 1})
        assert not client.delete(MEASURES, absent)
    for name in ("_id", "m", "bt"):
        with pytest.raises(EngineError, match="id"):
            client.update(MEASURES, changed[0]["_id"], {name: 1})
    client.close()


WRONG: list[tuple[Kind, Document]] = [
    (USERS, {"_id": b""}),
    (USERS, {"_id": b"u" * 65}),
    (USERS, {"_id": "text"}),
    (USERS, {"_id": "é".encode()}),
    (USERS, {"field10": "more"}),
    (MEASURES, {"m": 2}),
    (MEASURES, {"m": 70000}),
    (MEASURES, {"bt": None}),
    (MEASURES, {"s": "1"}),
    (MEASURES, {"_id": b"short"}),
    (MEASURES, {"more": 1}),
]


def test_wrong_documents_are_refused(writing: Target, clusters: Clusters, tmp_path: Path) -> None:
    client = connect(_fresh(writing, clusters, tmp_path), "write")
    client.create(_schema(writing.name))
    for kind, wrong in WRONG:
        with pytest.raises(EngineError, match=kind.table):
            client.insert(kind, [DOCUMENTS[kind][2], {**DOCUMENTS[kind][3], **wrong}])
    for kind, field in ((MEASURES, "m"), (MEASURES, "x"), (USERS, "field1")):
        lacking = dict(DOCUMENTS[kind][3])
        del lacking[field]
        with pytest.raises(EngineError, match=f"lacks the field '{field}'"):
            client.insert(kind, [lacking])
    assert client.count(Count(MEASURES)) == client.count(Count(USERS)) == 0
    client.close()


def test_a_later_phase_goes_on_with_the_store(
    writing: Target, clusters: Clusters, tmp_path: Path
) -> None:
    """A phase that changes the store is another process: it connects, creates, changes, ends."""
    cluster = _fresh(writing, clusters, tmp_path)
    client = connect(cluster, "write")
    _fill(client, _schema(writing.name))
    client.close()
    for turn in range(2):
        client = connect(cluster, "write")
        client.create(_schema(writing.name))

        def change(n: int, first: Client = client, turn: int = turn) -> None:
            session = first.for_thread()
            user, measure = DOCUMENTS[USERS][10 + n], DOCUMENTS[MEASURES][10 + n]
            assert session.update(USERS, user["_id"], {"field0": f"turn {turn}"})
            assert session.get(USERS, user["_id"]) == {**user, "field0": f"turn {turn}"}
            new = _measure(9, turn, n, 5, 0.25, "new")
            session.insert(MEASURES, [new])
            assert session.scan(Scan(MEASURES, new["_id"], 1)) == [new]
            assert session.get(MEASURES, measure["_id"]) == measure
            assert session.delete(MEASURES, new["_id"]) == (n % 2 == 0) if n % 2 == 0 else True
            session.close()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(change, range(8)))
        client.finish()
        client.close()
    mode = "read" if writing not in SERVERS else "write"
    client = connect(cluster, mode)  # type: ignore[arg-type]
    assert client.count(Count(MEASURES)) == len(DOCUMENTS[MEASURES]) + 2 * 4
    assert client.find(Find(MEASURES, (Where("m", "=", 9),), "bt", limit=2)) == [
        _measure(9, turn, 1, 5, 0.25, "new") for turn in range(2)
    ]
    client.close()


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_a_store_with_other_columns_is_refused(name: str, tmp_path: Path) -> None:
    cluster = Cluster(engine=name, stores=(tmp_path,), kinds=KINDS)
    client = connect(cluster, "write")
    _fill(client, _schema(name))
    client.close()
    other = Kind("usertable", (Field("_id", "key", ""), Field("field0", "str", "")))
    client = connect(replace(cluster, kinds=(other,)), "write")
    with pytest.raises(EngineError, match="usertable has the columns _id, field0, field1"):
        client.create(Schema(kinds=(other,)))
    client.close()
    with pytest.raises(EngineError, match="usertable has the columns"):
        connect(replace(cluster, kinds=(other,)), "read")


@pytest.mark.parametrize("target", cells(t for t in SINGLE if t in SERVERS))
def test_servers_with_tables_of_another_workload_are_refused(
    target: Target, clusters: Clusters, tmp_path: Path
) -> None:
    cluster = _fresh(target, clusters, tmp_path)
    client = connect(cluster, "write")
    client.create(Schema(kinds=KINDS))
    client.close()
    with pytest.raises(EngineError, match="tables of another workload: usertable; this one has"):
        connect(replace(cluster, kinds=(MEASURES,)), "read")


def test_names_of_searches_are_refused_where_there_are_none(tmp_path: Path) -> None:
    cluster = Cluster("parquet", stores=(tmp_path,), kinds=KINDS, settings={"partition": "query"})
    with pytest.raises(EngineError, match="`partition: query` needs the queries"):
        engine("parquet").connect(cluster, "write").create(Schema(kinds=KINDS))


def test_null_finds_nothing(tmp_path: Path) -> None:
    client = connect(Cluster(engine="null", stores=(tmp_path,), kinds=KINDS), "write")
    client.create(Schema(kinds=KINDS))
    client.insert(USERS, DOCUMENTS[USERS])
    assert client.find(Find(MEASURES, (Where("mv", ">", 1),), "mv", limit=3)) == []
    assert client.count(Count(MEASURES, ())) == 0
    assert client.histogram(Histogram(MEASURES, "mv", 1)) == {}
    with pytest.raises(EngineError, match="flags"):
        client.explain(Get(USERS, b"user1"))


@cache
def _numbers() -> st.SearchStrategy[Any]:
    ints = st.integers(-(1 << 63), (1 << 63) - 1)
    floats = st.floats(allow_nan=False, width=64)
    return st.one_of(st.integers(-20, 20), ints, floats, st.sampled_from([0.1, 0.3, 1e16, -2.5]))


_ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(-9, 9), st.integers(-(1 << 63), (1 << 63) - 1)),
        st.one_of(
            st.none(),
            st.integers(-30, 30).map(lambda n: n * 0.1),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    place = tmp_path_factory.mktemp("property") / "store"
    cluster = Cluster(engine="sqlite", stores=(place,), consistency="relaxed", kinds=KINDS)
    client = connect(cluster, "write")
    client.create(_schema("sqlite", "before"))
    yield client
    client.close()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=_ROWS,
    name=st.sampled_from(["mv", "x"]),
    operator=st.sampled_from(sorted(OPERATORS)),
    value=_numbers(),
    descending=st.booleans(),
    limit=st.one_of(st.none(), st.integers(0, 5)),
    width=st.one_of(st.integers(1, 50), st.floats(0.01, 100.0)),
)
@example([(0, 0, 2**53 + 1, 9007199254740992.0)], "x", "<", 2**53 + 1, False, None, 1)
@example([(0, 0, -(2**63), 1.1)], "mv", ">", -(2**63) - 1, True, 1, 7)
def test_any_question_is_answered_as_python_would(
    scratch: Client,
    rows: list[tuple[int, int, int | None, float | None]],
    name: str,
    operator: Any,
    value: Any,
    descending: bool,
    limit: int | None,
    width: float,
) -> None:
    documents = [_measure(m, s, n, mv, x, None) for n, (m, s, mv, x) in enumerate(rows)]
    for document in scratch.find(Find(MEASURES)):
        scratch.delete(MEASURES, document["_id"])
    scratch.insert(MEASURES, documents)
    where = (Where(name, operator, value),)
    expected = [d for d in documents if _fulfils(d, where)]
    assert scratch.count(Count(MEASURES, where)) == len(expected)
    ordered = _ordered(expected, "x", descending)
    result = scratch.find(Find(MEASURES, where, "x", descending, limit))
    assert result == (ordered if limit is None else ordered[:limit])
    small = (Where("x", ">=", -1e6), Where("x", "<=", 1e6))
    counted = Counter(_class(d["x"], width) for d in documents if _fulfils(d, small))
    assert scratch.histogram(Histogram(MEASURES, "x", width, small)) == dict(counted)
    if width == int(width):
        known = [d["mv"] for d in documents if d["mv"] is not None]
        assert scratch.histogram(Histogram(MEASURES, "mv", width)) == Counter(
            v // int(width) for v in known
        )
