"""What steps show: throughput and run time over clients, latency over throughput."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.measure.steps import wide
from storewise.analysis.model.columns import ALL, OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, level_axis, point
from storewise.figures.selection import (
    LINES,
    Finder,
    Shown,
    by_phase,
    choose,
    line_of,
    lines_in,
    without_idle_ceiling,
)
from storewise.figures.style import DASHED, SOLID

_RATE = "operations_per_s"
#: (row of a step, measure) -> the row of the table that has its value.
_Source = Callable[[Mapping[str, Any], str], str]


def _steps(tables: Tables, *, whole: bool) -> tuple[pd.DataFrame, _Source]:
    """Steps as wide rows, of all operations together or of each; and where their values are."""
    factors = tables.results.factors
    steps = tables.steps[tables.steps["operation"].eq(ALL) == whole]
    keys = [*factors, "phase", "step", "operation", *PARAMETERS, OTHER, "measure"]
    finder = Finder(tables.steps, keys)
    return wide(steps, factors), lambda row, name: finder.source(
        "summary", {**row, "measure": name}
    )


def _alike(tables: Tables, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(phase, and what else its steps differ in; steps that differ in nothing but PARAMETERS): no
    line joins steps of different work."""
    for phase, in_phase in by_phase(tables, rows):
        for other in dict.fromkeys(map(str, in_phase[OTHER])):
            heading = f"{phase}, {other}" if other else phase
            yield heading, in_phase[in_phase[OTHER] == other]


def _highest(rows: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Rows at the highest value of each of these parameters (none at all counts as the lowest)."""
    for name in names:
        values = rows[name].dropna()
        if len(values):
            rows = rows[rows[name] == values.max()]
    return rows


def _parameters(row: Mapping[str, Any]) -> str:
    """The parameters of a step in words."""
    words = []
    if not missing(row["clients"]):
        words.append(f"{row['clients']:g} clients")
    if not missing(row["rate"]):
        words.append(f"target {number(row['rate'])}/s")
    if not missing(row["planned"]):
        words.append(f"{row['planned']:,.0f} operations planned")
    return ", ".join(words)


def clients(tables: Tables) -> Chart | None:
    """Operations per second over client threads, a panel per phase."""
    rows, source = _steps(tables, whole=True)
    if rows.empty or _RATE not in rows:
        return None
    rows = without_idle_ceiling(rows[rows[_RATE] > 0], tables)
    shown = choose(rows, tables.results.factors, LINES)
    panels = []
    for heading, group in _alike(tables, shown.rows):
        group = _highest(group, "planned", "rate").sort_values(["clients", _RATE])
        if group["clients"].nunique() < 2:
            continue
        lines = []
        for rank, of_line in lines_in(group, shown.names):
            points = [
                point(row["clients"], row[_RATE], row, _words(row), source(row, _RATE))
                for row in records(of_line.drop_duplicates("clients"))
            ]
            lines.append(line_of(of_line, shown.names, points, rank))
        x = level_axis("client threads", group["clients"])
        panels.append(Panel(heading, x, Axis("operations per second"), lines))
    return Chart(panels, shown.note)


def _words(row: Mapping[str, Any]) -> str:
    return f"{number(row[_RATE])} operations/s ({_parameters(row)})"


def latency_over_throughput(tables: Tables) -> Chart | None:
    """Response time of each operation over the throughput of all: mean, and p99 dashed."""
    each, source = _steps(tables, whole=False)
    whole, _ = _steps(tables, whole=True)
    if each.empty or "response_mean" not in each or whole.empty:
        return None
    keys = [*tables.results.factors, "phase", "step", *PARAMETERS, OTHER]
    reached = whole[[*keys, _RATE]].rename(columns={_RATE: "reached"})
    # The interval of a step is that of its throughput.
    rows = each.drop(columns=["low", "high"]).merge(reached, on=keys, how="inner")
    rows = rows[rows["response_mean"].notna() & (rows["reached"] > 0)]
    rows = rows[rows["engine"] != CEILING]
    if rows.empty:
        return None
    shown = choose(rows, tables.results.factors, LINES)
    panels = []
    for heading, alike in _alike(tables, shown.rows):
        for operation, rows in alike.groupby("operation", observed=True):
            group = _highest(rows, "planned")
            if group.groupby("engine")["reached"].nunique().max() > 1:
                x = Axis("operations per second, all together")
                lines = list(_times(group, shown, source))
                panels.append(
                    Panel(f"{heading}: {operation}", x, Axis("response time in ms"), lines)
                )
    return Chart(panels, shown.note)


def _times(rows: pd.DataFrame, shown: Shown, source: _Source) -> Iterator[Series]:
    for _, group in lines_in(rows, shown.names):
        # Steps are joined in the order of their load.
        load = "rate" if group["rate"].nunique() > 1 else "clients"
        group = group.sort_values([load, "reached"])
        points = [_time(row, "response_mean", source) for row in records(group)]
        line = line_of(group, shown.names, points, SOLID)
        yield line
        # Of few operations there is none.
        tail = group.dropna(subset="response_p99") if "response_p99" in group else group.iloc[:0]
        points = [_time(row, "response_p99", source) for row in records(tail)]
        if points:
            yield replace(line, name=f"{line.name}: p99", points=points, dash=DASHED)


def _time(row: Mapping[str, Any], measure: str, source: _Source) -> Point:
    words = f"{seconds(row[measure])} at {number(row['reached'])} operations/s"
    words += f" ({_parameters(row)})"
    return point(row["reached"], row[measure] * 1e3, row, words, source(row, measure))
