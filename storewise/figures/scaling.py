"""How rates change with the size of a cluster, the number of clients, or the volume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import number, setting
from storewise.analysis.measure.derived import numeric_factors
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.usl import law
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, level_axis
from storewise.figures.rates import rates_shown
from storewise.figures.selection import (
    FACTOR_LABELS,
    LINES,
    by_phase,
    choose,
    line_of,
    lines_in,
    phase_title,
    points_of,
    without_idle_ceiling,
)
from storewise.figures.style import DASHED, DOTTED

#: Points of a fitted curve.
_POINTS = 40


def over_levels(tables: Tables) -> Chart | None:
    """Rates over the levels of each numeric factor, a panel per factor and phase, with the fitted
    law. Stores that do not have the factor (no servers: no nodes) are level lines."""
    rates = without_idle_ceiling(rates_shown(tables), tables)
    if rates.empty:
        return None
    factors = tables.results.factors
    panels, notes = [], []
    for factor in numeric_factors(rates, factors):
        shown = choose(rates, [f for f in factors if f != factor], LINES)
        label = FACTOR_LABELS.get(factor, factor)
        for phase, in_phase in by_phase(tables, shown.rows):
            rows = in_phase.sort_values(factor)
            if rows.groupby("engine")[factor].nunique().max() < 2:
                continue
            lines = []
            for rank, group in lines_in(rows, shown.names):
                line = _line(group, factor, shown.names, rank)
                lines += [line, *_law(tables, line, records(group)[0], factor)]
            measure = str(rows["measure"].iloc[0]).removesuffix("_per_s")
            x, y = level_axis(label, rows[factor]), Axis(f"{measure} per second")
            panels.append(Panel(f"{phase_title(phase)}, over {label}", x, y, lines))
            notes.append(shown.note)
    return Chart(panels, " ".join(dict.fromkeys(filter(None, notes))))


def _line(group: pd.DataFrame, factor: str, names: Sequence[str], rank: int) -> Series:
    points = points_of(group, factor, "mean", "summary", lambda row: _words(row, factor))
    line = line_of(group, names, points, rank)
    level = bool(group[factor].isna().all())
    dash = DOTTED if line.engine == CEILING else DASHED if level else rank
    return replace(line, dash=dash, mode="level" if level else line.mode)


def _law(tables: Tables, line: Series, row: Mapping[str, Any], factor: str) -> Iterator[Series]:
    """The law that was fitted through a line."""
    fitted = law_of(tables, row, factor)
    if fitted is not None:
        words = (
            f"Universal Scalability Law: sigma {number(fitted['sigma'])}, "
            f"kappa {number(fitted['kappa'])}, R² {fitted['r2']:.3f}"
        )
        xs = np.linspace(line.points[0].x, line.points[-1].x, _POINTS)
        ys = law(xs, fitted["lambda"], fitted["sigma"], fitted["kappa"])
        points = [Point(x, y, words=words) for x, y in zip(xs, ys, strict=True)]
        yield Series("", points, "lines", line.engine, dash=DASHED)


def _words(row: Mapping[str, Any], factor: str) -> str:
    unit = str(row["measure"]).removesuffix("_per_s")
    at = setting(row, [factor])
    return f"{number(row['mean'])} {unit}/s" + (f" with {at}" if at else "")


def law_of(tables: Tables, row: Mapping[str, Any], factor: str) -> Mapping[str, Any] | None:
    """The fitted law (a row of the judged table `usl`) of the engine, phase and other factors of
    `row` over `factor`; None where none was fitted."""
    fitted = tables.judged.get("usl")
    if fitted is None or fitted.empty:
        return None
    laws = fitted[(fitted["factor"] == factor) & fitted["lambda"].notna()]
    keys = [k for k in ("engine", "phase", "measure", *tables.results.factors) if k != factor]
    for one in records(laws):
        if all(one[k] == row[k] or (missing(one[k]) and missing(row[k])) for k in keys):
            return one
    return None
