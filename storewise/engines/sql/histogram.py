"""Histograms in SQL: the class that a number is in, exactly as the contract defines it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from storewise.documents import Field
from storewise.engines.contract.queries import Histogram, check_numbers
from storewise.engines.support.table import Row, Table
from storewise.errors import EngineError

#: Beyond this number a float may stand for several integers.
_WHOLE_FLOATS = 1 << 53


class Dialect:
    """How a store writes numbers in SQL."""

    infinite: ClassVar[bool] = True
    """Whether the store can hold and compare infinite floats."""
    int_division: ClassVar[str] = "/"
    """The operator that divides integers and cuts off the rest."""

    def double(self, value: float) -> str:
        """A float: with an exponent, because some stores take 0.1 for a decimal."""
        text = repr(float(value))
        return text if "e" in text else f"{text}e0"

    def whole(self, number: str) -> str:
        """An integer next to a float, below or above."""
        return f"floor({number})"


def checked_classes(table: Table, query: Histogram) -> Field:
    """The column of a histogram; EngineError where it has no numbers."""
    column = table.column(query.field)
    check_numbers(table.name, column)
    return column


def class_of(column: Field, name: str, width: float, dialect: Dialect) -> tuple[str, str]:
    """The class of the value `name` as SQL, and the select list that it is made of."""
    if in_integers(column, width):
        whole, divide = int(width), dialect.int_division
        below = f"-(-(x + 1) {divide} {whole}) - 1"
        number = f"CASE WHEN x >= 0 THEN x {divide} {whole} ELSE {below} END"
        return number, f"{name} AS x"
    # A quotient is rounded, so that near a limit its class may be the next one.
    size = dialect.double(width)
    number = f"CASE WHEN k * {size} > x THEN k - 1 WHEN (k + 1) * {size} <= x THEN k + 1 ELSE k END"
    return number, f"{name} AS x, {dialect.whole(f'{name} / {size}')} AS k"


def added_classes(table: Table, query: Histogram, rows: Iterable[Row]) -> dict[int, int]:
    """The classes of all stores, from rows of (class, documents)."""
    exact = in_integers(table.column(query.field), query.width)
    totals: Counter[int] = Counter()
    for value, number in rows:
        if not exact and abs(value) > _WHOLE_FLOATS:
            raise EngineError(
                f"{table.name}.{query.field}: classes of width {query.width} are too narrow for "
                "its values: floats do not tell their numbers apart"
            )
        totals[int(value)] += int(number)
    return dict(totals)


def in_integers(column: Field, width: float) -> bool:
    """Whether classes are divided as integers: those of 64 bits are not all floats."""
    return column.type == "int" and width == int(width)
