"""What a client can be asked, as values, and what the answers are.

A store answers a query in its own language. Where it cannot, the documents are read and the
query's `answer` makes of them what the store would have said; `merged` makes one answer of those
of several stores.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from math import floor, inf, isfinite, isnan
from operator import itemgetter
from typing import Any, Literal

from storewise.documents import Document, Field, FieldType, Kind
from storewise.errors import EngineError

Operator = Literal["=", "<", "<=", ">", ">="]
#: How two values are compared.
OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_TYPES: Mapping[FieldType, tuple[type, ...]] = {
    "id": (bytes,),
    "key": (bytes,),
    "int": (int, float),
    "float": (int, float),
    "str": (str,),
}


@dataclass(frozen=True, slots=True)
class Where:
    """One condition on a field; a null field fulfils none. Several are joined by AND."""

    field: str
    op: Operator
    value: float | str | bytes


def between(field: str, low: Any = None, high: Any = None) -> tuple[Where, ...]:
    """The conditions low <= field <= high; an open end where None."""
    ends: tuple[tuple[Operator, Any], ...] = ((">=", low), ("<=", high))
    return tuple(Where(field, op, value) for op, value in ends if value is not None)


def check_condition(table: str, kind: FieldType, condition: Where) -> None:
    """EngineError where a condition asks what a field of this type cannot be asked."""
    name = f"{table}.{condition.field}"
    if condition.op not in OPERATORS:
        raise EngineError(
            f"a condition on {name} has the operator {condition.op!r}; expected one of "
            f"{' '.join(OPERATORS)}"
        )
    value = condition.value
    # A truth value is an int in Python, and no document has one.
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise EngineError(f"{name} is of type {kind}; it cannot be compared with {value!r}")
    if isinstance(value, float) and isnan(value):
        raise EngineError(f"{name}: nothing compares with {value!r}")


def _column(kind: Kind, name: str) -> Field:
    for column in kind.fields:
        if column.name == name:
            return column
    known = ", ".join(column.name for column in kind.fields)
    raise EngineError(f"{kind.table} has no column {name!r}; it has {known}")


def _matching(
    kind: Kind, documents: Iterable[Document], where: tuple[Where, ...]
) -> Iterator[Document]:
    """Those of the documents that fulfil all conditions; EngineError for wrong conditions."""
    for one in where:
        check_condition(kind.table, _column(kind, one.field).type, one)
    tests = [(one.field, OPERATORS[one.op], one.value) for one in where]
    for document in documents:
        for name, test, bound in tests:
            value = document.get(name)
            if value is None or not test(value, bound):
                break
        else:
            yield document


@dataclass(frozen=True, slots=True)
class Get:
    """One document by its id, for `Client.explain`; `Client.get` takes kind and id as they are,
    because a point read must cost the client next to nothing."""

    kind: Kind
    document_id: bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """The first `limit` documents with ids >= `start`, in the order of ids."""

    kind: Kind
    start: bytes
    limit: int

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def answer(self, documents: Iterable[Document]) -> list[Document]:
        """The answer from documents in the order of ids; reads no more than it needs."""
        return list(islice((d for d in documents if d["_id"] >= self.start), self.limit))

    def merged(self, parts: list[list[Document]]) -> list[Document]:
        """One answer of those of several stores."""
        if len(parts) == 1:
            return parts[0]
        return list(islice(heapq.merge(*parts, key=itemgetter("_id")), self.limit))


@dataclass(frozen=True, slots=True)
class Find:
    """The documents that fulfil all conditions.

    With `order_by` the first `limit` in the order of that field, ties by id, nulls left out;
    without it any `limit` of them. All where `limit` is None.
    """

    kind: Kind
    where: tuple[Where, ...] = ()
    order_by: str | None = None
    descending: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def answer(self, documents: Iterable[Document]) -> list[Document]:
        """The answer from documents of which those that do not fulfil the conditions are left
        out."""
        if self.order_by is not None:
            _column(self.kind, self.order_by)
        return self.merged([_matching(self.kind, documents, self.where)])

    def merged(self, parts: Iterable[Iterable[Document]]) -> list[Document]:
        """The answer from documents that fulfil the conditions; without an order no part is read
        that is not needed."""
        documents = chain.from_iterable(parts)
        if self.order_by is None:
            return list(islice(documents, self.limit))
        known = [d for d in documents if d.get(self.order_by) is not None]
        known.sort(key=itemgetter("_id"))
        known.sort(key=itemgetter(self.order_by), reverse=self.descending)  # stable both ways
        return known[: self.limit]

    @property
    def span(self) -> tuple[str, Any, Any] | None:
        """(field, low, high) where the conditions are low <= field <= high with at least one end,
        and there is no order; None for any other query."""
        lows: list[Any] = [one.value for one in self.where if one.op in ("=", ">=")]
        highs: list[Any] = [one.value for one in self.where if one.op in ("=", "<=")]
        ends = {(one.field, one.op in ("<", ">")) for one in self.where}
        if len(ends) != 1 or len(lows) > 1 or len(highs) > 1 or self.order_by is not None:
            return None
        ((field, exclusive),) = ends
        return None if exclusive else (field, *(lows or [None]), *(highs or [None]))


@dataclass(frozen=True, slots=True)
class Count:
    """How many documents fulfil all conditions."""

    kind: Kind
    where: tuple[Where, ...] = ()

    def answer(self, documents: Iterable[Document]) -> int:
        """The answer from documents."""
        return sum(1 for _ in _matching(self.kind, documents, self.where))


@dataclass(frozen=True, slots=True)
class Top:
    """The `limit` most frequent values of a field with their numbers of documents, most frequent
    first, ties by value; null values are left out."""

    kind: Kind
    field: str
    limit: int

    def __post_init__(self) -> None:
        _check_limit(self.limit)

    def answer(self, documents: Iterable[Document]) -> list[tuple[Any, int]]:
        """The answer from documents."""
        name = _column(self.kind, self.field).name
        values = (document.get(name) for document in documents)
        return self.merged([Counter(v for v in values if v is not None).items()])

    def merged(self, parts: Iterable[Iterable[tuple[Any, int]]]) -> list[tuple[Any, int]]:
        """One answer of the full tallies of several stores."""
        totals: Counter[Any] = Counter()
        for value, number in chain.from_iterable(parts):
            totals[value] += number
        return heapq.nsmallest(self.limit, totals.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Documents per class of a number: class n is n * width <= x < (n + 1) * width.

    Null and infinite values are left out, and so are documents that do not fulfil the conditions.
    """

    kind: Kind
    field: str
    width: float
    where: tuple[Where, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.width, int | float) or not 0 < self.width < inf:
            raise EngineError(
                f"{self.kind.table}.{self.field}: the width of a class is {self.width!r}; "
                "expected a number above 0"
            )

    def class_of(self, value: float) -> int:
        """The class that a number is in."""
        if isinstance(value, int) and self.width == int(self.width):
            return value // int(self.width)
        n = floor(value / self.width)
        # A quotient is rounded, so that near a limit its class may be the next one.
        return n - 1 if n * self.width > value else n + ((n + 1) * self.width <= value)

    def answer(self, documents: Iterable[Document]) -> dict[int, int]:
        """The answer from documents."""
        check_numbers(self.kind.table, _column(self.kind, self.field))
        matched = _matching(self.kind, documents, self.where)
        values = (document.get(self.field) for document in matched)
        return dict(Counter(self.class_of(v) for v in values if v is not None and isfinite(v)))


def check_numbers(table: str, column: Field) -> None:
    """EngineError for a histogram of a field that has no numbers."""
    if column.type not in ("int", "float"):
        raise EngineError(
            f"{table}.{column.name} is of type {column.type}; a histogram needs numbers"
        )


Query = Get | Scan | Find | Count | Top | Histogram


def _check_limit(limit: int | None) -> None:
    """The stores read a limit below zero in different ways."""
    if limit is not None and limit < 0:
        raise EngineError(f"a limit cannot be {limit}")
