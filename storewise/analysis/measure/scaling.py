"""Speed-up and efficiency over the levels of a numeric factor.

Speed-up at level n is the mean rate there over that at the lowest level m, efficiency is speed-up
over n / m (Amdahl's and Gustafson's usual terms; see Jain, "The Art of Computer Systems
Performance Analysis", 1991). Both means are geometric and independent, so the interval of their
ratio follows from the bootstrap errors of both (`resample.ratio`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import grouped, records
from storewise.analysis.stats.intervals import ESTIMATE, Estimate, ratio

#: Numbers that are no resource: nobody expects four times the data to be loaded at four times the
#: rate.
NO_RESOURCES = frozenset({"volume", "replicas"})


def numeric_factors(table: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Factors with at least two levels that are all positive numbers."""
    return [
        name
        for name in factors
        if pd.api.types.is_numeric_dtype(table[name])
        and not pd.api.types.is_bool_dtype(table[name])
        and table[name].nunique() > 1
        and (table[name].dropna() > 0).all()
    ]


def scaling(summary: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Speed-up and efficiency of each rate, over each numeric factor with the others held fixed.

    `summary` is `repeats.over_repeats`. Columns: factors, phase, step, measure (of the rate),
    factor, level, base, quantity ("speedup" or "efficiency"), then ESTIMATE.
    """
    rates = summary[summary["measure"].isin(["documents_per_s", "operations_per_s"])]
    rows: list[dict[str, object]] = []
    for factor in numeric_factors(rates, [f for f in factors if f not in NO_RESOURCES]):
        held = [name for name in factors if name != factor]
        keys = [*held, "phase", "step", "measure"]
        for levels, group in grouped(rates, keys):
            rising = records(group.dropna(subset=[factor]).sort_values(factor))
            if len({row[factor] for row in rising}) < 2:
                continue
            base = rising[0]
            for row in rising:
                times = float(row[factor]) / float(base[factor])
                speedup = (
                    Estimate(int(base["n"]), 1.0)
                    if times == 1
                    else ratio(as_estimate(row), as_estimate(base))
                )
                common = {
                    **dict(zip(keys, levels, strict=True)),
                    factor: row[factor],
                    "factor": factor,
                    "level": float(row[factor]),
                    "base": float(base[factor]),
                }
                up = speedup.columns()
                share = {name: getattr(speedup, name) / times for name in ("mean", "low", "high")}
                rows.append({**common, "quantity": "speedup", **up})
                rows.append({**common, "quantity": "efficiency", **up, **share})
    names = ["phase", "step", "measure", "factor", "level", "base", "quantity"]
    return pd.DataFrame(rows, columns=[*factors, *names, *ESTIMATE])


def as_estimate(row: Mapping[str, Any]) -> Estimate:
    """A row of a table over repeats as the estimate that it came from."""
    mean, low, high, error, freedom = (
        float(row[name]) for name in ("mean", "low", "high", "error", "freedom")
    )
    return Estimate(int(row["n"]), mean, low, high, error, freedom)
