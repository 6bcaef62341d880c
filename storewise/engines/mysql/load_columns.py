"""The text of LOAD DATA, made of whole columns; `load_data` makes the same of rows.

Arrow writes numbers as texts and puts the fields of a row one behind the other.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storewise.documents import ID_BYTES, Field
from storewise.engines.mysql.load_data import cannot_hold, escaped
from storewise.engines.support.batches import (
    BINARY,
    content_of,
    fixed_binary,
    id_bytes,
    values_of,
    without_nulls,
)
from storewise.engines.support.table import Table

_SPECIAL = re.compile(rb"[\0\t\n\r\\]")
#: Both hexadecimal digits of each byte.
_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


def load_lines(table: Table, batch: pa.RecordBatch) -> list[bytes | memoryview]:
    r"""The rows of a batch that has the table's columns, as parts of a LOAD DATA file: UTF-8, tabs
    between fields, ``\N`` for null, ids in hexadecimal; at least one row.

    EngineError for a value that its column cannot hold.
    """
    first, *rest = (
        _texts(table.name, field, column)
        for field, column in zip(table.columns, batch.columns, strict=True)
    )
    # Each line begins with the newline of the one before it.
    newline, tab = (pa.scalar(mark, BINARY) for mark in (b"\n", b"\t"))
    lines = pc.binary_join_element_wise(
        pc.binary_join_element_wise(pa.scalar(b"", BINARY), first, newline),
        *rest,
        tab,
        null_handling="replace",
        null_replacement="\\N",
    )
    return [content_of(lines)[0][1:], b"\n"]


def _texts(name: str, field: Field, column: pa.Array) -> pa.Array:
    """A column as the fields of a file, as binary values."""
    if field.type == "id":
        digits = _HEX[id_bytes(column).view(np.uint8)]
        return fixed_binary(digits.view(f"V{2 * ID_BYTES}"), like=column)
    if field.type == "float":
        values = without_nulls(column)
        wrong = values[~np.isfinite(values)]
        if len(wrong):
            raise cannot_hold(name, field, float(wrong[0]))
    if field.type == "str" and _SPECIAL.search(content_of(column)[0]):
        texts = [None if text is None else escaped(text) for text in values_of(column)]
        column = pa.array(texts, pa.string())
    return column.cast(pa.string()).view(BINARY)
