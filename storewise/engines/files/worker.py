"""Reading SSEARCH outputs for the engine ``files``: one file, one query at a time.

Processes of their own do it, which import this module and no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.queries import Count, Find, Histogram, Operator, Scan, Top
from storewise.ssearch.parse.batch import no_gc
from storewise.ssearch.reader import DocumentReader


@dataclass(frozen=True, slots=True)
class Task:
    """One query of one file."""

    path: str
    digest: bytes
    documents: int
    """Documents of the query's kind that count as stored: the first ones."""
    study_fields: bool
    query: Scan | Find | Count | Top | Histogram
    ids: frozenset[bytes] | None = None
    """Only documents with these ids; None: all."""
    format: str = ""
    """Text of the file's `InputFormat`."""


_COMPARE: Mapping[Operator, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _kind(number: int) -> Kind:
    return KINDS[number]


# Kinds exist once in a process: their numbers are sent.
ForkingPickler.register(Kind, lambda kind: (_kind, (kind.number,)))


def answer(task: Task) -> Any:
    """The file's answer to the query; raises InputError for a file that cannot be read."""
    # Tasks have open fields, which columns lack; there are few of them.
    columns = task.query.kind is not Kind.TASKS
    reader = DocumentReader(
        task.path,
        task.digest,
        input_format=task.format,
        encoding="arrow" if columns else "dict",
        study_fields=task.study_fields,
    )
    with no_gc():
        parts = (getattr(batch, task.query.kind.table) for batch in reader)
        if columns:
            return task.query.answer(_matching(parts, task))
        stored, ids = islice(chain.from_iterable(parts), task.documents), task.ids
        return task.query.answer(d for d in stored if ids is None or d["_id"] in ids)


def _matching(batches: Iterable[Any], task: Task) -> Iterator[Document]:
    """The documents that match the query; only these are built from the columns, as `grep` prints
    only the lines that match."""
    query, left = task.query, task.documents
    for batch in batches:
        if left <= 0:
            return
        some, left = batch.slice(0, left), left - len(batch)
        if task.ids is not None:
            wanted = pa.array(sorted(task.ids), some.schema.field("_id").type)
            some = some.filter(pc.is_in(some["_id"], wanted))
        where = () if isinstance(query, Histogram) else query.where
        for one in where:
            if one.field not in some.schema.names:
                return
            some = some.filter(_COMPARE[one.op](some[one.field], one.value))
        if isinstance(query, Top | Histogram):
            wanted = {query.field, *(one.field for one in where)}
            some = some.select([name for name in some.schema.names if name in wanted])
        yield from some.to_pylist()
