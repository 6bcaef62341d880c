"""The forms of documents that an engine takes: its own (a record batch, BSON) and dicts."""

import pyarrow as pa
import pytest
from support.servers.samples import encoded, sample
from support.servers.stores import KEEPING, cells

from storewise.documents import KINDS, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.registry import engine
from storewise.errors import EngineError


@pytest.fixture(scope="module", params=cells(KEEPING))
def target(request):
    """Of module scope, so that the tests of a store follow each other."""
    return request.param


@pytest.fixture
def writer(target, clusters, tmp_path):
    """A client that takes what its engine takes; servers keep what tests before it have stored."""
    cluster = (
        clusters.shared(target, "usual") if target.nodes else target.embedded(tmp_path / "store")
    )
    client = engine(target.name).connect(cluster, "write")
    client.create(Schema())
    yield client
    client.close()


def _documents(seed):
    """With nulls (`z`, `gene`) and with texts beyond ASCII in columns and in open fields."""
    documents = sample(seed, 60)
    for number, task in enumerate(documents[Kind.TASKS]):
        task["lib"] = f"Ünïcode {number} ✓\t\\ 'a' \"b\""
        task["pg_é"] = "\n✓"
    for number, document in enumerate(documents[Kind.ALIGN]):
        document["chr"] = ("é", "", "\t\\N\r\n", None)[number % 4]
        document["s_w"] = (None, 0, -1, 2**63 - 1, -(2**63))[number % 5]
        document["ti"] = None if number % 7 == 3 else document["ti"]
    return documents


def _same(client, kind, documents):
    return client.get_many(kind, [d["_id"] for d in documents]) == documents


def test_batches_and_dicts_take_turns_and_come_back_as_dicts(target, writer):
    documents = _documents(202)
    for kind in KINDS:
        batch, third = encoded(target.name, kind, documents[kind]), len(documents[kind]) // 3
        # Slices share the batch's columns.
        writer.insert(kind, batch[:third])
        writer.insert(kind, documents[kind][third : 2 * third])
        writer.insert(kind, batch[2 * third :])
        writer.insert(kind, batch[:0])
        assert _same(writer, kind, documents[kind])
        assert writer.get(kind, documents[kind][-1]["_id"]) == documents[kind][-1]
    writer.finish()
    assert _same(writer, Kind.ALIGN, documents[Kind.ALIGN])


def test_a_batch_overwrites_ids_that_exist(target, writer):
    old = _documents(203)[Kind.ALIGN]
    new = [{**d, "gene": "NEW", "z": 1.5} for d in old[10:30]]
    name = target.name
    writer.insert(Kind.ALIGN, old)
    writer.insert(Kind.ALIGN, encoded(name, Kind.ALIGN, [*new, *old[50:]]))
    expected = {d["_id"]: d for d in [*old, *new]}
    assert _same(writer, Kind.ALIGN, list(expected.values()))
    # The last one of an id counts, among new ids and among those that exist; in any order.
    fresh = _documents(204)[Kind.ALIGN][:10]
    twice = [{**d, "gene": gene} for gene in ("A", None, "B") for d in (*fresh[::-1], *old[5:9])]
    writer.insert(Kind.ALIGN, encoded(name, Kind.ALIGN, twice))
    expected |= {d["_id"]: d for d in twice}
    assert _same(writer, Kind.ALIGN, list(expected.values()))
    writer.finish()
    assert _same(writer, Kind.ALIGN, list(expected.values()))


def test_a_batch_with_other_columns_is_refused(target, writer):
    if engine(target.name).encoding != "arrow":
        return
    documents = sample(205, 3)[Kind.RNA]
    good = encoded(target.name, Kind.RNA, documents)
    names = good.schema.names
    place = names.index("b")
    wrong = [
        (good.drop_columns(["s"]), "lacks the column 's'"),
        (good.append_column("colour", pa.array(["red"] * 3)), "unknown columns: colour"),
        (good.append_column("s", good.column("s")), "columns twice: s"),
        (good.set_column(place, "b", pa.array(["1", "2", "3"])), r"rna\.b takes int64.*string"),
        (
            pa.RecordBatch.from_arrays(
                [pa.array([documents[0]["_id"], None, None], pa.binary(12)), *good.columns[1:]],
                names=names,
            ),
            "null in _id",
        ),
    ]
    for batch, words in wrong:
        with pytest.raises(EngineError, match=words):
            writer.insert(Kind.RNA, batch)
        assert writer.get(Kind.RNA, documents[0]["_id"]) is None
    # In another order they are the same columns.
    writer.insert(Kind.RNA, good.select(names[::-1]))
    assert _same(writer, Kind.RNA, documents)


def test_batches_of_the_published_fields(target, clusters, tmp_path):
    cluster = clusters.fresh(target) if target.nodes else target.embedded(tmp_path / "store")
    client = engine(target.name).connect(cluster, "write")
    if dict(target.settings).get("partition", "hash") != "hash":
        with pytest.raises(EngineError, match="no fields of the published study"):
            client.create(Schema(study_fields=True))
        client.close()
        return
    client.create(Schema(study_fields=True))
    documents = sample(207, 30, study_fields=True)
    for kind in KINDS:
        client.insert(kind, encoded(target.name, kind, documents[kind], study_fields=True))
        assert _same(client, kind, documents[kind])
    if engine(target.name).encoding == "arrow":
        with pytest.raises(EngineError, match="unknown"):
            more = encoded(target.name, Kind.ALIGN, sample(208, 3)[Kind.ALIGN])
            client.insert(Kind.ALIGN, more)
    client.close()
