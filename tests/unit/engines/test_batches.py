"""Record batches of documents: as rows, dicts and what servers take; by id; in other forms."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import KINDS, Kind, fields
from storewise.engines.mysql.load_columns import load_lines
from storewise.engines.mysql.load_data import load_text
from storewise.engines.postgres.copy_data import copy_rows
from storewise.engines.registry import engine
from storewise.engines.support import batches
from storewise.engines.support.forms import is_batch, rows_of, taken
from storewise.engines.support.table import make_table
from storewise.errors import EngineError
from storewise.ssearch.parse.arrow import arrow_schema, batch_of

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES = {
    "id": st.binary(min_size=12, max_size=12),
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False),
    "str": _TEXTS | st.text(st.sampled_from("aé✓𝄞\0\t\n\r\\N'\""), max_size=6),
}
EMPTY = {f.name: None for f in Kind.ALIGN.fields} | {"_id": bytes(12)}


@st.composite
def documents(draw, study_fields=False, least=0):
    """A kind and documents of it; whole columns have no null, which are laid out another way."""
    kind = draw(st.sampled_from(KINDS))
    known = fields(kind, study_fields=study_fields)
    full = draw(st.sets(st.sampled_from([f.name for f in known]))) | {"_id"}
    columns = {f.name: _VALUES[f.type] for f in known}
    columns |= {name: st.none() | columns[name] for name in columns if name not in full}
    return kind, draw(st.lists(st.fixed_dictionaries(columns), min_size=least, max_size=8))


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
    batch = batch_of(Kind.ALIGN, [EMPTY])
    turned = batch.select(batch.schema.names[::-1])
    result = taken(_table(Kind.ALIGN), turned)
    assert result.equals(batch)
    ours, theirs = (b.column("_id").buffers()[1].address for b in (result, batch))
    assert ours == theirs
    assert result.schema.equals(arrow_schema(Kind.ALIGN))


def _copied(table, rows):
    """As PostgreSQL's manual says, field by field: a 32-bit length, -1 for null, and the value."""
    result = b""
    for row in table.rows(rows):
        result += struct.pack(">h", len(row))
        for column, value in zip(table.columns, row, strict=True):
            form = {"int": ">q", "float": ">d"}.get(column.type)
            data = struct.pack(form, value) if form and value is not None else value
            data = data.encode() if isinstance(data, str) else data
            result += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return result


@given(made=documents(), start=st.integers(0, 6))
def test_rows_of_a_binary_copy_are_laid_out_as_the_manual_says(made, start):
    kind, rows = made
    copied = copy_rows(_table(kind), batch_of(kind, rows)[start:])
    assert bytes(copied) == _copied(_table(kind), rows[start:])


def _loaded(table, text):
    """Numbers by their values: the two ways write floats in different words."""
    assert text.endswith(b"\n")
    return [
        [
            float(value) if column.type == "float" and value != rb"\N" else value
            for column, value in zip(table.columns, line.split(b"\t"), strict=True)
        ]
        for line in text.split(b"\n")[:-1]
    ]


@given(made=documents(least=3), start=st.integers(0, 2))
def test_the_text_of_load_data_is_that_of_the_rows(made, start):
    kind, rows = made
    table, infinite = _table(kind), (float("inf"), float("-inf"))
    rows = [{n: 0.5 if v in infinite else v for n, v in row.items()} for row in rows]
    text = b"".join(load_lines(table, batch_of(kind, rows)[start:]))
    expected = load_text(table.name, table.columns, table.rows(rows[start:]))
    assert _loaded(table, text) == _loaded(table, expected)


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf")])
def test_load_data_refuses_what_is_not_finite(wrong):
    with pytest.raises(EngineError, match=r"align\.z is of type float.*inf"):
        load_lines(_table(Kind.ALIGN), batch_of(Kind.ALIGN, [EMPTY, {**EMPTY, "z": wrong}]))


def test_what_is_no_batch_is_rows():
    batch, rows = batch_of(Kind.RNA, []), [{"_id": bytes(12)}]
    assert is_batch(batch)
    assert not any(map(is_batch, (pa.Table.from_batches([batch]), [], ())))
    assert taken(_table(Kind.RNA), rows) is rows
    assert engine("postgres").encoding_of({"layout": "json"}) == "dict"
    assert engine("mariadb").encoding_of({"layout": "columns", "bulk": "insert"}) == "arrow"
