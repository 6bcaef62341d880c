"""Queries as values, and how the client computes their answers.

A store answers a query in its own language. If it cannot, the client reads the documents and
computes the same result with the query's `answer`; `merged` combines the answers of several stores.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from math import floor, isfinite
from operator import itemgetter
from typing import Any, Literal

from storewise.documents import Document, Kind

Operator = Literal["=", "<", "<=", ">", ">="]
_COMPARE: Mapping[Operator, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Where:
    """One condition on a field; a null field fulfils none. Several are joined by AND.

    The value is of the field's own type: a 64-bit integer, a finite float, a text, an id.
    """

    field: str
    op: Operator
    value: float | str | bytes


def _matching(documents: Iterable[Document], where: tuple[Where, ...]) -> Iterator[Document]:
    """The documents that fulfil all conditions."""
    tests = [(one.field, _COMPARE[one.op], one.value) for one in where]
    for document in documents:
        for name, test, bound in tests:
            value = document.get(name)
            if value is None or not test(value, bound):
                break
        else:
            yield document


@dataclass(frozen=True, slots=True)
class Scan:
    """The first `limit` documents in the order of ids: from id `start` on, which need not exist
    (``b""``: from the first one), or after the id `after`."""

    kind: Kind
    start: bytes
    limit: int
    after: bytes | None = None

    @property
    def where(self) -> tuple[Where, ...]:
        """The condition on the ids; empty if the scan begins with the first one."""
        if self.after is not None:
            return (Where("_id", ">", self.after),)
        return (Where("_id", ">=", self.start),) if self.start else ()

    def answer(self, documents: Iterable[Document]) -> list[Document]:
        """The answer from documents in the order of ids; reads no more than it needs."""
        return list(islice(_matching(documents, self.where), self.limit))

    def merged(self, parts: list[list[Document]]) -> list[Document]:
        """One answer of those of several stores."""
        if len(parts) == 1:
            return parts[0]
        return list(islice(heapq.merge(*parts, key=itemgetter("_id")), self.limit))


@dataclass(frozen=True, slots=True)
class Find:
    """The documents that fulfil all conditions.

    With `order_by` the first `limit` in the order of that field (not the id), ties by id, nulls
    left out; without it any `limit` of them. All where `limit` is None.
    """

    kind: Kind
    where: tuple[Where, ...] = ()
    order_by: str | None = None
    limit: int | None = None

    def answer(self, documents: Iterable[Document]) -> list[Document]:
        """The answer from documents of which some may not fulfil the conditions."""
        return self.merged([_matching(documents, self.where)])

    def merged(self, parts: Iterable[Iterable[Document]]) -> list[Document]:
        """The answer from documents that fulfil the conditions; without an order no part is read
        that is not needed."""
        documents = chain.from_iterable(parts)
        if self.order_by is None:
            return list(islice(documents, self.limit))
        known = [d for d in documents if d.get(self.order_by) is not None]
        return sorted(known, key=itemgetter(self.order_by, "_id"))[: self.limit]


@dataclass(frozen=True, slots=True)
class Count:
    """Count the documents that fulfil all conditions."""

    kind: Kind
    where: tuple[Where, ...] = ()

    def answer(self, documents: Iterable[Document]) -> int:
        return sum(1 for _ in _matching(documents, self.where))


@dataclass(frozen=True, slots=True)
class Top:
    """The `limit` most frequent values of a field with their numbers of documents, most frequent
    first, ties by value; null values are left out. Only of documents that fulfil all conditions."""

    kind: Kind
    field: str
    limit: int
    where: tuple[Where, ...] = ()

    def answer(self, documents: Iterable[Document]) -> list[tuple[Any, int]]:
        values = (document.get(self.field) for document in _matching(documents, self.where))
        return self.merged([Counter(v for v in values if v is not None).items()])

    def merged(self, parts: Iterable[Iterable[tuple[Any, int]]]) -> list[tuple[Any, int]]:
        """One answer of the full tallies of several stores."""
        totals: Counter[Any] = Counter()
        for value, number in chain.from_iterable(parts):
            totals[value] += number
        return heapq.nsmallest(self.limit, totals.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Documents per bin of a number x: bin n is that with floor(x / width) = n, in floats. Null and
    infinite values are left out."""

    kind: Kind
    field: str
    width: float

    def answer(self, documents: Iterable[Document]) -> dict[int, int]:
        values = (document.get(self.field) for document in documents)
        return dict(Counter(floor(v / self.width) for v in values if v is not None and isfinite(v)))


Query = Scan | Find | Count | Top | Histogram


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan by which a store would answer a query."""

    text: str
    """The plan in the store's own words."""
    uses_index: bool | None
    """Whether it uses a secondary index; None if the store does not report it."""
