"""Kinds of other workloads in every store are written, changed and refused."""

import pkgutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from operator import itemgetter

import pytest
from support.servers.other_kinds import (
    DOCUMENTS,
    KINDS,
    MEASURES,
    SQL,
    USERS,
    WRITING,
    a_measure,
    a_user,
    connect,
    empty,
    filled,
    schema_of,
)
from support.servers.samples import holds
from support.servers.stores import SERVERS, cells

from storewise.documents import Field, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Find, Scan, Where
from storewise.engines.registry import engine
from storewise.errors import EngineError


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
        (USERS, a_user(b"user-new"), {"field3": "new", "field9": "é"}),
        (MEASURES, a_measure(65535, 3, 1 << 62, 5, 0.5, "x"), {"mv": None, "name": "n"}),
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
    odd = [a_user(key) for key in (b"x" * 64, b"~ /\\'\"%$.", b"\x7f\x01", b"0")]
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
    "riak": "storewise.engines.riak.connection.Connection.send",
    "valkey": "valkey.connection.AbstractConnection.send_packed_command",
}


def test_an_update_is_one_request(store, monkeypatch):
    """Of all fields in Riak, which keeps whole records."""
    place = SENDS.get(store.target.name)
    if place is None:
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
    store.writer.owner(USERS, old["_id"])  # may ask once
    monkeypatch.setattr(pkgutil.resolve_name(target), name, counted)
    assert store.writer.update(USERS, old["_id"], few) is not False
    store.writer.owner(USERS, old["_id"])  # part of each operation of a workload
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
    good = {USERS: a_user(b"user-good"), MEASURES: a_measure(77, 1, 1, 1, 0.5, "x")}
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


def test_tables_of_another_workload_are_not_taken_for_ours(store):
    name = store.target.name
    if store.target in SERVERS and name != "sql":
        other, words = MEASURES, "tables of another workload: usertable; this one has"
        if name not in SQL:
            other = Kind("other", (Field("_id", "key", "a key"), Field("f", "str", "text")))
            words = r"other was never created|another workload: usertable"
        foreign = replace(store.cluster, kinds=(other,))
        refused = pytest.raises(EngineError, match=words)
        with refused, closing(connect(foreign, "read")) as client:
            client.get(other, b"1")
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
    cluster = empty(target, clusters, tmp_path)
    flags = engine(target.name).flags
    filled(cluster).close()
    for turn in range(2):
        client = connect(cluster, "write")
        client.create(schema_of(target.name))

        def change(n, first=client, turn=turn):
            session = first.open_thread()
            user, measure = DOCUMENTS[USERS][10 + n], DOCUMENTS[MEASURES][10 + n]
            assert session.update(USERS, user["_id"], {"field0": f"turn {turn}"}) is not False
            assert session.get(USERS, user["_id"]) == {**user, "field0": f"turn {turn}"}
            new = a_measure(9, turn, n, 5, 0.25, "new")
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
            a_measure(9, turn, 1, 5, 0.25, "new") for turn in range(2)
        ]
    client.close()
