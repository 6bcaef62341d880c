"""Seconds over selectivity, and where a store did without its index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from storewise.analysis.common.engines import CEILING, varying_factors
from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import seconds
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, level_axis
from storewise.figures.selection import line_of, lines_in, points_of
from storewise.figures.style import LINES


def over_selectivity(tables: Tables) -> Chart | None:
    """Seconds of an execution over the share of the readings, a panel per query; markers are
    hollow where the plan did not use the secondary index."""
    plans = tables.plan_summary
    plans = plans[(plans["engine"] != CEILING) & (plans["mean"] > 0)] if len(plans) else plans
    if plans.empty or plans["selectivity_pct"].nunique() < 2:
        return None
    names = varying_factors(plans, tables.results.factors)
    panels = []
    for query in sorted(set(plans["query"])):
        rows = plans[plans["query"] == query]
        lines = []
        for rank, group in lines_in(rows, names):
            # Least and greatest of the executions are no interval of their mean.
            group = group.sort_values("selectivity_pct").drop(columns=["low", "high"])
            points = [
                replace(p, hollow=_unused(p.row))
                for p in points_of(group, "selectivity_pct", "mean", "plan_summary", _words)
            ]
            line = line_of(group, names, points, rank)
            if len(group) < (rows["engine"] == line.engine).sum():
                line = replace(line, legend=line.name)
            # On paper each setting of an engine needs a line style of its own.
            lines.append(line if rank < len(LINES) else replace(line, on="page"))
        x = level_axis("selectivity (% of the readings)", rows["selectivity_pct"], "log")
        panels.append(Panel(query, x, Axis("seconds", unit="s"), lines))
    return Chart(panels, height=3.6, columns=2)


def _unused(row: Mapping[str, Any]) -> bool:
    """Whether the plan did without the index."""
    return not missing(row["uses_index"]) and not row["uses_index"]


def _words(row: Mapping[str, Any]) -> str:
    words = f"{seconds(row['mean'])} at {row['selectivity_pct']:g} %"
    return words + ("\ndid not use the index" if _unused(row) else "")
