"""How rates change with the size of a cluster or the number of clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import CEILING, varying_factors
from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.common.text import number, setting
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.usl import law
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, level_axis
from storewise.figures.selection import (
    FACTOR_LABELS,
    labelled,
    line_of,
    lines_in,
    lowest,
    phase_title,
    points_of,
    setting_note,
    without_idle_ceiling,
)
from storewise.figures.style import DASHED, DOTTED, GREY

#: Factors that get a row of panels on paper, and phases that get a column.
_MOST = 3
#: Points of a fitted curve.
_POINTS = 40


def speedup(tables: Tables) -> Chart | None:
    """Speed-up over the levels of each numeric factor, with the ideal line, a row per factor."""
    scaling = tables.scaling
    scaling = scaling[
        (scaling["quantity"] == "speedup") & (scaling["measure"] == "documents_per_s")
    ]
    scaling = without_idle_ceiling(scaling, tables)
    if scaling.empty:
        return None
    names = varying_factors(scaling, tables.results.factors)
    factors = list(dict.fromkeys(map(str, scaling["factor"])))
    phases = tables.phases_of(scaling)
    panels = []
    for factor in factors:
        others = [n for n in names if n != factor]
        over_factor = scaling[scaling["factor"] == factor]
        printed = lowest(over_factor, others)
        label = FACTOR_LABELS.get(factor, factor)
        for phase in phases:
            rows = over_factor[over_factor["phase"] == phase]
            if rows.empty:
                continue
            fits = factor in factors[:_MOST] and phase in phases[:_MOST]
            lines = _speedups(tables, rows, factor, others, printed)
            base = float(rows["base"].min())
            levels = sorted({*rows["level"].tolist(), *rows["base"].tolist()})
            words = "as many times as fast as there are more"
            ideal = [Point(level, level / base, words=words) for level in levels]
            lines.append(
                Series("ideal", ideal, "lines", {"phase": phase}, colour=GREY, dash=DOTTED)
            )
            lines += _published(tables, factor, phase)
            x = level_axis(label, levels, "linear")
            top = 1.5 * max(levels[-1] / base, rows["mean"].max())
            y = Axis(f"speed-up over {setting({factor: base}, [factor])}", "linear", top=top)
            heading = f"{phase_title(phase)}, over {label}"
            panels.append(Panel(heading, x, y, lines, on="both" if fits else "page"))
    return Chart(panels, 3.0, columns=2, most=_MOST * _MOST, lowest=True)


def _speedups(
    tables: Tables, rows: pd.DataFrame, factor: str, others: Sequence[str], printed: pd.DataFrame
) -> list[Series]:
    lines = []
    for rank, group in lines_in(rows, others):
        group = group.sort_values("level")
        first = records(group)[0]
        points = points_of(
            group,
            "level",
            "mean",
            "scaling",
            lambda row: f"{number(row['mean'])} times, at {setting(row, [factor])}",
        )
        record = {k: v for k, v in first.items() if k != factor}
        line = line_of(group, others, points, rank, printed, record=record, over=factor)
        lines.append(line)
        fitted = law_of(tables, first, factor)
        if fitted is not None:
            words = (
                f"Universal Scalability Law: sigma {number(fitted['sigma'])}, "
                f"kappa {number(fitted['kappa'])}, R² {fitted['r2']:.3f}"
            )
            curve = relative_law(fitted, first["base"], [*group["level"], *group["base"]])
            points = [Point(x, y, words=words) for x, y in zip(*curve, strict=True)]
            look = {"name": f"law: {line.name}", "mode": "lines", "legend": "", "dash": DASHED}
            lines.append(line_of(group, others, points, rank, printed, record=record, **look))
    return lines


def law_of(tables: Tables, row: Mapping[str, Any], factor: str) -> Mapping[str, Any] | None:
    """The fitted law (a row of the judged table `usl`) of the engine, phase and other factors of
    `row` over `factor`; None where none was fitted."""
    fitted = tables.judged.get("usl")
    if fitted is None or fitted.empty:
        return None
    laws = fitted[(fitted["factor"] == factor) & fitted["lambda"].notna()]
    laws = laws[(laws["engine"] == row["engine"]) & (laws["phase"] == row["phase"])]
    others = [f for f in tables.results.factors if f != factor and f in row]
    for one in records(laws):
        if all(one[f] == row[f] or (missing(one[f]) and missing(row[f])) for f in others):
            return one
    return None


def relative_law(
    fitted: Mapping[str, Any], base: float, levels: Sequence[float]
) -> tuple[list[float], list[float]]:
    """(levels, speed-up over `base`) of a fitted law between the lowest and highest level."""
    xs = np.linspace(min(levels), max(levels), _POINTS).tolist()
    rates = [law(x, fitted["lambda"], fitted["sigma"], fitted["kappa"]) for x in (base, *xs)]
    return xs, [float(rate / rates[0]) for rate in rates[1:]]


def _published(tables: Tables, factor: str, phase: str) -> list[Series]:
    """Published curves over the same factor, as multiples of their first value; for the page."""
    curves = tables.reference_curves
    if curves.empty:
        return []
    curves = curves[(curves["source"] == "published") & (curves["x_name"] == factor)]
    lines = []
    for key, group in grouped(curves, ["reference", "title", "system", "setting"]):
        name = f"published: {', '.join(str(k) for k in key if k)}"
        points = [
            Point(
                row["x"],
                row["relative"],
                words=f"{number(row['relative'])} times its first value",
                source=f"reference_curves:{label}",
            )
            for label, row in labelled(group)
            if math.isfinite(row["relative"])
        ]
        look: dict[str, Any] = {"on": "page", "colour": GREY, "dash": DASHED, "published": True}
        lines.append(Series(name, points, record={"phase": phase}, **look))
    return lines


def over_nodes(tables: Tables) -> Chart | None:
    """Documents per second over the number of data nodes, a panel per phase.

    Stores without servers are level lines: what the same clients reach without a cluster.
    """
    rates = tables.rates[tables.rates["measure"] == "documents_per_s"]
    rates = without_idle_ceiling(rates[rates["mean"] > 0], tables)
    if "nodes" not in rates or not rates["nodes"].nunique() > 1:
        return None
    names = [n for n in varying_factors(rates, tables.results.factors) if n != "nodes"]
    keys = [*names, "step"]
    printed = lowest(rates, keys if rates["step"].nunique() > 1 else names)
    levels = sorted(rates["nodes"].dropna().unique().tolist())
    panels = []
    for phase in tables.phases_of(rates[rates["nodes"].notna()]):
        lines = []
        for rank, group in lines_in(rates[rates["phase"] == phase], keys):
            group = group.sort_values("nodes")
            first = records(group)[0]
            look: dict[str, Any] = {"record": {k: v for k, v in first.items() if k != "nodes"}}
            points = points_of(
                group, "nodes", "mean", "summary", lambda row: f"{number(row['mean'])} documents/s"
            )
            if group["nodes"].isna().all():
                points = [replace(p, x=x) for p in points for x in (levels[0], levels[-1])]
                dash = DOTTED if first["engine"] == CEILING else DASHED
                look |= {"mode": "across", "dash": dash}
            else:
                look["over"] = "nodes"
            lines.append(line_of(group, names, points, rank, printed, **look))
        x, y = level_axis("data nodes", levels), Axis("documents per second")
        panels.append(Panel(phase_title(phase), x, y, lines))
    return Chart(panels, columns=2, most=4, note=setting_note(printed, names), lowest=True)
