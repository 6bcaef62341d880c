"""Kinds of other workloads in every store are read and asked: ids that are texts, composite keys.

What a store answers itself is asked with every case; where the client answers from a scan, which
unit tests look at, the first one is enough.
"""

import math
from collections import Counter
from operator import eq, ge, gt, itemgetter, le, lt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.servers.other_kinds import (
    BY_ID,
    DOCUMENTS,
    KINDS,
    MEASURES,
    USERS,
    WRITING,
    a_measure,
    connect,
    empty,
    schema_of,
)
from support.servers.samples import holds
from support.servers.stores import marks_of

from storewise.engines.contract.engine import Cluster
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top, Where

OPERATORS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


def _fulfils(document, where):
    return all(
        document[w.field] is not None and OPERATORS[w.op](document[w.field], w.value) for w in where
    )


def _ordered(documents, name):
    return sorted((d for d in documents if d[name] is not None), key=itemgetter(name, "_id"))


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
        between_ids = bytes(12) if kind is MEASURES else b"user3"
        for start in (b"", ids[0], ids[40], ids[-1], between_ids):
            expected = [d for d in BY_ID[kind] if d["_id"] >= start]
            assert store.reader.scan(Scan(kind, start, 12)) == expected[:12], start
        for after in (ids[0], ids[40], ids[-1], between_ids):
            expected = [d for d in BY_ID[kind] if d["_id"] > after]
            assert store.reader.scan(Scan(kind, b"", 12, after)) == expected[:12], after
        assert store.reader.scan(Scan(kind, ids[3], 0)) == []
        assert store.reader.scan(Scan(kind, ids[0], 10_000)) == BY_ID[kind]


VALUES = {
    "mv": [-7, 1 << 60, -(1 << 63)],
    "m": [255],
    "x": [0.0, 2.0, 1e20, 0.3, 0.1 + 0.2],
    "name": ["b", "", "é", "zz"],
    "_id": [DOCUMENTS[MEASURES][9]["_id"], bytes(12)],
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
    where = (
        Where("m", "=", 255),
        Where("s", "<", 2),
        Where("name", ">", "a"),
        Where("x", "<", 9.0),
    )
    expected = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
    assert expected and _same(reader.find(Find(MEASURES, where)), expected)


def test_order_limit_and_ties(store):
    """Few values of a field are shared by many documents, so that most places are ties."""
    if not store.answers:
        return
    for name in store.some(("mv", "x", "name", "m")):
        for where in ((), (Where("m", ">", 1), Where("x", "<=", 1.5))):
            every = [d for d in DOCUMENTS[MEASURES] if _fulfils(d, where)]
            expected = _ordered(every, name)
            for limit in (0, 1, 37, None):
                result = store.reader.find(Find(MEASURES, where, name, limit))
                assert result == expected[:limit]
    expected = _ordered(DOCUMENTS[USERS], "field4")[:9]
    assert store.reader.find(Find(USERS, (), "field4", limit=9)) == expected
    # Without an order.
    every = [d for d in DOCUMENTS[MEASURES] if d["m"] >= 3]
    result = store.reader.find(Find(MEASURES, (Where("m", ">=", 3),), limit=50))
    assert len(result) == len({document["_id"] for document in result}) == 50
    assert all(document in every for document in result)
    assert _same(store.reader.find(Find(MEASURES)), DOCUMENTS[MEASURES])
    assert store.reader.count(Count(MEASURES, ())) == len(DOCUMENTS[MEASURES])


def test_histograms_and_aggregates(store):
    reader = store.reader
    if not store.answers:
        return store.refuses(lambda: reader.histogram(Histogram(MEASURES, "mv", 1)))
    for name, width in store.some([("x", 1e10), ("m", 3), ("m", 0.3), ("bt", 1 << 40)]):
        values = [d[name] for d in DOCUMENTS[MEASURES] if d[name] is not None]
        expected = Counter(math.floor(value / width) for value in values)
        result = reader.histogram(Histogram(MEASURES, name, width))
        assert result == dict(expected)
        assert {type(n) for pair in result.items() for n in pair} <= {int}
    for kind, name in ((MEASURES, "mv"), (MEASURES, "m"), (MEASURES, "name"), (USERS, "field1")):
        counted = Counter(d[name] for d in DOCUMENTS[kind] if d[name] is not None)
        expected_top = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:5]
        assert reader.top(Top(kind, name, 5)) == expected_top


