"""What steps show: throughput over clients, latency over throughput, run time over clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING, varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import number, seconds
from storewise.analysis.measure.steps import wide
from storewise.analysis.model.columns import ALL, OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Series, level_axis, point
from storewise.figures.selection import (
    Finder,
    line_of,
    lines_in,
    lowest,
    setting_note,
    without_idle_ceiling,
)
from storewise.figures.style import DASHED, SOLID

_RATE = "operations_per_s"


class _Steps:
    """Steps as wide rows, with the rows of the long table behind each."""

    def __init__(self, tables: Tables, *, whole: bool) -> None:
        factors = tables.results.factors
        steps = tables.steps[tables.steps["operation"].eq(ALL) == whole]
        self.names = varying_factors(steps, factors)
        self.rows = wide(steps, factors)
        keys = [*factors, "phase", "step", "operation", *PARAMETERS, OTHER, "measure"]
        self._finder = Finder(tables.steps, keys)

    def source(self, row: dict[str, Any], measure: str) -> str:
        return self._finder.source("steps", {**row, "measure": measure})


def _alike(tables: Tables, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """(phase, and what else its steps differ in; steps that differ in nothing but PARAMETERS): no
    line joins steps of different work."""
    for phase in tables.phases_of(rows):
        in_phase = rows[rows["phase"] == phase]
        for other in dict.fromkeys(map(str, in_phase[OTHER])):
            heading = f"{phase}, {other}" if other else phase
            yield heading, in_phase[in_phase[OTHER] == other]


def _highest(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Rows at the highest value of each of these parameters (none at all counts as the lowest)."""
    for name in names:
        values = rows[name].dropna()
        if len(values):
            rows = rows[rows[name] == values.max()]
    return rows


def _parameters(row: dict[str, Any]) -> str:
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
    steps = _Steps(tables, whole=True)
    if steps.rows.empty or _RATE not in steps.rows:
        return None
    rows = without_idle_ceiling(steps.rows[steps.rows[_RATE] > 0], tables)
    printed = lowest(rows, steps.names)
    panels = []
    for heading, group in _alike(tables, rows):
        group = _highest(group, ["planned", "rate"])
        if group["clients"].nunique() > 1:
            y = Axis("operations per second")
            panels.append(_over_clients(steps, heading, group, y, _RATE, "operations/s", printed))
    return _chart(panels, printed, steps.names, most=8)


def runtime(tables: Tables) -> Chart | None:
    """Run time over client threads, a panel per number of operations of a phase."""
    steps = _Steps(tables, whole=True)
    if steps.rows.empty or "duration" not in steps.rows:
        return None
    printed = lowest(steps.rows, steps.names)
    panels = []
    for heading, group in _alike(tables, steps.rows):
        counts = sorted(group["planned"].dropna().unique())
        for count in counts if len(counts) > 1 else ():
            rows = group[group["planned"] == count]
            text = f"{heading}: {count:,.0f} operations"
            y = Axis("run time in s")
            panels.append(_over_clients(steps, text, rows, y, "duration", "s", printed))
    return _chart(panels, printed, steps.names)


def _chart(
    panels: list[Panel], printed: pd.DataFrame, names: Sequence[str], most: int = 12
) -> Chart | None:
    if not panels:
        return None
    note = setting_note(printed, names)
    return Chart(panels, height=3.0, columns=2, most=most, note=note, lowest=True)


def _over_clients(
    steps: _Steps,
    heading: str,
    rows: pd.DataFrame,
    y: Axis,
    measure: str,
    unit: str,
    printed: pd.DataFrame,
) -> Panel:
    lines = []
    for rank, group in lines_in(rows, steps.names):
        group = group.sort_values(["clients", measure]).drop_duplicates("clients")
        if measure != _RATE:
            # The interval of a step is that of its throughput.
            group = group.assign(low=None, high=None)
        points = [
            point(
                row["clients"],
                row[measure],
                row,
                f"{number(row[measure])} {unit} ({_parameters(row)})",
                steps.source(row, measure),
            )
            for row in records(group)
        ]
        lines.append(line_of(group, steps.names, points, rank, printed))
    return Panel(heading, level_axis("client threads", rows["clients"]), y, lines)


def latency_over_throughput(tables: Tables) -> Chart | None:
    """Response time of each operation over the throughput of all: mean, and p99 dashed."""
    each, whole = _Steps(tables, whole=False), _Steps(tables, whole=True)
    if each.rows.empty or "response_mean" not in each.rows or whole.rows.empty:
        return None
    keys = [*tables.results.factors, "phase", "step", *PARAMETERS, OTHER]
    reached = whole.rows[[*keys, _RATE]].rename(columns={_RATE: "reached"})
    rows = each.rows.merge(reached, on=keys, how="inner")
    rows = rows[rows["response_mean"].notna() & (rows["reached"] > 0)]
    rows = rows[rows["engine"] != CEILING]
    printed = lowest(rows, each.names)
    panels = []
    for heading, alike in _alike(tables, rows):
        for operation in sorted(set(alike["operation"])):
            group = _highest(alike[alike["operation"] == operation], ["planned"])
            if group.groupby("engine")["reached"].nunique().max() > 1:
                lines = _times(each, group, printed)
                x = Axis("operations per second, all together")
                y = Axis("response time in ms", unit="ms")
                panels.append(Panel(f"{heading}: {operation}", x, y, lines))
    return _chart(panels, printed, each.names)


def _times(steps: _Steps, rows: pd.DataFrame, printed: pd.DataFrame) -> list[Series]:
    lines = []
    for rank, group in lines_in(rows, steps.names):
        # Steps are joined in the order of their load.
        load = "rate" if group["rate"].nunique() > 1 else "clients"
        # The interval of a step is that of its throughput.
        group = group.sort_values([load, "reached"]).drop(columns=["low", "high"])
        for measure, words, look in (
            ("response_mean", "mean", {"dash": SOLID}),
            ("response_p99", "99th percentile", {"dash": DASHED, "legend": ""}),
        ):
            points = [
                point(
                    row["reached"],
                    row[measure] * 1e3,
                    row,
                    f"{seconds(row[measure])} at {number(row['reached'])} operations/s "
                    f"({_parameters(row)})",
                    steps.source(row, measure),
                )
                for row in records(group)
            ]
            line = line_of(group, steps.names, points, rank, printed, **look)
            lines.append(replace(line, name=f"{line.name}: {words}"))
    return lines
