"""The Universal Scalability Law fitted to each curve of a study's rates.

A curve is a rate over the levels of one resource (RESOURCES, or the clients of a phase's steps),
per engine and with all other factors fixed. Curves of fewer levels than the law needs have a row
that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import grouped
from storewise.analysis.judge.comparable_steps import (
    OTHER_RATE,
    at_steps,
    headline_rates,
    set_rates,
)
from storewise.analysis.measure.derived import numeric_factors
from storewise.analysis.model.columns import ALL, OTHER
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.usl import FITTED, fit, not_fitted

#: Factors that count parallel units.
RESOURCES = ("nodes", "workers", "processes", "threads", "node_threads")
#: Level of steps: client threads of all workers.
CLIENTS = "clients"
COLUMNS = (
    *("phase", "step", "measure", "unit", "factor", "levels", "lowest", "highest"),
    *FITTED,
    "reason",
)


def usl(tables: Tables) -> Judged:
    """Table `usl`: factors (that of the curve empty), then COLUMNS.

    `reason` says why there is no fit (`stats.usl.fit`). Engine `null` has curves, too: the
    scalability of the clients.
    """
    factors = list(tables.results.factors)
    rows = [*_of_factors(tables, factors), *_of_clients(tables, factors)]
    return Judged(pd.DataFrame(rows, columns=[*factors, *COLUMNS]))


def _of_factors(tables: Tables, factors: list[str]) -> Iterable[dict[str, Any]]:
    rates = headline_rates(tables, tables.rates)
    for factor in numeric_factors(rates, [f for f in factors if f in RESOURCES]):
        keys = [*(f for f in factors if f != factor), "phase", "step", "measure", "unit"]
        for levels, group in grouped(rates.dropna(subset=[factor]), keys):
            if group[factor].nunique() > 1:
                yield _row(dict(zip(keys, levels, strict=True)), factor, group)


def _of_clients(tables: Tables, factors: list[str]) -> Iterable[dict[str, Any]]:
    steps = tables.steps
    rates = steps[
        (steps["operation"] == ALL) & (steps["measure"] == OTHER_RATE) & steps[CLIENTS].notna()
    ]
    rates = rates[~at_steps(rates, set_rates(tables))]
    keys = [*factors, "phase", "planned", OTHER, "measure", "unit"]
    for levels, group in grouped(rates, keys):
        # Of several steps with equal clients the first counts.
        group = group.drop_duplicates(CLIENTS)
        if len(group) > 1:
            named = dict(zip(keys, levels, strict=True))
            yield _row({**named, "step": group["step"].iloc[0]}, CLIENTS, group)


def _row(named: Mapping[str, Any], factor: str, group: pd.DataFrame) -> dict[str, Any]:
    group = group.sort_values(factor)
    levels = group[factor].astype(float).to_list()
    rates = group["mean"].astype(float).to_list()
    row: dict[str, Any] = {
        **{k: v for k, v in named.items() if k not in ("planned", OTHER)},
        "factor": factor,
        "levels": len(levels),
        "lowest": levels[0],
        "highest": levels[-1],
        "flags": "",
        "reason": not_fitted(levels, rates),
    }
    if not row["reason"]:
        row |= fit(levels, rates, group["error"].astype(float).to_list())
    return row
