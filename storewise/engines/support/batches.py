"""Record batches of documents: their columns checked, and as rows and dicts.

pyarrow is imported with this module, so that engines import it only when they get a batch: a
worker whose documents are dicts must not pay for Arrow (`forms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

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


def values_of(array: pa.Array) -> list[Any]:
    """The values of a column as Python objects."""
    if array.type == ARROW_TYPES["id"]:  # of values of a fixed width to_pylist is slow
        values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(array.to_pylist())
