"""Stores at one criterion: each with its figure, and whether it is told apart from the best.

A store stands with the deployment that it is judged with, and with the number of clients at which
it does best. The decision's rule, applied to this criterion alone, says who is behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import count, number, seconds
from storewise.analysis.decision import Conditions, Decision, decide
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criterion import FINISHED, NOTE, SOURCE_ROW, Criterion, Standing
from storewise.analysis.verdict.measures import no_stores
from storewise.analysis.verdict.values import placed
from storewise.study.criteria import INODES

_PLACE = ("store", "deployment", "clients")


def standings(
    criterion: Criterion, measures: pd.DataFrame, tables: Tables, judged: Decision, rule: Rule
) -> list[Standing]:
    """The baseline if it has a figure, then the stores from the best figure down.

    `measures` are the values of all criteria (`measures.measures_of`).
    """
    mine = judged.deployed(measures[measures["criterion"] == criterion.name])
    one = {criterion.name: replace(rule, weight=1.0)}
    found = decide(mine, one, Conditions(no_stores=no_stores()))
    told: dict[tuple[str, ...], dict[str, Any]] = {}
    rows = records(placed(criterion.rows, tables))
    for row in rows:
        place = tuple(str(row[name]) for name in _PLACE)
        # A criterion of servers alone has a row for any number of clients.
        told |= {place[:2]: row, place: row}
    base = [row for row in rows if row["engine"] == BASELINE and row["mean"] > 0]
    base.sort(key=lambda row: -row["mean"] if criterion.more else row["mean"])
    result = [_of(row, row["clients"], Estimate(row["n"], row["mean"]), 0) for row in base[:1]]
    if found.table.empty:
        return result
    sign = 1.0 if criterion.more else -1.0
    for store, row in zip(found.table.index, records(found.table), strict=True):
        clients = str(found.clients.loc[store].iloc[0])
        place = (str(store), str(row["deployment"]))
        source = told.get((*place, clients)) or told[place]
        mean = float(source["mean"])
        low, high = sorted(mean * (row[end] / row["score"]) ** sign for end in ("low", "high"))
        figure = Estimate(row["n"], mean)
        if math.isfinite(low + high):
            figure = replace(figure, low=low, high=high)
        single = row["n"] == 1 and not rule.counted
        where = ", ".join(filter(None, [place[1], clients]))
        result.append(_of(source, where, figure, 0 if single else 1 if row["named"] else 2))
    return result


def _of(row: Mapping[str, Any], where: str, figure: Estimate, rank: int) -> Standing:
    """The standing of a row's store; of what is no rate, no number of operations is told."""
    return Standing(
        str(row["store"]),
        where,
        figure,
        rank,
        baseline=row["engine"] == BASELINE,
        note="" if missing(row.get(NOTE)) else str(row[NOTE]),
        source_row=str(row[SOURCE_ROW]),
        engine=str(row["engine"]),
        finished=math.inf if missing(row.get(FINISHED)) else float(row[FINISHED]),
    )


def interval(estimate: Estimate, unit: str = "") -> str:
    """The 95 % interval in words; empty if there is none."""
    if not estimate.known() or not estimate.high > estimate.low:
        return ""
    return f"95 % interval {quantity(estimate.low, unit)} to {quantity(estimate.high, unit)}"


def quantity(value: float, unit: str) -> str:
    """A figure alone; times with a unit that suits them."""
    if unit == INODES:
        return count(value)
    return seconds(value) if unit == "s" and value > 0 else number(value)


def with_unit(value: float, unit: str) -> str:
    """A figure with its unit."""
    if unit in ("1", INODES) or (unit == "s" and value > 0):
        return quantity(value, unit)
    return f"{number(value)} {unit.replace('10^6', 'million')}"


def figure(standing: Standing, unit: str) -> str:
    """A standing's mean and interval in words."""
    text = with_unit(standing.estimate.mean, unit)
    where = f"with {standing.where}" if standing.where else ""
    inside = "; ".join(filter(None, [interval(standing.estimate, unit), where, standing.note]))
    return f"{text} ({inside})" if inside else text
