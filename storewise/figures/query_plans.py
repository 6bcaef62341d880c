"""Seconds over selectivity, and where a store did without its index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.text import seconds
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, level_axis
from storewise.figures.selection import LINES, choose, curves


def over_selectivity(tables: Tables) -> Chart | None:
    """Seconds of an execution over the share of the readings, a panel per query; markers are
    hollow where the plan did not use the secondary index."""
    plans = tables.plan_summary
    plans = plans[(plans["engine"] != CEILING) & (plans["mean"] > 0)] if len(plans) else plans
    if plans.empty or plans["selectivity_pct"].nunique() < 2:
        return None
    # Least and greatest of the executions are no interval of their mean.
    plans = plans.drop(columns=["low", "high"]).assign(hollow=plans["uses_index"].eq(False))
    shown = choose(plans.sort_values("selectivity_pct"), tables.results.factors, LINES, "query")
    panels = []
    for query, rows in shown.rows.groupby("query", observed=True):
        drawn = curves(rows, shown.names, "selectivity_pct", "mean", _words, "plan_summary")
        lines = [line for line, _ in drawn]
        x = level_axis("selectivity (% of the readings)", rows["selectivity_pct"], "log")
        panels.append(Panel(str(query), x, Axis("seconds"), lines))
    return Chart(panels, shown.note)


def _words(row: Mapping[str, Any]) -> str:
    words = f"{seconds(row['mean'])} at {row['selectivity_pct']:g} %"
    return words + ("\ndid not use the index" if row["hollow"] else "")
