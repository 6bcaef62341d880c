"""Reading SSEARCH outputs for the engine ``files``: one file, one query at a time.

Run as a program it is a worker process: it takes pickled `Task` objects on its standard input and
answers each with a pickled (True, result) or (False, message); it ends when its input does.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Sequence
from copyreg import dispatch_table
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top
from storewise.errors import StorewiseError
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


class _Pickler(pickle.Pickler):
    """Kinds exist once in a process: their numbers are sent."""

    dispatch_table = {**dispatch_table, Kind: lambda kind: (_kind, (kind.number,))}  # noqa: RUF012


def _kind(number: int) -> Kind:
    return KINDS[number]


def send(message: Any, stream: IO[bytes]) -> None:
    """Write a pickled message."""
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(message)
    stream.flush()


def answer(task: Task) -> Any:
    """The file's answer to the query; raises InputError for a file that cannot be read."""
    with no_gc():
        documents = chain.from_iterable(_batches(task))
        ids = task.ids
        return task.query.answer(d for d in documents if ids is None or d["_id"] in ids)


def _batches(task: Task) -> Iterator[list[Document]]:
    """The stored documents of the query's kind, in the order of ids."""
    left = task.documents
    if not left:
        return
    for batch in DocumentReader(task.path, task.digest, study_fields=task.study_fields):
        documents: list[Document] = getattr(batch, task.query.kind.table)[:left]
        yield documents
        left -= len(documents)
        if not left:
            return


def serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    """Answer pickled tasks of one binary stream on another until the first ends."""
    while True:
        try:
            task = pickle.load(tasks)
        except EOFError:
            return
        try:
            reply: tuple[bool, Any] = (True, answer(task))
        except (StorewiseError, OSError) as error:
            reply = (False, str(error))
        send(reply, answers)


def command() -> Sequence[str]:
    """How a worker process is started."""
    return [sys.executable, "-m", "storewise.engines.files.worker"]


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
