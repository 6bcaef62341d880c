"""Batches of documents to insert: dicts, or an Arrow record batch.

pyarrow is imported only if needed: hundreds of workers start, and dicts do not need it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from storewise.documents import ID_BYTES, Document, Kind
from storewise.engines.support.table import Row, Table, make_table
from storewise.errors import EngineError


def prepare(kinds: Iterable[Kind]) -> None:
    """Import pyarrow before the first insert if a workload with these `kinds` may use record
    batches."""
    if any(make_table(kind, study_fields=False).takes_columns for kind in kinds):
        import_module("pyarrow")


def is_batch(documents: object) -> bool:
    """Whether these are a `pyarrow.RecordBatch`."""
    return isinstance(documents, getattr(sys.modules.get("pyarrow"), "RecordBatch", ()))


def taken(table: Table, documents: Sequence[Any]) -> Any:
    """The documents, either dicts or a record batch that is checked to have the table's columns.

    EngineError for a batch with other columns; dicts are checked by `Table.rows`.
    """
    if not is_batch(documents):
        return documents
    return (checked if table.takes_columns else documents_of)(table, documents)


def rows_of(table: Table, documents: Sequence[Any]) -> list[Row]:
    """`Table.rows` of dicts, or of a record batch."""
    documents = taken(table, documents)
    return batch_rows(documents) if is_batch(documents) else table.rows(documents)


def ids_of(documents: Any) -> list[bytes]:
    """The ids of dicts, or of a record batch."""
    if is_batch(documents):
        return _values(documents.column("_id"))
    return [document["_id"] for document in documents]


@lru_cache
def arrow_schema(table: Table) -> Any:
    """The `pyarrow.Schema` of a table; only the primary key is never null."""
    import pyarrow as pa

    types = {
        "id": pa.binary(ID_BYTES),
        "key": pa.binary(),
        "int": pa.int64(),
        "float": pa.float64(),
        "str": pa.string(),
    }
    return pa.schema(
        [pa.field(c.name, types[c.type], nullable=c.name not in table.key) for c in table.columns]
    )


def checked(table: Table, batch: Any) -> Any:
    """The batch, which must have the columns of `table` in its order, with `arrow_schema`."""
    schema, given = arrow_schema(table), batch.schema
    if given.names != schema.names or given.types != schema.types:
        columns, expected = (", ".join(f"{f.name} ({f.type})" for f in s) for s in (given, schema))
        raise EngineError(f"a batch of {table.name} has the columns {columns}; expected {expected}")
    if batch.column(0).null_count:
        raise EngineError(f"a batch of {table.name} has a null in _id")
    return type(batch).from_arrays(batch.columns, schema=schema)


def batch_rows(batch: Any) -> list[Row]:
    """The rows of a batch as tuples of Python values, in the order of its columns."""
    return list(zip(*map(_values, batch.columns), strict=True))


def documents_of(table: Table, batch: Any) -> list[Document]:
    """The documents of a batch as dicts, for stores that keep no columns; EngineError as in
    `checked`."""
    study_fields = any(
        field.beyond_study and field.name not in batch.schema.names for field in table.kind.fields
    )
    columns = make_table(table.kind, study_fields=study_fields)
    return list(map(columns.decoder(), batch_rows(checked(columns, batch))))


def _values(array: Any) -> list[Any]:
    """The values of a column as Python objects."""
    if str(array.type) == f"fixed_size_binary[{ID_BYTES}]":  # of these `to_pylist` is slow
        values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(array.to_pylist())
