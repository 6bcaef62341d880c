"""Statements of CQL, and the bounds of its columns."""

from __future__ import annotations

import math
from typing import Any

from storewise.documents import Field
from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.support.table import Table

#: Of the ring, and of a column of integers.
FIRST_TOKEN, LAST_TOKEN = -(1 << 63), (1 << 63) - 1


def full_name(table: Table) -> str:
    return f"{KEYSPACE}.{table.name}"


def insert_cql(table: Table) -> str:
    marks = ", ".join("?" * len(table.names))
    return f"INSERT INTO {full_name(table)} ({table.select}) VALUES ({marks})"


def select_cql(table: Table, rest: str) -> str:
    return f"SELECT {table.select} FROM {full_name(table)} {rest}"


def of_key(table: Table) -> str:
    return f"WHERE {table.key_clause()}"


def bounds(
    column: Field, low: float | str | None, high: float | str | None
) -> list[tuple[str, Any]] | None:
    """Operators and values of low <= column <= high, with at least one end; None where nothing
    can be between."""
    if column.type == "float":
        # The server orders as Java does: -0.0 before 0.0, and NaN behind all others.
        least = None if low is None else float(low) or -0.0
        most = math.inf if high is None else float(high) or 0.0
        return [*([] if least is None else [(">=", least)]), ("<=", most)]
    if column.type == "int":
        whole = _whole(low, high)
        if whole is None:
            return None
        low, high = whole
    if low is not None and low == high:
        # Text columns have an index of equal values only.
        return [("=", low)]
    pairs = ((">=", low), ("<=", high))
    return [(operator, value) for operator, value in pairs if value is not None]


def _whole(low: Any, high: Any) -> tuple[int | None, int | None] | None:
    """Bounds of a column of 64-bit integers; None where nothing can be between."""
    least = -math.inf if low is None else low
    most = math.inf if high is None else high
    if math.isnan(least) or math.isnan(most) or least > LAST_TOKEN or most < FIRST_TOKEN:
        return None
    first = FIRST_TOKEN if least < FIRST_TOKEN else math.ceil(least)
    last = LAST_TOKEN if most > LAST_TOKEN else math.floor(most)
    return (first, last) if first <= last else None
