"""Rows of a table for plain Python, and groups that keep missing levels.

The stubs of pandas give every cell a union of all scalar types, which says nothing of our typed
columns; here it becomes Any once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Below this many possible groups their numbers are counted, above they are sorted.
_DENSE = 1 << 22
#: Whole numbers below this are their own numbers.
_SMALL = 1 << 16


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
    """Groups in the order of their keys, those with missing keys included, as None."""
    if table.empty:
        return []
    groups = table.groupby(list(keys), observed=True, dropna=False, sort=True)
    return [(tuple(map(_level, key)), group) for key, group in groups]


def key_of(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """The cells of a row as a key of a dict, None for those that are missing or not there."""
    return tuple(_level(row.get(name)) for name in names)


def _level(value: Any) -> Any:
    # One nan does not equal another: they would be no keys of a dict.
    return None if missing(value) else value


def missing(value: Any) -> bool:
    """Whether a cell is empty, such as that of a factor that the row's trial does not have."""
    return value is None or bool(pd.isna(value))


def json_value(value: Any) -> Any:
    """A value as JSON has it: None for what is missing or no finite number, tuples as lists."""
    if isinstance(value, Mapping):
        return {name: json_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(one) for one in value]
    return None if missing(value) or value in (math.inf, -math.inf) else value


class Numbered(NamedTuple):
    """The groups of a table's rows: `number` of each row's group, from 0 on in the order of the
    keys (missing ones last), and `first`, the place of a row of each group."""

    number: Integers
    first: Integers

    @property
    def groups(self) -> int:
        return len(self.first)

    def highest(self, values: Any) -> Floats:
        """The highest of the rows' values in each group."""
        highest = np.full(self.groups, -np.inf)
        np.maximum.at(highest, self.number, np.asarray(values, dtype=float))
        return highest


def numbered(table: pd.DataFrame, keys: Sequence[str]) -> Numbered:
    """The groups of rows with equal keys, as ``groupby(keys, dropna=False)`` has them.

    Over a million rows that takes a tenth of the time: categories are numbers already.
    """
    total: NDArray[np.int32] | Integers = np.zeros(len(table), dtype=np.int32)
    size = 1
    for key in keys:
        codes, levels = _codes(table[key])
        if levels == 1 and size > 1 and not (codes < 0).any():
            continue
        if len(codes) and codes.min() < 0:
            # Room for missing ones, behind all others.
            codes, levels = np.where(codes < 0, levels, codes), levels + 1
        if size * levels >= 1 << 31:
            total = total.astype(np.int64)
        total = total * levels + codes
        size *= levels
        if size > _DENSE:
            total, size = _close(total, size)
    number, size = _close(total, size)
    first = np.empty(size, dtype=np.int64)
    first[number[::-1]] = np.arange(len(table))[::-1]
    return Numbered(number, first)


def _codes(column: pd.Series) -> tuple[NDArray[Any], int]:
    """A number of each value, in the order of the values, -1 for missing ones, and their range."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(), len(column.cat.categories)
    values = column.to_numpy()
    if values.dtype.kind == "b":
        return values.astype(np.int32), 2
    if values.dtype.kind in "iuf" and len(values):
        # Seconds, steps, workers: small whole numbers, which need no table of them.
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        if low >= 0 and high < _SMALL:
            gaps = np.isnan(values) if values.dtype.kind == "f" else None
            known = values if gaps is None else np.where(gaps, -1, values)
            whole = known.astype(np.int32)
            if gaps is None or (whole == known).all():
                return whole, int(high) + 1
    codes, levels = pd.factorize(column, sort=True)
    return codes, len(levels)


def _close(total: NDArray[Any], size: int) -> tuple[Integers, int]:
    """The same groups numbered without gaps, in the same order, and how many they are; `size` is
    above all numbers."""
    if size > _DENSE:
        groups, number = np.unique(total, return_inverse=True)
        return number.astype(np.int64), len(groups)
    present = np.zeros(size, dtype=bool)
    present[total] = True
    places = np.cumsum(present) - 1
    return places[total], int(places[-1]) + 1 if size else 0


def keys_of(table: pd.DataFrame, keys: Sequence[str], rows: Integers) -> pd.DataFrame:
    """The keys of some rows, by their places, with a new index."""
    return table[list(keys)].iloc[rows].reset_index(drop=True)


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables with equal columns as one, categories of several kept as such."""
    filled = [table for table in tables if len(table)]
    if len(filled) < 2:
        return filled[0].reset_index(drop=True) if filled else tables[0]
    both = pd.concat(filled, ignore_index=True)
    for name in filled[0]:
        columns = [table[name] for table in filled]
        if all(isinstance(one.dtype, pd.CategoricalDtype) for one in columns):
            both[name] = union_categoricals(columns)
    return both
