"""Record batches of documents: their columns checked, and as rows and dicts.

pyarrow is imported with this module, so that engines import it only when they get a batch: a
worker whose documents are dicts must not pay for Arrow (`forms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storewise.documents import ID_BYTES, Document, FieldType
from storewise.engines.support.table import Row, Table, make_table
from storewise.errors import EngineError

BINARY = pa.binary()
#: The Arrow types of columns.
ARROW_TYPES: Mapping[FieldType, Any] = {
    "id": pa.binary(ID_BYTES),
    "key": BINARY,
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
}


@lru_cache
def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table; only the primary key is never null."""
    return pa.schema(
        [
            pa.field(c.name, ARROW_TYPES[c.type], nullable=c.name not in table.key)
            for c in table.columns
        ]
    )


def checked(table: Table, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the columns of `table` in its order, without a copy of them.

    EngineError for a batch that lacks a column, has one more, has one of another type, or a null
    among the ids. Of a table with a composite key: `documents_of` first.
    """
    schema, names = arrow_schema(table), batch.schema.names
    if batch.schema.equals(schema) and not batch.column(0).null_count:
        return batch
    for name in table.names:
        if name not in names:
            raise EngineError(f"a batch of {table.name} lacks the column {name!r}")
    if extra := sorted(set(names) - set(table.names)):
        raise EngineError(f"a batch of {table.name} has unknown columns: {', '.join(extra)}")
    if len(names) != len(table.names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise EngineError(f"a batch of {table.name} has columns twice: {', '.join(twice)}")
    arrays = [batch.column(names.index(name)) for name in table.names]
    for field, array in zip(schema, arrays, strict=True):
        if array.type != field.type:
            raise EngineError(
                f"{table.name}.{field.name} takes {field.type}; the batch has {array.type}"
            )
        if array.null_count and not field.nullable:
            raise EngineError(f"a batch of {table.name} has a null in {field.name}")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def ids_of(batch: pa.RecordBatch) -> list[bytes]:
    """The ids of a batch, in its order."""
    return values_of(batch.column(batch.schema.get_field_index("_id")))


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch as tuples of Python values, in the order of its columns."""
    return list(zip(*map(values_of, batch.columns), strict=True))


def documents_of(table: Table, batch: pa.RecordBatch) -> list[Document]:
    """The documents of a batch as dicts, for stores that keep no columns; EngineError as in
    `checked`."""
    study_fields = any(
        field.beyond_study and field.name not in batch.schema.names for field in table.kind.fields
    )
    columns = make_table(table.kind, study_fields=study_fields)
    return list(map(columns.decoder(), rows_of(checked(columns, batch))))


def in_order(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[bytes]]:
    """The batch in the order of its ids, equal ones as they were, and the ids."""
    ids = ids_of(batch)
    ordered = sorted(ids)
    if ids == ordered:
        return batch, ids
    return batch.take(pa.array(sorted(range(len(ids)), key=ids.__getitem__))), ordered


def newest(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with one document of each id: the last one."""
    last = {document_id: row for row, document_id in enumerate(ids_of(batch))}
    return batch if len(last) == len(batch) else batch.take(pa.array(sorted(last.values())))


def values_of(array: pa.Array) -> list[Any]:
    """The values of a column as Python objects; several times as fast as Arrow's own way."""
    if not len(array):
        return []
    if array.type == pa.string():
        return _texts(array)
    if array.type == BINARY:
        data, ends = content_of(array)
        content = bytes(data)
        return _or_none([content[a:b] for a, b in pairwise(ends.tolist())], array)
    if array.type == ARROW_TYPES["id"]:
        numbers = id_bytes(array)
    elif array.type in (pa.int64(), pa.float64()):
        numbers = without_nulls(array)
    else:
        return list(array.to_pylist())
    return _or_none(numbers.tolist(), array)


def without_nulls(array: pa.Array) -> Any:
    """The numbers of a column as a numpy array, 0 for null."""
    return (pc.fill_null(array, 0) if array.null_count else array).to_numpy()


def content_of(array: pa.Array) -> tuple[memoryview, Any]:
    """The bytes of a column of texts or of binary values, one value behind the other, and where
    each value begins and the last one ends."""
    if not len(array):
        return memoryview(b""), np.zeros(1, np.int32)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    whole = memoryview(b"" if data is None else data)
    return whole[ends[0] : ends[-1]], ends - ends[0]


def id_bytes(array: pa.Array) -> Any:
    """The ids of a column as a numpy array of 12 bytes each; of a null any."""
    form = f"V{ID_BYTES}"
    return np.frombuffer(array.buffers()[1], form, len(array), array.offset * ID_BYTES)


def fixed_binary(records: Any, like: pa.Array | None = None) -> pa.Array:
    """The records of a numpy array as a column of binary values; null where `like` is."""
    ends = np.arange(len(records) + 1, dtype=np.int32) * np.int32(records.itemsize)
    valid = None
    if like is not None and like.null_count:
        there = like.is_valid().to_numpy(zero_copy_only=False)
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    data = pa.py_buffer(records.view(np.uint8))
    return pa.Array.from_buffers(BINARY, len(records), [valid, pa.py_buffer(ends), data])


def _texts(array: pa.Array) -> list[Any]:
    data, ends = content_of(array)
    content = bytes(data)
    places = pairwise(ends.tolist())
    if content.isascii():
        text = content.decode("ascii")
        return _or_none([text[start:end] for start, end in places], array)
    return _or_none([content[start:end].decode() for start, end in places], array)


def _or_none(values: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[row] = None
    return values
