"""The text of LOAD DATA that is made of columns is the one that is made of rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storewise.documents import KINDS, Kind, fields
from storewise.engines.mysql.load_columns import load_lines
from storewise.engines.mysql.load_data import load_text
from storewise.engines.support.table import make_table
from storewise.errors import EngineError
from storewise.ssearch.parse.arrow import batch_of

_TEXTS = st.text(st.sampled_from("aé✓𝄞\0\t\n\r\\N'\""), max_size=6)
_VALUES = {
    "id": st.none() | st.binary(min_size=12, max_size=12),
    "int": st.none() | st.integers(-(2**63), 2**63 - 1),
    "float": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "str": st.none() | _TEXTS,
}


def _fields(table, text):
    """Numbers by their values: the two ways write floats in different words."""
    assert text.endswith(b"\n")
    return [
        [
            float(value) if column.type == "float" and value != rb"\N" else value
            for column, value in zip(table.columns, line.split(b"\t"), strict=True)
        ]
        for line in text[:-1].split(b"\n")
    ]


@given(data=st.data(), skipped=st.integers(0, 2))
def test_columns_and_rows_give_the_same_text(data, skipped):
    kind = data.draw(st.sampled_from(KINDS))
    columns = {f.name: _VALUES[f.type] for f in fields(kind)}
    columns["_id"] = st.binary(min_size=12, max_size=12)
    rows = data.draw(st.lists(st.fixed_dictionaries(columns), min_size=3, max_size=6))
    table = make_table(kind, study_fields=False)
    text = b"".join(load_lines(table, batch_of(kind, rows)[skipped:]))
    expected = load_text(table.name, table.columns, table.rows(rows[skipped:]))
    assert _fields(table, text) == _fields(table, expected)


@pytest.mark.parametrize("wrong", [float("inf"), float("-inf")])
def test_what_is_not_finite_is_refused(wrong):
    row = {f.name: None for f in Kind.ALIGN.fields} | {"_id": bytes(12)}
    table = make_table(Kind.ALIGN, study_fields=False)
    with pytest.raises(EngineError, match=r"align\.z is of type float.*inf"):
        load_lines(table, batch_of(Kind.ALIGN, [row, {**row, "z": wrong}]))
