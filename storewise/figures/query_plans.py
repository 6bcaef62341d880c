"""Seconds over selectivity, and where a store did without its index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import seconds
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, level_axis
from storewise.figures.selection import LINES, choose, line_of, lines_in, points_of


def over_selectivity(tables: Tables) -> Chart | None:
    """Seconds of an execution over the share of the readings, a panel per query; markers are
    hollow where the plan did not use the secondary index."""
    plans = tables.plan_summary
    plans = plans[(plans["engine"] != CEILING) & (plans["mean"] > 0)] if len(plans) else plans
    if plans.empty or plans["selectivity_pct"].nunique() < 2:
        return None
    # Least and greatest of the executions are no interval of their mean.
    plans = plans.drop(columns=["low", "high"])
    shown = choose(plans, tables.results.factors, LINES, "query")
    panels = []
    for query, rows in shown.rows.groupby("query", observed=True):
        lines = []
        for rank, group in lines_in(rows, shown.names):
            group = group.sort_values("selectivity_pct")
            points = points_of(group, "selectivity_pct", "mean", "plan_summary", _words)
            points = [
                replace(point, hollow=_unused(row))
                for point, row in zip(points, records(group), strict=True)
            ]
            lines.append(line_of(group, shown.names, points, rank))
        x = level_axis("selectivity (% of the readings)", rows["selectivity_pct"], "log")
        panels.append(Panel(str(query), x, Axis("seconds"), lines))
    return Chart(panels, shown.note)


def _unused(row: Mapping[str, Any]) -> bool:
    """Whether the plan did without the index."""
    return not missing(row["uses_index"]) and not row["uses_index"]


def _words(row: Mapping[str, Any]) -> str:
    words = f"{seconds(row['mean'])} at {row['selectivity_pct']:g} %"
    return words + ("\ndid not use the index" if _unused(row) else "")
