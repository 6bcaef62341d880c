"""Documents as Arrow tables, for the stores that load columns."""

from __future__ import annotations

from collections.abc import Sequence

# pyarrow imports pandas at its first conversion; here it does not fall into the first batch's time.
import pandas  # noqa: F401
import pyarrow as pa

from storewise.documents import Document
from storewise.engines.support.batches import arrow_schema, is_batch, taken
from storewise.engines.support.table import Table
from storewise.errors import EngineError


def arrow_table(table: Table, documents: Sequence[Document] | pa.RecordBatch) -> pa.Table:
    """The documents, dicts or a record batch, as an Arrow table with the columns of `table`.

    A record batch is not copied. Raises EngineError for documents with other fields and for values
    that a column cannot hold.
    """
    documents = taken(table, documents)
    if is_batch(documents):
        return pa.Table.from_batches([documents])
    schema, rows = arrow_schema(table), table.rows(documents)
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    try:
        arrays = [pa.array(c, t) for c, t in zip(columns, schema.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise EngineError(
            f"a document of {table.name} has a value that its column cannot hold: {error}"
        ) from error
