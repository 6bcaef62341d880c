"""Stores at one criterion: each with its figure, and whether it is told apart from the best.

A store stands with the deployment that it is judged with, and with the number of clients at which
it does best. The decision's rule, applied to this criterion alone, says which stores are worse.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import count, number, seconds
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.decision import Decision, decide
from storewise.analysis.decision.standing import at_common_volume
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criterion import FINISHED, SOURCE_ROW, Criterion, Standing
from storewise.study.criteria import INODES


def standings(
    criterion: Criterion, measures: pd.DataFrame, judged: Decision, rule: Rule
) -> list[Standing]:
    """The baseline if it has a figure, then the stores from the best figure down.

    `measures` are the values of all criteria (`measures.measures_of`).
    """
    mine = judged.deployed(measures[measures["criterion"] == criterion.name])
    of_files = mine["engine"] == BASELINE
    stores, _ = at_common_volume(mine[~of_files])
    files = [_of(group) for _, group in mine[of_files].groupby(["clients", "volume"])]
    files = [one for one in files if one.estimate.mean > 0]
    best = max if criterion.more else min
    result = [best(files, key=lambda one: one.estimate.mean)] if files else []
    found = decide(stores, {criterion.name: replace(rule, weight=1.0)})
    sign = 1.0 if criterion.more else -1.0
    for store, row in zip(found.table.index, records(found.table), strict=True):
        clients = str(found.clients.loc[store].iloc[0])
        group = stores[(stores["store"] == store) & (stores["clients"] == clients)]
        one = _of(group[group["deployment"] == row["deployment"]])
        figure, mean = Estimate(row["n"], one.estimate.mean), one.estimate.mean
        low, high = sorted(mean * (row[end] / row["score"]) ** sign for end in ("low", "high"))
        if math.isfinite(low + high):
            figure = replace(figure, low=low, high=high)
        single = row["n"] == 1 and not rule.counted
        rank = 0 if single else 1 if row["named"] else 2
        result.append(replace(one, estimate=figure, rank=rank))
    return result


def _of(rows: pd.DataFrame) -> Standing:
    """A store in one setting, with its mean over rounds: geometric, but where a figure is 0."""
    values, one = rows["value"].astype(float), rows.iloc[0]
    mean = float(np.exp(np.log(values).mean()) if (values > 0).all() else values.mean())
    return Standing(
        str(one["store"]),
        str(one["engine"]),
        ", ".join(filter(None, [one["deployment"], one["clients"]])),
        Estimate(len(rows), mean),
        rank=0,
        finished=float(one[FINISHED]),
        source_row=str(one[SOURCE_ROW]),
        baseline=one["engine"] == BASELINE,
    )


def interval(estimate: Estimate, unit: str) -> str:
    """The 95 % interval in words; empty if there is none."""
    if not estimate.known() or not estimate.high > estimate.low:
        return ""
    return f"95 % interval {_quantity(estimate.low, unit)} to {_quantity(estimate.high, unit)}"


def _quantity(value: float, unit: str) -> str:
    """A figure alone; times with a unit that suits them."""
    if unit == INODES:
        return count(value)
    return seconds(value) if unit == "s" and value > 0 else number(value)
