"""Which rows of the tables a figure shows, in which order, and what they are called there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, title, varying_factors
from storewise.analysis.common.frames import grouped, key_of, records
from storewise.analysis.common.text import number, setting
from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Mode, Point, Series, point

#: What rates of the null engine are: they store nothing.
CLIENTS_CEILING = "client's ceiling"
#: Seconds of work from which on such a rate is told.
_LEAST_WORK = 1.0
#: Lines of a panel, and rows of one, beyond which each engine is shown at its lowest setting.
LINES, ROWS = 9, 24
#: Axis labels of numeric factors.
FACTOR_LABELS = {
    "nodes": "data nodes",
    "node_threads": "threads per node",
    "node_memory_mb": "memory per node in MiB",
    "processes": "processes per worker",
    "threads": "threads per process",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows of a figure, the factors that tell its lines apart, and what is left out."""

    rows: pd.DataFrame
    names: Sequence[str]
    note: str


def choose(table: pd.DataFrame, names: Sequence[str], most: int, panel: str = "phase") -> Shown:
    """All rows of a table, or of more lines than `most` in a panel (there is one for each level of
    column `panel`) those of each engine at the lowest level of each of these factors; a factor
    that an engine does not have leaves out none of its rows."""
    names = [n for n in varying_factors(table, names) if n in table]
    lines = table[[panel, "engine", *names]].drop_duplicates().groupby(panel).size()
    if not names or lines.max() <= most:
        return Shown(table, names, "")
    kept = []
    for _, rows in table.groupby("engine", sort=False):
        for name in names:
            levels = rows[name].dropna()
            if len(levels):
                rows = rows[rows[name] == levels.min()]
        kept.append(rows)
    note = f"At the lowest {', '.join(names)} of each store; the table has all."
    return Shown(pd.concat(kept), [], note)


def phase_title(phase: str) -> str:
    return {"write": "write (parsing and loading)"}.get(phase, phase)


def line_name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Engine and setting of a row; the null engine is only told as the client's ceiling."""
    engine = str(row["engine"])
    name = CLIENTS_CEILING if engine == CEILING else title(engine)
    return ", ".join(filter(None, (name, setting(row, names))))


def row_name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The name of a row of a panel."""
    return ", ".join(filter(None, (line_name(row, names), row.get(WITH))))


def by_engine(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(engine, its rows) in the order of the legend: the baseline first, the ceiling last."""
    for engine in sorted(set(table["engine"]), key=lambda e: (e == CEILING, e != BASELINE, e)):
        yield str(engine), table[table["engine"] == engine]


def by_phase(tables: Tables, table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(phase, its rows) in the order in which they ran."""
    for phase in tables.phases_of(table):
        yield phase, table[table["phase"] == phase]


def without_idle_ceiling(rates: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Rates without those of the null engine where its phase had less than _LEAST_WORK to do: such
    a rate is that of a clock."""
    if rates.empty:
        return rates
    walls = tables.throughput.merge(tables.trials[["trial", "engine"]], on="trial")
    walls = walls[(walls["measure"] == "duration") & (walls["engine"] == CEILING)]
    idle = set(walls.loc[walls["value"] < _LEAST_WORK, "phase"])
    return rates[~((rates["engine"] == CEILING) & rates["phase"].isin(idle))]


def lines_in(table: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[int, pd.DataFrame]]:
    """(place among the settings of its engine, rows) of each line of a panel."""
    for _, rows in by_engine(table):
        groups = [group for _, group in grouped(rows, names)] if names else [rows]
        yield from enumerate(groups)


def labelled(table: pd.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    """(label in the index, row) of each row."""
    return zip(table.index, records(table), strict=True)


def points_of(
    group: pd.DataFrame,
    x: str,
    y: str,
    table: str,
    words: Callable[[dict[str, Any]], str],
    scale: float = 1.0,
) -> list[Point]:
    """A point per row of a part of a table, its value in words, and `table` as its source."""
    return [
        point(row[x], row[y] * scale, row, words(row), f"{table}:{label}", scale=scale)
        for label, row in labelled(group)
    ]


def line_of(
    group: pd.DataFrame, names: Sequence[str], points: Sequence[Point], dash: int
) -> Series:
    """The line of one setting of an engine, told from its others by its dashes."""
    first = records(group)[0]
    return Series(line_name(first, names), points, engine=str(first["engine"]), dash=dash)


def series_of_rows(
    table: pd.DataFrame, names: Sequence[str], csv: str, unit: str, mode: Mode
) -> list[Series]:
    """A series of one point for each row of a part of a table: the rows of a panel, engine by
    engine."""
    rows = []
    for engine, group in by_engine(table):
        for label, row in labelled(group.sort_values(list(names)) if names else group):
            name = row_name(row, names)
            words = f"{number(row['mean'])} {unit}"
            mean = point(row["mean"], name, row, words, f"{csv}:{label}")
            rows.append(Series(name, [mean], mode, engine))
    return rows


class Finder:
    """Rows of a table by the values of some columns."""

    def __init__(self, table: pd.DataFrame, keys: Sequence[str]) -> None:
        self._keys = [k for k in keys if k in table]
        self._rows: dict[tuple[Any, ...], list[int]] = {}
        for label, row in zip(table.index, records(table[self._keys]), strict=True):
            self._rows.setdefault(key_of(row, self._keys), []).append(int(label))

    def find(self, row: Mapping[str, Any]) -> tuple[int, ...]:
        """The rows that have the values of `row`; none where there are none."""
        return tuple(self._rows.get(key_of(row, self._keys), ()))

    def source(self, csv: str, row: Mapping[str, Any]) -> str:
        """``csv:row`` of the first row that has the values of `row`; empty where none has."""
        return next((f"{csv}:{label}" for label in self.find(row)), "")
