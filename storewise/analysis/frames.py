"""Rows of a table for plain Python, and groups that keep missing levels.

The stubs of pandas give every cell a union of all scalar types, which says nothing of our typed
columns; here it becomes Any once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import pandas as pd


def rows_of(table: pd.DataFrame) -> list[Any]:
    """The rows as named tuples."""
    return list(table.itertuples(index=False))


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts."""
    return cast(list[dict[str, Any]], table.to_dict("records"))


def grouped(
    table: pd.DataFrame, keys: Sequence[str]
) -> Iterable[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Groups in the order of their keys, those with missing keys included, as None."""
    if table.empty:
        return []
    groups = table.groupby(list(keys), observed=True, dropna=False, sort=True)
    return [(tuple(map(_level, key)), group) for key, group in groups]


def _level(value: Any) -> Any:
    # One nan does not equal another: they would be no keys of a dict.
    return None if missing(value) else value


def missing(value: Any) -> bool:
    """Whether a cell is empty, such as that of a factor that the row's trial does not have."""
    return value is None or bool(pd.isna(value))
