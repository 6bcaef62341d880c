"""Selection of the rows that a figure shows, and their points and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import number, setting
from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import too_wide
from storewise.figures.chart import Mode, Point, Series

#: Most lines, and most rows, of a panel; if there are more, engines have their lowest setting only.
LINES, ROWS = 9, 24


@dataclass(frozen=True, slots=True)
class Shown:
    """The rows of a figure, the factors in the names of its lines, and a note on rows left out."""

    rows: pd.DataFrame
    names: Sequence[str]
    note: str


def choose(table: pd.DataFrame, names: Sequence[str], most: int, panel: str = "phase") -> Shown:
    """All rows of a table. If a panel (a level of column `panel`) would have more lines than
    `most`: only rows at the lowest level of each factor in `names`, by engine. Engines without a
    factor keep all their rows."""
    names = [n for n in varying_factors(table, names) if n in table]
    lines = table[[panel, "engine", *names]].drop_duplicates().groupby(panel).size()
    if not names or lines.max() <= most:
        return Shown(table, names, "")
    for name in names:
        lowest = table.groupby("engine", sort=False)[name].transform("min")
        table = table[(table[name] == lowest) | lowest.isna()]
    note = f"At the lowest {', '.join(names)} of each store; the table has all."
    return Shown(table, [], note)


def line_name(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Engine and setting of a row; the null engine is named the client's ceiling."""
    engine = str(row["engine"])
    name = "client's ceiling" if engine == CEILING else title(engine)
    return ", ".join(filter(None, (name, setting(row, names))))


def by_engine(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(engine, its rows) in the order of the legend: the baseline first, the ceiling last."""
    for engine in sorted(set(table["engine"]), key=lambda e: (e == CEILING, e != BASELINE, e)):
        yield str(engine), table[table["engine"] == engine]


def by_phase(tables: Tables, table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(phase, its rows) in the order in which they ran."""
    for phase in tables.phases_of(table):
        yield phase, table[table["phase"] == phase]


#: Function from a row to its tooltip.
Words = Callable[[Mapping[str, Any]], str]


def points_of(
    rows: pd.DataFrame,
    x: str,
    y: str,
    words: Words,
    table: str = "",
    scale: float = 1.0,
) -> list[Point]:
    """A point per row at `x` and `scale` times `y`, with its interval. `words` makes the tooltip of
    a row. A row with true `hollow` has a hollow marker; `table` and the row's label are the point's
    source."""
    points = []
    for label, row in zip(rows.index, records(rows), strict=True):
        low, high = (
            None if missing(row.get(end)) else scale * float(row[end]) for end in ("low", "high")
        )
        lines = [words(row)]
        if low is not None and high is not None and low < high:
            lines.append(f"95 % interval {number(low)} to {number(high)}")
            lines += ["not measured well enough"] if too_wide(low, high) else []
        lines += [] if missing(row.get("n")) else [f"n = {int(row['n'])}"]
        source = f"{table}:{label}" if table else ""
        hollow = bool(row.get("hollow"))
        points.append(Point(row[x], row[y] * scale, low, high, "\n".join(lines), source, hollow))
    return points


def curves(
    rows: pd.DataFrame,
    names: Sequence[str],
    x: str,
    y: str,
    words: Words,
    table: str = "",
    scale: float = 1.0,
) -> Iterator[tuple[Series, pd.DataFrame]]:
    """Yield (line, its rows) of each engine and setting; settings of one engine differ in their
    dashes. Other arguments are those of `points_of`."""
    for engine, of_engine in by_engine(rows):
        groups = grouped(of_engine, names) if names else [((), of_engine)]
        for dash, (_, group) in enumerate(groups):
            points = points_of(group, x, y, words, table, scale)
            name = line_name(records(group)[0], names)
            yield Series(name, points, engine=engine, dash=dash), group


def rows_of_panel(
    table: pd.DataFrame, names: Sequence[str], unit: str, source: str, mode: Mode
) -> list[Series]:
    """The rows of a panel, engine by engine: a series with one point, the mean, for each row of
    `table`."""

    def words(row: Mapping[str, Any]) -> str:
        return f"{number(row['mean'])} {unit}"

    series = []
    for engine, of_engine in by_engine(table):
        rows = of_engine.sort_values(list(names)) if names else of_engine
        points = points_of(rows, "mean", "mean", words, source)
        for row, point in zip(records(rows), points, strict=True):
            name = ", ".join(filter(None, (line_name(row, names), row.get(WITH))))
            series.append(Series(name, [replace(point, y=name)], mode, engine))
    return series
