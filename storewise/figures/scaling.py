"""Figures of rates over the size of a cluster, the number of clients, or the volume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import key_of, records
from storewise.analysis.common.text import number
from storewise.analysis.measure.derived import numeric_factors
from storewise.analysis.model.columns import OTHER, SLOWED
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.usl import law
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, level_axis
from storewise.figures.rates import measure_of, rates_shown
from storewise.figures.selection import LINES, Shown, by_phase, choose, curves
from storewise.figures.steps import of_equal_work, steps_of
from storewise.figures.style import DASHED, DOTTED

#: Number of points of a fitted curve.
_POINTS = 40
#: Factor -> label of its axis.
_LABELS = {
    "nodes": "data nodes",
    "node_threads": "threads per node",
    "node_memory_mb": "memory per node in MiB",
    "processes": "processes per worker",
    "threads": "threads per process",
    "clients": "client threads",
    "slowed_nodes": "slowed nodes",
}


def over_levels(tables: Tables) -> Chart:
    """Rates over each numeric factor, a panel per factor and phase; then rates over client threads
    (phases of several steps) and over the number of slowed nodes. Each line has its fitted law. A
    store without the factor (an embedded one has no nodes) is a horizontal line."""
    rates, factors = rates_shown(tables), tables.results.factors
    panels: list[Panel] = []
    notes = []
    for factor in numeric_factors(rates, factors):
        shown = choose(rates, [f for f in factors if f != factor], LINES)
        notes.append(shown.note)
        for phase, rows in by_phase(tables, shown.rows):
            panels += _panels(tables, phase, rows, shown, factor)
    steps = steps_of(tables, "operations_per_s")
    if len(steps):
        shown = choose(steps, factors, LINES)
        notes.append(shown.note)
        for heading, rows in of_equal_work(tables, shown.rows, "planned", "rate"):
            panels += _panels(tables, heading, rows, shown, "clients")
    slowed = _slowed(tables)
    if len(slowed):
        shown = choose(slowed, factors, LINES)
        notes.append(shown.note)
        for phase, rows in by_phase(tables, shown.rows):
            for slow in filter(None, rows["slow"].unique()):
                group = rows[rows["slow"].isin(["", slow])]
                panels += _panels(tables, f"{phase}, {slow}", group, shown, "slowed_nodes")
    return Chart(panels, " ".join(dict.fromkeys(filter(None, notes))))


def _slowed(tables: Tables) -> pd.DataFrame:
    """The rates of phases with slowed nodes; `slowed_nodes` is their number, `slow` the kind."""
    rates, keys = tables.rates, [*tables.results.factors, "phase", "step"]
    marks = tables.summary[tables.summary["measure"] == SLOWED]
    words = marks[OTHER].astype(str)
    parts = words.str.extract(r"^(?P<slowed_nodes>\d+) slowed(?:: )?(?P<slow>.*)$")
    marks = marks[keys].join(parts.astype({"slowed_nodes": float}))
    rates = rates[rates["measure"] == "operations_per_s"]
    # Rows keep their index of the table; the column has another name, since a factor is `index`.
    return rates.assign(place=rates.index).merge(marks, on=keys).set_index("place")


def _panels(
    tables: Tables, heading: str, rows: pd.DataFrame, shown: Shown, factor: str
) -> Iterator[Panel]:
    """Yield the panel of a phase, if an engine has two levels or more."""
    if rows.groupby("engine")[factor].nunique().max() < 2:
        return
    # Steps that differ only in clients: the best one, since stores need different numbers of them.
    rows = rows.sort_values("mean").drop_duplicates(["engine", *shown.names, factor], keep="last")
    rows = rows.sort_values(factor)
    counted = measure_of(rows)

    def words(row: Mapping[str, Any]) -> str:
        return f"{number(row['mean'])} {counted}/s"

    lines = []
    for line, group in curves(rows, shown.names, factor, "mean", words, "summary"):
        if group[factor].isna().all():
            line = replace(line, mode="level", dash=DASHED)
        if line.engine == CEILING:
            line = replace(line, dash=DOTTED)
        lines += [line, *_law(tables, line, group, factor)]
    label = _LABELS.get(factor, factor)
    x, y = level_axis(label, rows[factor]), Axis(f"{counted} per second")
    yield Panel(f"{heading}, over {label}", x, y, lines)


def _law(tables: Tables, line: Series, rows: pd.DataFrame, factor: str) -> Iterator[Series]:
    """Yield the curve of the Universal Scalability Law for a line over `factor`."""
    laws = tables.judged.get("usl", pd.DataFrame(columns=["factor", "lambda", "step"]))
    laws = laws[(laws["factor"] == factor) & laws["lambda"].notna()]
    keys = [k for k in (*tables.results.factors, "phase", "measure") if k != factor]
    for fitted in records(laws[laws["step"].isin(set(rows["step"]))]):
        if key_of(fitted, keys) == key_of(records(rows)[0], keys):
            xs = np.linspace(line.points[0].x, line.points[-1].x, _POINTS)
            ys = law(xs, fitted["lambda"], fitted["sigma"], fitted["kappa"])
            points = [Point(x, y, words=_words(fitted)) for x, y in zip(xs, ys, strict=True)]
            yield Series("", points, "lines", line.engine, dash=DASHED)
            return


def _words(fitted: Mapping[str, Any]) -> str:
    return (
        f"Universal Scalability Law: sigma {number(fitted['sigma'])}, "
        f"kappa {number(fitted['kappa'])}, R² {fitted['r2']:.3f}"
    )
