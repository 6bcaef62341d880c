"""Reading SSEARCH outputs for the engine ``files``: one file, one question at a time.

Run as a program it is a worker process: it takes pickled `Task` objects on its standard input and
answers each with a pickled (True, result) or (False, message); it ends when its input does.
"""

from __future__ import annotations

import math
import operator
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from storewise.documents import KINDS, Document
from storewise.engines.contract.engine import Where
from storewise.errors import StorewiseError
from storewise.ssearch.parse.batch import no_gc
from storewise.ssearch.parse.reader import DocumentReader

Verb = Literal["get", "first", "find", "count", "aggregate", "histogram"]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Task:
    """One question about one file; fields that its verb has no use for keep their defaults."""

    path: str
    digest: bytes
    verb: Verb
    kind: int
    """`Kind.number`."""
    documents: int
    """Documents of the kind that count as stored: the first ones."""
    study_fields: bool = False
    ids: frozenset[bytes] = frozenset()
    """get: those wanted."""
    start: bytes = b""
    """first: the least id."""
    where: tuple[Where, ...] = ()
    order_by: str | None = None
    descending: bool = False
    limit: int | None = None
    field: str = ""
    """aggregate, histogram; find: a field that must not be null."""
    width: float = 1.0


def answer(task: Task) -> Any:
    """What a file says to a question.

    get: the documents found; first and find: documents; count: a number; aggregate: numbers by
    value; histogram: numbers by class. Raises InputError for a file that cannot be read.
    """
    with no_gc():
        if task.verb == "get":
            return _get(task)
        if task.verb == "first":
            return _first(task)
        if task.verb == "find":
            return _find(task)
        found = _matching(task)
        if task.verb == "count":
            return sum(1 for _ in found)
        values = (d[task.field] for d in found)
        if task.verb == "aggregate":
            return Counter(v for v in values if v is not None)
        return Counter(math.floor(v / task.width) for v in values if v is not None)


def in_order(
    documents: list[Document], order_by: str, descending: bool, limit: int | None
) -> list[Document]:
    """Documents without nulls in the order of a field, ties by id, the first `limit`."""
    documents.sort(key=lambda d: bytes(d["_id"]))
    documents.sort(key=lambda d: d[order_by], reverse=descending)  # stable, reversed or not
    return documents[:limit]


def _batches(task: Task) -> Iterator[list[Document]]:
    """The stored documents of the task's kind, in the order of ids."""
    kind, left = KINDS[task.kind], task.documents
    if not left:
        return
    for batch in DocumentReader(task.path, task.digest, study_fields=task.study_fields):
        found: list[Document] = getattr(batch, kind.table)[:left]
        yield found
        left -= len(found)
        if not left:
            return


def _matching(task: Task) -> Iterator[Document]:
    tests = [(w.field, _OPERATORS[w.op], w.value) for w in task.where]
    for batch in _batches(task):
        for document in batch:
            for name, test, bound in tests:
                value = document.get(name)
                if value is None or not test(value, bound):
                    break
            else:
                yield document


def _get(task: Task) -> list[Document]:
    found: list[Document] = []
    wanted = len(task.ids)
    for batch in _batches(task):
        found += [d for d in batch if d["_id"] in task.ids]
        if len(found) == wanted:
            break
    return found


def _first(task: Task) -> list[Document]:
    found: list[Document] = []
    limit = task.documents if task.limit is None else task.limit
    for batch in _batches(task):
        found += [d for d in batch if d["_id"] >= task.start]
        if len(found) >= limit:
            break
    return found[:limit]


def _find(task: Task) -> list[Document]:
    found: list[Document] = []
    name = task.order_by or task.field
    for document in _matching(task):
        if name and document.get(name) is None:
            continue
        found.append(document)
        if task.order_by is None and task.limit is not None and len(found) >= task.limit:
            break
    if task.order_by is None:
        return found
    return in_order(found, task.order_by, task.descending, task.limit)


def serve(tasks: Any, answers: Any) -> None:
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
        pickle.dump(reply, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


def command() -> Sequence[str]:
    """How a worker process is started."""
    return [sys.executable, "-m", "storewise.engines.files.worker"]


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
