"""Seconds over selectivity, and where a store did without its index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.text import rows_as_text, seconds
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, level_axis
from storewise.figures.selection import LINES, choose, curves


def over_selectivity(tables: Tables) -> Chart | None:
    """Mean seconds of an execution over the share of the readings, a panel per query; markers are
    hollow where a plan did not use the secondary index."""
    factors = list(tables.results.factors)
    plans = tables.plans.join(tables.trials.set_index("trial")[factors], on="trial")
    plans = plans[(plans["engine"] != CEILING) & (plans["seconds"] > 0)]
    if plans["selectivity_pct"].nunique() < 2:
        return None
    shown = choose(_means(plans, [*factors, "query", "selectivity_pct"]), factors, LINES, "query")
    panels = []
    for query, rows in shown.rows.groupby("query", observed=True):
        drawn = curves(rows, shown.names, "selectivity_pct", "mean", _words, "plans")
        x = level_axis("selectivity (% of the readings)", rows["selectivity_pct"], "log")
        panels.append(Panel(str(query), x, Axis("seconds"), [line for line, _ in drawn]))
    return Chart(panels, shown.note)


def _means(plans: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means over trials and steps, with the rows of `plans` that they are made of as the index."""
    plans = plans.assign(row=plans.index, hollow=plans["uses_index"].eq(False))
    means = plans.groupby(keys, dropna=False, observed=True, as_index=False).agg(
        mean=("seconds", "mean"),
        n=("seconds", "size"),
        hollow=("hollow", "any"),
        rows=("row", rows_as_text),
    )
    return means.set_index("rows")


def _words(row: Mapping[str, Any]) -> str:
    words = f"{seconds(row['mean'])} at {row['selectivity_pct']:g} %"
    return words + ("\ndid not use the index" if row["hollow"] else "")
