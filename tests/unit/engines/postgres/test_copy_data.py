"""The bytes of a binary COPY are those that PostgreSQL's manual tells."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import KINDS, fields
from storewise.engines.postgres.copy_data import copy_rows
from storewise.engines.support.table import make_table
from storewise.ssearch.parse.arrow import batch_of

_VALUES = {
    "id": st.none() | st.binary(min_size=12, max_size=12),
    "int": st.none() | st.integers(-(2**63), 2**63 - 1),
    "float": st.none() | st.floats(allow_nan=False),
    "str": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
}


def _expected(table, rows):
    """Field by field: a 32-bit length, -1 for null, and the value."""
    result = b""
    for row in table.rows(rows):
        result += struct.pack(">h", len(row))
        for column, value in zip(table.columns, row, strict=True):
            if value is None:
                result += struct.pack(">i", -1)
                continue
            form = {"int": ">q", "float": ">d"}.get(column.type)
            data = struct.pack(form, value) if form else value
            data = data.encode() if isinstance(data, str) else data
            result += struct.pack(">i", len(data)) + data
    return result


@given(data=st.data(), start=st.integers(0, 6))
def test_rows_are_laid_out_as_the_manual_says(data, start):
    kind = data.draw(st.sampled_from(KINDS))
    # Whole columns without a null, too: these are laid out another way.
    full = data.draw(st.sets(st.sampled_from([f.name for f in fields(kind)])))
    columns = {
        f.name: _VALUES[f.type].filter(lambda value: value is not None)
        if f.name in full | {"_id"}
        else _VALUES[f.type]
        for f in fields(kind)
    }
    rows = data.draw(st.lists(st.fixed_dictionaries(columns), max_size=6))
    table = make_table(kind, study_fields=False)
    assert bytes(copy_rows(table, batch_of(kind, rows)[start:])) == _expected(table, rows[start:])
