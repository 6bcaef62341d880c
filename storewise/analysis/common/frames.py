"""Rows of a table for plain Python, and groups that keep missing levels.

The pandas stubs type every cell as a union of all scalars; here it becomes Any once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def rows_of(table: pd.DataFrame) -> list[Any]:
    """The rows as named tuples."""
    return list(table.itertuples(index=False))


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts of Python's own types, as `DataFrame.to_dict` makes them, which takes five
    times as long for the small tables of which a study has thousands."""
    names = list(table.columns)
    if not names:
        return [{} for _ in range(len(table))]
    columns = (_plain(table.iloc[:, place]) for place in range(len(names)))
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(column: pd.Series) -> list[Any]:
    values = column.tolist()
    if column.dtype == object:
        return [v.item() if isinstance(v, np.generic) else v for v in values]
    return values


def grouped(
    table: pd.DataFrame, keys: Sequence[str]
) -> Iterable[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Groups in the order of their keys; missing keys are None."""
    if table.empty:
        return []
    groups = table.groupby(list(keys), observed=True, dropna=False, sort=True)
    return [(tuple(map(_level, key)), group) for key, group in groups]


def key_of(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """The cells of a row as a dict key; None for a missing cell or column."""
    return tuple(_level(row.get(name)) for name in names)


def _level(value: Any) -> Any:
    # nan does not equal nan and cannot be looked up in a dict.
    return None if missing(value) else value


def missing(value: Any) -> bool:
    """Whether a cell is empty, for example because the trial does not have that factor."""
    return value is None or bool(pd.isna(value))


def json_value(value: Any) -> Any:
    """A value as JSON: None if missing or not a finite number, tuples as lists."""
    if isinstance(value, Mapping):
        return {name: json_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(one) for one in value]
    return None if missing(value) or value in (math.inf, -math.inf) else value


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables with equal columns; categorical columns stay categorical."""
    filled = [table for table in tables if len(table)]
    if len(filled) < 2:
        return filled[0].reset_index(drop=True) if filled else tables[0]
    both = pd.concat(filled, ignore_index=True)
    for name in filled[0]:
        columns = [table[name] for table in filled]
        if all(isinstance(one.dtype, pd.CategoricalDtype) for one in columns):
            both[name] = union_categoricals(columns)
    return both
