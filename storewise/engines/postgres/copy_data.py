"""The bytes of PostgreSQL's binary COPY, made of whole columns.

Format: https://www.postgresql.org/docs/current/sql-copy.html (Binary Format). Arrow puts a row's
pieces one behind the other: fields of a fixed length that stand together are one piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storewise.documents import ID_BYTES, Field
from storewise.engines.support.batches import (
    BINARY,
    content_of,
    fixed_binary,
    id_bytes,
    without_nulls,
)
from storewise.engines.support.table import Table

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_NULL = -1
#: How a value is written, in network byte order.
_FORMS: Mapping[str, str] = {"id": f"V{ID_BYTES}", "int": ">i8", "float": ">f8"}


def copy_rows(table: Table, batch: pa.RecordBatch) -> memoryview:
    """The rows of a batch that has the table's columns, between `HEADER` and `TRAILER`."""
    if not len(batch):
        return memoryview(b"")
    pieces: list[Any] = []
    # The number of a row's fields; then the fields up to the next one of varying length.
    block: list[tuple[str, Any]] = [(">i2", len(table.columns))]
    for field, column in zip(table.columns, batch.columns, strict=True):
        if field.type == "str" or column.null_count:
            content = _varying(field, column)
            block.append((">i4", _lengths(content)))
            pieces += [_block(len(batch), block), content]
            block = []
        else:
            form = _FORMS[field.type]
            block += [(">i4", np.dtype(form).itemsize), (form, _values(field, column))]
    if block:
        pieces.append(_block(len(batch), block))
    rows = pc.binary_join_element_wise(
        *pieces, pa.scalar(b"", BINARY), null_handling="replace", null_replacement=""
    )
    return content_of(rows)[0]


def _values(field: Field, column: pa.Array) -> Any:
    return id_bytes(column) if field.type == "id" else without_nulls(column)


def _block(rows: int, block: list[tuple[str, Any]]) -> pa.Array:
    """Values in their forms, one behind the other, as one binary value for each row."""
    records = np.empty(rows, [(str(number), form) for number, (form, _) in enumerate(block)])
    for number, (_, values) in enumerate(block):
        records[str(number)] = values
    return fixed_binary(records)


def _lengths(content: pa.Array) -> Any:
    lengths = np.diff(content_of(content)[1])
    if content.null_count:
        lengths[content.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return lengths


def _varying(field: Field, column: pa.Array) -> pa.Array:
    """A column of texts, or with nulls, as binary values."""
    if field.type == "str":
        return column.view(BINARY)
    return fixed_binary(_values(field, column).astype(_FORMS[field.type]), like=column)
