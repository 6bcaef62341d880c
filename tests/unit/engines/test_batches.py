"""Record batches of documents: as rows and dicts; by id; in other forms."""

import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import KINDS, Kind, fields
from storewise.engines.postgres.csv import csv_of
from storewise.engines.support import batches
from storewise.engines.support.batches import is_batch, rows_of, taken
from storewise.engines.support.table import make_table
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
def documents(draw, study_fields=False):
    """A kind and documents of it; whole columns have no null, which are laid out another way."""
    kind = draw(st.sampled_from(KINDS))
    known = fields(kind, study_fields=study_fields)
    full = draw(st.sets(st.sampled_from([f.name for f in known]))) | {"_id"}
    columns = {f.name: _VALUES[f.type] for f in known}
    columns |= {name: st.none() | columns[name] for name in columns if name not in full}
    return kind, draw(st.lists(st.fixed_dictionaries(columns), max_size=8))


def _table(kind, study_fields=False):
    return make_table(kind, study_fields=study_fields)


@given(made=documents(), start=st.integers(0, 8), stop=st.integers(0, 8))
def test_a_slice_of_a_batch_is_that_of_its_documents(made, start, stop):
    kind, rows = made
    table, batch = _table(kind), batch_of(kind, rows)[start:stop]
    expected = rows[start:stop]
    assert batches.documents_of(table, batch) == expected
    assert batches.batch_rows(batch) == rows_of(table, batch) == table.rows(expected)
    assert batches.ids_of(batch) == [document["_id"] for document in expected]


@given(made=documents(study_fields=True))
def test_the_published_fields_are_known_by_the_columns(made):
    kind, rows = made
    batch = batch_of(kind, rows, study_fields=True)
    assert batches.documents_of(_table(kind), batch) == rows
    assert taken(_table(kind, study_fields=True), batch).equals(batch)


def test_columns_are_shared():
    batch = batch_of(Kind.ALIGN, [EMPTY])
    result = taken(_table(Kind.ALIGN), batch)
    assert result.equals(batch)
    ours, theirs = (b.column("_id").buffers()[1].address for b in (result, batch))
    assert ours == theirs
    assert result.schema.equals(arrow_schema(Kind.ALIGN))


def test_what_is_no_batch_is_rows():
    batch, rows = batch_of(Kind.RNA, []), [{"_id": bytes(12)}]
    assert is_batch(batch)
    assert not any(map(is_batch, (pa.Table.from_batches([batch]), [], ())))
    assert taken(_table(Kind.RNA), rows) is rows


def _written(value):
    if value is None:
        return ""
    text = f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)
    return '"' + text.replace('"', '""') + '"' if isinstance(value, str | bytes) else text


@given(made=documents(), start=st.integers(0, 6))
def test_csv_tells_an_empty_text_from_null(made, start):
    """Texts and ids are quoted, null is nothing; numbers count by their values."""
    kind, rows = made
    text = csv_of(batch_of(kind, rows)[start:]).decode()
    fields = re.findall(r'("(?:[^"]|"")*"|[^,\n"]*)[,\n]', text)
    values = [value for row in _table(kind).rows(rows[start:]) for value in row]
    for field, value in zip(fields, values, strict=True):
        assert float(field) == value if isinstance(value, float) else field == _written(value)
