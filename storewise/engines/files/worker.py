"""Reading SSEARCH outputs for the engine ``files``: one file, one query at a time.

Processes of their own do it, which import this module and no engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.reduction import ForkingPickler
from typing import Any

from storewise.documents import KINDS, Kind
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top
from storewise.ssearch.parse.batch import no_gc
from storewise.ssearch.parse.reader import DocumentReader


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


def _kind(number: int) -> Kind:
    return KINDS[number]


# Kinds exist once in a process: their numbers are sent.
ForkingPickler.register(Kind, lambda kind: (_kind, (kind.number,)))


def answer(task: Task) -> Any:
    """The file's answer to the query; raises InputError for a file that cannot be read."""
    reader = DocumentReader(task.path, task.digest, study_fields=task.study_fields)
    with no_gc():
        documents = chain.from_iterable(getattr(batch, task.query.kind.table) for batch in reader)
        stored, ids = islice(documents, task.documents), task.ids
        return task.query.answer(d for d in stored if ids is None or d["_id"] in ids)
