"""The figures of the stores for one criterion, and which are significantly worse than the best.

A store keeps the deployment that the verdict judges it with, at its best number of clients. The
rule of the decision, applied to this criterion only, tells which stores are worse.
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
    """The baseline if it was measured, then the stores, the best first.

    `measures` are the values of all criteria (`measures.measures_of`).
    """
    rows = judged.deployed(measures[measures["criterion"] == criterion.name])
    of_files = rows["engine"] == BASELINE
    stores, _ = at_common_volume(rows[~of_files])
    files = [_of(group) for _, group in rows[of_files].groupby(["clients", "volume"])]
    files = [standing for standing in files if standing.estimate.mean > 0]
    best = max if criterion.more else min
    result = [best(files, key=lambda standing: standing.estimate.mean)] if files else []
    decision = decide(stores, {criterion.name: replace(rule, weight=1.0)})
    sign = 1.0 if criterion.more else -1.0
    for store, row in zip(decision.table.index, records(decision.table), strict=True):
        clients = str(decision.clients.loc[store].iloc[0])
        group = stores[(stores["store"] == store) & (stores["clients"] == clients)]
        standing = _of(group[group["deployment"] == row["deployment"]])
        figure, mean = Estimate(row["n"], standing.estimate.mean), standing.estimate.mean
        low, high = sorted(mean * (row[end] / row["score"]) ** sign for end in ("low", "high"))
        if math.isfinite(low + high):
            figure = replace(figure, low=low, high=high)
        single = row["n"] == 1 and not rule.counted
        rank = 0 if single else 1 if row["named"] else 2
        result.append(replace(standing, estimate=figure, rank=rank))
    return result


def _of(rows: pd.DataFrame) -> Standing:
    """The mean over the rounds of one setting: geometric, but arithmetic if a value is 0."""
    values, first = rows["value"].astype(float), rows.iloc[0]
    mean = float(np.exp(np.log(values).mean()) if (values > 0).all() else values.mean())
    return Standing(
        str(first["store"]),
        str(first["engine"]),
        ", ".join(filter(None, [first["deployment"], first["clients"]])),
        Estimate(len(rows), mean),
        rank=0,
        finished=float(first[FINISHED]),
        source_row=str(first[SOURCE_ROW]),
        baseline=first["engine"] == BASELINE,
    )


def interval(estimate: Estimate, unit: str) -> str:
    """The 95 % interval as text; empty if there is none."""
    if not estimate.known() or not estimate.high > estimate.low:
        return ""
    return f"95 % interval {_quantity(estimate.low, unit)} to {_quantity(estimate.high, unit)}"


def _quantity(value: float, unit: str) -> str:
    """A figure as text without its criterion; times with a suitable unit."""
    if unit == INODES:
        return count(value)
    return seconds(value) if unit == "s" and value > 0 else number(value)
