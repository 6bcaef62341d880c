"""Figure of latency over throughput, from the steps of a phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import number, seconds
from storewise.analysis.model.columns import ALL, OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel
from storewise.figures.selection import LINES, by_phase, choose, curves
from storewise.figures.style import DASHED, SOLID


def steps_of(tables: Tables, measure: str) -> pd.DataFrame:
    """The rows of a measure for each step: rates over all operations, times of each one."""
    steps = tables.steps
    chosen = steps["operation"].eq(ALL) == measure.endswith("_per_s")
    return steps[(steps["measure"] == measure) & chosen & (steps["mean"] > 0)]


def of_equal_work(
    tables: Tables, rows: pd.DataFrame, *highest: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    """(heading, rows): groups of steps with equal work, which differ only in PARAMETERS, so that a
    line may join them. Of each parameter in `highest` only the highest level is kept."""
    for phase, in_phase in by_phase(tables, rows):
        for other in dict.fromkeys(map(str, in_phase[OTHER])):
            group = in_phase[in_phase[OTHER] == other]
            for name in highest:
                top = group[name].max()
                group = group if missing(top) else group[group[name] == top]
            yield f"{phase}, {other}" if other else phase, group


def latency_over_throughput(tables: Tables) -> Chart | None:
    """Response time of each operation over the throughput of all: mean, and p99 dashed."""
    keys = [*tables.results.factors, "phase", "step", *PARAMETERS, OTHER]
    rates = steps_of(tables, "operations_per_s")[[*keys, "mean"]]
    times = pd.concat(steps_of(tables, f"response_{of}") for of in ("mean", "p99"))
    times = times[times["engine"] != CEILING]
    reached = times.merge(rates, "left", on=keys, suffixes=("", "_reached"))["mean_reached"]
    times = times.assign(reached=reached.to_numpy()).dropna(subset="reached")
    if times.empty:
        return None
    shown = choose(times, tables.results.factors, LINES)
    panels = []
    for heading, alike in of_equal_work(tables, shown.rows, "planned"):
        for operation, rows in alike.groupby("operation", observed=True):
            if rows.groupby("engine")["reached"].nunique().max() < 2:
                continue
            # Steps are joined in the order of their load.
            load = "rate" if rows["rate"].nunique() > 1 else "clients"
            rows = rows.sort_values([load, "reached"])
            lines = []
            for measure, tail in (("response_mean", ""), ("response_p99", ": p99")):
                group = rows[rows["measure"] == measure]
                drawn = curves(group, shown.names, "reached", "mean", _words, "summary", 1e3)
                for line, _ in drawn:
                    dash = DASHED if tail else SOLID
                    lines.append(replace(line, name=line.name + tail, dash=dash))
            x, y = Axis("operations per second, all together"), Axis("response time in ms")
            panels.append(Panel(f"{heading}: {operation}", x, y, lines))
    return Chart(panels, shown.note)


def _words(row: Mapping[str, Any]) -> str:
    words = [f"{seconds(row['mean'])} at {number(row['reached'])} operations/s"]
    words += [] if missing(row["clients"]) else [f"{row['clients']:g} clients"]
    words += [] if missing(row["rate"]) else [f"target {number(row['rate'])}/s"]
    return ", ".join(words)