def test_plans_are_told(store):
    explain = store.reader.explain
    if not store.flags.explains:
        return store.refuses(lambda: explain(Count(MEASURES)))
    above = (Where("mv", ">", 5),)
    for where in (above, (Where("mv", ">=", 1), Where("mv", "<=", 2)), (Where("name", "=", "a"),)):
        for query in (Find(MEASURES, where), Count(MEASURES, where)):
            plan = explain(query)
            assert plan.text and plan.uses_index in (True, False), plan
            if store.target.name == "mongodb":
                assert plan.uses_index == (where[0].field == "mv") == ("mv_1" in plan.text)
                assert "\n" not in plan.text and ("COLLSCAN" in plan.text) != plan.uses_index


# From here on each test has a store of its own: what `store` has loaded is gone.


#: Stores whose plans tell an index; MongoDB's are above.
PLANS = ("sqlite", "duckdb", "chdb", "postgres", "mariadb")


def _indexed():
    """Plans of databases behind `sql` are not ours; more servers repeat the first one."""
    for target in WRITING:
        for time in ("none", "before", "after"):
            if target.name in PLANS and (target.nodes < 2 or time == "after"):
                marks = [*marks_of(target), *[pytest.mark.slow] * (time != "after")]
                yield pytest.param(target, time, marks=marks, id=f"{target}-{time}")


@pytest.mark.parametrize(("target", "index_time"), list(_indexed()))
def test_a_selective_condition_takes_the_index(target, index_time, clusters, tmp_path):
    client = connect(empty(target, clusters, tmp_path), "write")
    client.create(schema_of(target.name, index_time))
    # ClickHouse leaves out whole granules of 8192 rows.
    rows = 20_000 if target.name == "chdb" else 6000
    documents = [a_measure(1, 2, n, n, None, None) for n in range(rows)]
    for start in range(0, rows, 2000):
        client.insert(MEASURES, documents[start : start + 2000])
    client.finish()
    few, most = (Where("mv", ">", rows - 5),), (Where("mv", ">", -3),)
    named = {"duckdb": "Index Scan", "mariadb": '"key": "measures_mv"'}.get(
        target.name, "measures_mv"
    )
    for query in (Find(MEASURES, few), Count(MEASURES, few)):
        plan = client.explain(query)
        assert plan.uses_index == (named in plan.text) == (index_time != "none"), plan
    if target.name in ("postgres", "duckdb", "mariadb"):
        # The values count: nearly all rows are read without it.
        assert not client.explain(Find(MEASURES, most)).uses_index
    assert client.count(Count(MEASURES, few)) == 4
    client.close()


_INTEGERS = st.integers(-20, 20) | st.integers(-(1 << 63), (1 << 63) - 1)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.1, 0.3, 1e16, -2.5])
_VALUES = st.none() | _INTEGERS, st.none() | _FLOATS | st.integers(-30, 30).map(lambda n: n * 0.1)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    place = tmp_path_factory.mktemp("property") / "store"
    cluster = Cluster(engine="sqlite", stores=(place,), consistency="relaxed", kinds=KINDS)
    client = connect(cluster, "write")
    client.create(schema_of("sqlite", "before"))
    yield client
    client.close()


@given(
    rows=st.lists(st.tuples(*_VALUES), max_size=12),
    where=st.builds(Where, st.just("mv"), st.sampled_from(sorted(OPERATORS)), _INTEGERS)
    | st.builds(Where, st.just("x"), st.sampled_from(sorted(OPERATORS)), _FLOATS),
    limit=st.none() | st.integers(0, 5),
    width=st.integers(1, 50) | st.floats(0.01, 100.0),
)
def test_any_question_is_answered_as_python_would(scratch, rows, where, limit, width):
    documents = [a_measure(1, 2, n, mv, x, None) for n, (mv, x) in enumerate(rows)]
    for document in scratch.find(Find(MEASURES)):
        scratch.delete(MEASURES, document["_id"])
    scratch.insert(MEASURES, documents)
    expected = [d for d in documents if _fulfils(d, (where,))]
    assert scratch.count(Count(MEASURES, (where,))) == len(expected)
    ordered = _ordered(expected, "x")
    assert scratch.find(Find(MEASURES, (where,), "x", limit)) == ordered[:limit]
    counted = Counter(math.floor(d["m"] / width) for d in documents)
    assert scratch.histogram(Histogram(MEASURES, "m", width)) == counted
