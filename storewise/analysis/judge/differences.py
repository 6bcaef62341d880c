"""Which choices, and which levels of a factor, differ.

Within a phase, step and measure every two choices (a store with what it promises) are compared at
equal levels of all other factors, and every two levels of a factor within one engine. The figure is
the ratio of their means with its 95 % interval (`intervals.ratio`).

Many pairs find many differences by chance, so p (Student's t of the logarithm of the ratio, degrees
of freedom of Welch and Satterthwaite) is adjusted by Holm's method over the *family* of all pairs
of one phase, measure and factor. `low_adj` and `high_adj` are the interval at the level at which
Holm's method judged the pair: it leaves out 1 exactly where the pair is called different.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from storewise.analysis.common.engines import (
    BASELINE,
    CEILING,
    PROMISES,
    client_side,
    label,
    own_factor,
    varying_promises,
)
from storewise.analysis.common.frames import grouped, key_of, missing, records
from storewise.analysis.common.text import level, setting
from storewise.analysis.judge.comparable_steps import headline_rates, named_times
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.intervals import (
    ESTIMATE,
    LEVEL,
    Estimate,
    holm_adjusted,
    p_value,
    ratio,
)
from storewise.study.factors import OF_SERVERS

#: What `factor` says of pairs of choices.
CHOICE = "choice"
#: Percentiles of the service time that are compared.
TIMES = ("p50", "p99")
#: The seconds and operations of a single run know nothing of what differs from run to run, which is
#: mostly more: nothing is called different on them alone.
_NOT_ENOUGH = ("seconds", "operations", "none")
_KEYS = ["phase", "step", "measure", "unit"]
_PAIR = ("factor", "a", "b", "a_where", "b_where")
COLUMNS = (
    *(*_KEYS, *_PAIR),
    *("n", "ratio", "low", "high", "resampled"),
    *("p", "p_adj", "low_adj", "high_adj", "pairs", "differs"),
)


def differences(tables: Tables) -> Judged:
    """Table `differences`: factors (the levels that both have), then COLUMNS.

    `ratio` is the mean of `a` over that of `b`; `a_where` and `b_where` name what varies and only
    one of the two has, such as its nodes; `pairs` is the size of the family. `null` and `files` are
    no choices and are left out.
    """
    factors = list(tables.results.factors)
    promises = varying_promises(tables.results.trials, factors)
    rows: list[dict[str, Any]] = []
    families: dict[tuple[Any, ...], list[tuple[dict[str, Any], Estimate]]] = {}
    for place, group in grouped(compared_figures(tables), _KEYS):
        alike = records(group)
        pairs = itertools.chain(_choices(alike, factors, promises), _levels(alike, factors))
        for pair, one, other in pairs:
            estimate = ratio(as_estimate(one), as_estimate(other))
            row = {**dict(zip(_KEYS, place, strict=True)), **pair, **estimate.columns()}
            row |= {"ratio": estimate.mean, "p": p_of(estimate), "differs": False}
            rows.append(row)
            family = families.setdefault((row["phase"], row["measure"], row["factor"]), [])
            family.append((row, estimate))
    for family in families.values():
        tested = [(row, estimate) for row, estimate in family if not math.isnan(row["p"])]
        for row, _ in family:
            row["pairs"] = len(tested)
        judged = holm([estimate for _, estimate in tested])
        for (row, _), columns in zip(tested, judged, strict=True):
            row |= columns
    return Judged(pd.DataFrame(rows, columns=[*factors, *COLUMNS]))


def compared_figures(tables: Tables) -> pd.DataFrame:
    """Means over repeats that are compared: factors, phase, step, measure, unit, ESTIMATE.

    They are the rates of `headline_rates`, p50 and p99 of the service time of each operation, and
    the store's bytes per document and its files and directories.
    """
    columns = [*tables.results.factors, *_KEYS, *ESTIMATE]
    times = named_times(tables.latency_summary, TIMES)
    times = times[times["time"] == "service"].assign(mean=lambda rows: rows["value"])
    sizes = tables.storage_summary
    sizes = sizes[sizes["measure"].isin(["bytes_per_document", "inodes"])]
    frames = [headline_rates(tables, tables.rates), times, sizes]
    filled = [frame.reindex(columns=columns) for frame in frames if len(frame)]
    if not filled:
        return pd.DataFrame(columns=columns)
    figures = pd.concat(filled, ignore_index=True)
    return figures[~figures["engine"].isin([CEILING, BASELINE])]


#: The columns that name a pair, and its two rows.
Pair = tuple[dict[str, Any], Mapping[str, Any], Mapping[str, Any]]


def _choices(
    rows: Sequence[dict[str, Any]], factors: Sequence[str], promises: Sequence[str]
) -> Iterable[Pair]:
    held = [f for f in client_side(factors) if f not in PROMISES]
    # What only some engines have: equal where both have it.
    special = [f for f in factors if f in OF_SERVERS or own_factor(f)]
    alike: dict[tuple[Any, ...], list[tuple[str, dict[str, Any]]]] = {}
    levels: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for f in special:
            levels.setdefault((row["engine"], f), set()).add(str(row[f]))
        alike.setdefault(key_of(row, held), []).append((label(row, promises), row))
    for rows_alike in alike.values():
        ordered = sorted(rows_alike, key=lambda one: one[0])
        for (a, one), (b, other) in itertools.combinations(ordered, 2):
            shared = [f for f in special if not (missing(one[f]) or missing(other[f]))]
            if a == b or any(one[f] != other[f] for f in shared):
                continue
            alone = [f for f in special if f not in shared]
            where = (_where(row, alone, levels) for row in (one, other))
            named = dict(zip(_PAIR, (CHOICE, a, b, *where), strict=True))
            yield {**{f: one[f] for f in (*held, *shared)}, **named}, one, other


def _where(
    row: Mapping[str, Any], names: Sequence[str], levels: Mapping[tuple[str, str], set[str]]
) -> str:
    return setting(row, [f for f in names if len(levels[row["engine"], f]) > 1])


def _levels(rows: Sequence[dict[str, Any]], factors: Sequence[str]) -> Iterable[Pair]:
    for factor in factors:
        if factor == "engine":
            continue
        held = [f for f in factors if f != factor]
        alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            if not missing(row[factor]):
                alike.setdefault(key_of(row, held), []).append(row)
        for group in alike.values():
            for one, other in itertools.combinations(_in_order(group, factor), 2):
                values = (factor, level(one[factor]), level(other[factor]), "", "")
                named = dict(zip(_PAIR, values, strict=True))
                yield {**{f: one[f] for f in held}, **named}, one, other


def _in_order(rows: Sequence[dict[str, Any]], factor: str) -> list[dict[str, Any]]:
    """Numbers from the greatest down, so that ratios are speed-ups; words by the alphabet."""
    if all(isinstance(row[factor], int | float | np.number) for row in rows):
        return sorted(rows, key=lambda row: -float(row[factor]))
    return sorted(rows, key=lambda row: str(row[factor]))


def p_of(estimate: Estimate) -> float:
    """The probability of such a ratio, or one farther from 1, of equal means; nan without an
    interval, and where a single run's seconds or operations are all there is."""
    return math.nan if estimate.resampled in _NOT_ENOUGH else p_value(estimate)


def holm(family: Sequence[Estimate]) -> list[dict[str, Any]]:
    """p_adj, low_adj, high_adj and differs of each ratio of a family (all with a p)."""
    alpha = 1 - LEVEL
    p = np.array([p_of(one) for one in family])
    adjusted = holm_adjusted(p)
    rejected = adjusted <= alpha
    size, count = len(family), int(rejected.sum())
    # Holm judges the smallest p at alpha / m, the next at alpha / (m - 1), and all from the first
    # that fails on at the level of that one.
    order = {int(place): rank for rank, place in enumerate(np.argsort(p, kind="stable"))}
    judged = []
    for place, one in enumerate(family):
        rank = min(order[place], count, size - 1)
        half = 0.0
        if one.error > 0:
            half = -float(stdtrit(one.freedom, alpha / (size - rank) / 2)) * one.error
        judged.append(
            {
                "p_adj": float(adjusted[place]),
                "low_adj": one.mean * math.exp(-min(half, 700.0)),
                "high_adj": one.mean * math.exp(min(half, 700.0)),
                "differs": bool(rejected[place]),
            }
        )
    return judged
