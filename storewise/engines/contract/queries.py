"""What a client can be asked, as values, and what the answers are.

A store answers a query in its own language. Where it cannot, the documents are read and the
query's `answer` makes of them what the store would have said; `merged` makes one answer of those
of several stores.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import floor, inf, isfinite
from operator import itemgetter
from typing import Any, Literal

from storewise.documents import ID_BYTES, KEY_BYTES, Document, Field, Kind
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


@dataclass(frozen=True, slots=True)
class Where:
    """One condition on a field; a null field fulfils none. Several are joined by AND.

    A query takes values of the field's own type only: 64-bit integers, finite floats (an integer
    becomes one), texts, ids as documents of the kind can have them.
    """

    field: str
    op: Operator
    value: float | str | bytes


def between(field: str, low: Any = None, high: Any = None) -> tuple[Where, ...]:
    """The conditions low <= field <= high; an open end where None."""
    ends: tuple[tuple[Operator, Any], ...] = ((">=", low), ("<=", high))
    return tuple(Where(field, op, value) for op, value in ends if value is not None)


def _typed(kind: Kind, where: Sequence[Where]) -> tuple[Where, ...]:
    """The conditions with values of their fields' types; EngineError for what cannot be asked."""
    return tuple(_typed_condition(kind, one) for one in where)


def _typed_condition(kind: Kind, where: Where) -> Where:
    column, value = _column(kind, where.field), where.value
    name = f"{kind.table}.{column.name}"
    if where.op not in OPERATORS:
        raise EngineError(
            f"a condition on {name} has the operator {where.op!r}; expected one of "
            f"{' '.join(OPERATORS)}"
        )
    if column.type == "float" and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            value = inf
    if not _comparable(column, value):
        raise EngineError(
            f"{name} is of type {column.type}; it cannot be compared with {where.value!r}"
        )
    return Where(where.field, where.op, value)


def _comparable(column: Field, value: object) -> bool:
    match column.type, value:
        case _, bool():
            return False  # an int in Python
        case "int", int():
            return -(1 << 63) <= value < 1 << 63
        case "float", float():
            return isfinite(value)
        case "id", bytes():
            return len(value) == ID_BYTES
        case "key", bytes():
            return 0 < len(value) <= KEY_BYTES and value.isascii()
        case "str", str():
            return True
    return False


def _column(kind: Kind, name: str) -> Field:
    for column in kind.fields:
        if column.name == name:
            return column
    known = ", ".join(column.name for column in kind.fields)
    raise EngineError(f"{kind.table} has no column {name!r}; it has {known}")


def _matching(documents: Iterable[Document], where: tuple[Where, ...]) -> Iterator[Document]:
    """Those of the documents that fulfil all conditions."""
    tests = [(one.field, OPERATORS[one.op], one.value) for one in where]
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
    (``b""``: from the first one), or behind the id `after`."""

    kind: Kind
    start: bytes
    limit: int
    after: bytes | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        _typed(self.kind, self.where)

    @property
    def where(self) -> tuple[Where, ...]:
        """The condition on the ids; none where the scan begins with the first one."""
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

    With `order_by` the first `limit` in the order of that field, ties by id, nulls left out;
    without it any `limit` of them. All where `limit` is None.
    """

    kind: Kind
    where: tuple[Where, ...] = ()
    order_by: str | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        if self.order_by is not None:
            _column(self.kind, self.order_by)
        object.__setattr__(self, "where", _typed(self.kind, self.where))

    def answer(self, documents: Iterable[Document]) -> list[Document]:
        """The answer from documents of which those that do not fulfil the conditions are left
        out."""
        return self.merged([_matching(documents, self.where)])

    def merged(self, parts: Iterable[Iterable[Document]]) -> list[Document]:
        """The answer from documents that fulfil the conditions; without an order no part is read
        that is not needed."""
        documents = chain.from_iterable(parts)
        if self.order_by is None:
            return list(islice(documents, self.limit))
        known = [d for d in documents if d.get(self.order_by) is not None]
        return sorted(known, key=itemgetter(self.order_by, "_id"))[: self.limit]

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", _typed(self.kind, self.where))

    def answer(self, documents: Iterable[Document]) -> int:
        """The answer from documents."""
        return sum(1 for _ in _matching(documents, self.where))


@dataclass(frozen=True, slots=True)
class Top:
    """The `limit` most frequent values of a field with their numbers of documents, most frequent
    first, ties by value; null values are left out."""

    kind: Kind
    field: str
    limit: int

    def __post_init__(self) -> None:
        _check_limit(self.limit)
        _column(self.kind, self.field)

    def answer(self, documents: Iterable[Document]) -> list[tuple[Any, int]]:
        """The answer from documents."""
        values = (document.get(self.field) for document in documents)
        return self.merged([Counter(v for v in values if v is not None).items()])

    def merged(self, parts: Iterable[Iterable[tuple[Any, int]]]) -> list[tuple[Any, int]]:
        """One answer of the full tallies of several stores."""
        totals: Counter[Any] = Counter()
        for value, number in chain.from_iterable(parts):
            totals[value] += number
        return heapq.nsmallest(self.limit, totals.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Documents per bin of a number x: bin n is that with floor(x / width) = n, in floats.

    Null and infinite values are left out, and so are documents that do not fulfil the conditions.
    """

    kind: Kind
    field: str
    width: float
    where: tuple[Where, ...] = ()

    def __post_init__(self) -> None:
        column = _column(self.kind, self.field)
        name = f"{self.kind.table}.{column.name}"
        if column.type not in ("int", "float"):
            raise EngineError(f"{name} is of type {column.type}; a histogram needs numbers")
        if not isinstance(self.width, int | float) or not 0 < self.width < inf:
            raise EngineError(
                f"{name}: the width of a bin is {self.width!r}; expected a number above 0"
            )
        object.__setattr__(self, "where", _typed(self.kind, self.where))

    def answer(self, documents: Iterable[Document]) -> dict[int, int]:
        """The answer from documents."""
        values = (document.get(self.field) for document in _matching(documents, self.where))
        bins = (floor(v / self.width) for v in values if v is not None and isfinite(v))
        return dict(Counter(bins))


Query = Scan | Find | Count | Top | Histogram


@dataclass(frozen=True, slots=True)
class Plan:
    """How a store would answer a query."""

    text: str
    """The plan in the store's own words."""
    uses_index: bool | None
    """Whether it takes a secondary index; None where the store does not tell."""


def _check_limit(limit: int | None) -> None:
    """The stores read a limit below zero in different ways."""
    if limit is not None and limit < 0:
        raise EngineError(f"a limit cannot be {limit}")
