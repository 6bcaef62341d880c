"""Record batches of documents: as rows and dicts, in the order of ids, with one of each id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import KINDS, Field, Kind, fields
from storewise.engines.support import batches
from storewise.engines.support.forms import rows_of, taken
from storewise.engines.support.table import make_table
from storewise.errors import EngineError
from storewise.ssearch.parse.arrow import arrow_schema, batch_of

_VALUES = {
    "id": st.binary(min_size=12, max_size=12),
    "int": st.none() | st.integers(-(2**63), 2**63 - 1),
    "float": st.none() | st.floats(allow_nan=False),
    "str": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
}
MEASURES = Kind(
    "measures",
    (Field("_id", "id", ""), Field("m", "int", ""), Field("s", "int", ""), Field("x", "int", "")),
    key=(("m", 8), ("s", 4)),
)


@st.composite
def documents(draw, study_fields=False):
    kind = draw(st.sampled_from(KINDS))
    columns = {f.name: _VALUES[f.type] for f in fields(kind, study_fields=study_fields)}
    return kind, draw(st.lists(st.fixed_dictionaries(columns), max_size=8))


def _table(kind, study_fields=False):
    return make_table(kind, study_fields=study_fields)


@given(made=documents(), start=st.integers(0, 8), stop=st.integers(0, 8))
def test_a_slice_of_a_batch_is_that_of_its_documents(made, start, stop):
    kind, rows = made
    table, batch = _table(kind), batch_of(kind, rows)[start:stop]
    expected = rows[start:stop]
    assert batches.documents_of(table, batch) == expected
    assert batches.rows_of(batch) == rows_of(table, batch) == table.rows(expected)
    assert batches.ids_of(batch) == [document["_id"] for document in expected]


@given(made=documents(study_fields=True))
def test_the_published_fields_are_known_by_the_columns(made):
    kind, rows = made
    batch = batch_of(kind, rows, study_fields=True)
    assert batches.documents_of(_table(kind), batch) == rows
    assert taken(_table(kind, study_fields=True), batch).equals(batch)


@given(made=documents(), repeated=st.lists(st.integers(0, 7), max_size=12))
def test_order_and_the_newest_of_each_id(made, repeated):
    kind, rows = made
    rows = [*rows, *({**rows[n], "t": n} for n in repeated if n < len(rows))]
    batch = batch_of(kind, rows)
    ordered, ids = batches.in_order(batch)
    expected = sorted(rows, key=lambda document: document["_id"])
    assert batches.documents_of(_table(kind), ordered) == expected
    assert ids == [document["_id"] for document in expected]
    last = {document["_id"]: document for document in rows}
    newest = batches.documents_of(_table(kind), batches.newest(batch))
    assert len(newest) == len(last)
    assert {document["_id"]: document for document in newest} == last


def test_columns_are_shared_and_put_into_order():
    batch = batch_of(Kind.RNA, [{f.name: None for f in Kind.RNA.fields} | {"_id": bytes(12)}])
    turned = batch.select(batch.schema.names[::-1])
    result = taken(_table(Kind.RNA), turned)
    assert result.equals(batch)
    ours, theirs = (b.column("_id").buffers()[1].address for b in (result, batch))
    assert ours == theirs
    assert result.schema.equals(arrow_schema(Kind.RNA))


def test_ids_of_a_form_of_their_own_are_checked_one_by_one():
    table = make_table(MEASURES, study_fields=False, keys="columns")
    good = {"_id": MEASURES.pack((1, 2)), "m": 1, "s": 2, "x": None}
    assert taken(table, batch_of(MEASURES, [good])) == [good]
    assert rows_of(table, batch_of(MEASURES, [good])) == [(1, 2, None)]
    with pytest.raises(EngineError, match="has the id"):
        rows_of(table, batch_of(MEASURES, [{**good, "s": 3}]))
