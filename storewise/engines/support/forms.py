"""The forms in which a store is given documents: dicts, or a record batch of Arrow.

pyarrow is imported only where batches may come: a worker whose documents are dicts must not pay for
it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, cast

from storewise.documents import Kind
from storewise.engines.support.table import Row, Table, make_table


def is_batch(documents: object) -> bool:
    """Whether these are a `pyarrow.RecordBatch`."""
    batch = getattr(sys.modules.get("pyarrow"), "RecordBatch", ())
    return isinstance(documents, batch)


def prepare(kinds: Iterable[Kind]) -> None:
    """Import what record batches need where a workload may bring some (it stores `kinds`), so that
    the first one does not wait for it."""
    if any(make_table(kind, study_fields=False).takes_columns for kind in kinds):
        import_module("storewise.engines.support.batches")


def taken(table: Table, documents: Sequence[Any]) -> Sequence[Any]:
    """What an engine goes on with of the documents that it is given: a record batch that has the
    table's columns in its order, or dicts.

    EngineError for a batch with other columns; dicts are checked by `Table.rows`.
    """
    if not is_batch(documents):
        return documents
    from storewise.engines.support import batches

    batch: Any = documents
    made: Any = (batches.checked if table.takes_columns else batches.documents_of)(table, batch)
    return cast(Sequence[Any], made)


def rows_of(table: Table, documents: Sequence[Any]) -> list[Row]:
    """`Table.rows` of dicts, or of a record batch."""
    documents = taken(table, documents)
    if not is_batch(documents):
        return table.rows(documents)
    from storewise.engines.support import batches

    return batches.rows_of(documents)
