"""Choices at one criterion: each with its best measured configuration, and its rank group.

Two choices differ if their 95 % intervals do not overlap and the interval of their ratio leaves out
1, at the level at which Holm's method judges it among all pairs of the criterion (Holm,
*Scandinavian Journal of Statistics* 6, 1979): among many stores the best is the best by chance,
too. Whatever has no interval differs from nothing.

Not to differ is not transitive, so groups are made from the top. The best choice and all that do
not differ from it have rank 1; of the rest the best and all that do not differ from it have rank 2,
and so on. So whatever was not shown to be worse than the best is of its group, and a choice of few
or noisy runs may stand in a better group than one with a better mean that was measured well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from storewise.analysis.common.engines import BASELINE, CEILING, label, promise, varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import count, number, seconds, setting
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.differences import holm, p_of
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.stats.intervals import Estimate, ratio
from storewise.analysis.verdict.criteria import (
    CHOSEN_BY,
    FINISHED,
    NOTE,
    SOURCE_ROW,
    Criterion,
    Standing,
)
from storewise.study.criteria import INODES

#: Factors that give a cluster its shape and are named with the choice.
SHAPE = ("nodes", "replicas")
#: What a choice promises, in words, where that is part of its configuration.
PROMISE = "promise"


def standings(
    criterion: Criterion,
    factors: Sequence[str],
    promises: Sequence[str],
    aside: Mapping[str, str],
    names: Mapping[str, str] | None = None,
) -> list[Standing]:
    """The baseline if it has a figure, then the choices by rank and figure; those whose figures
    are not measured well enough (`Estimate.vague`) come last and have no rank.

    The best configuration is that with the best mean (or the greatest CHOSEN_BY); the best of
    several is a little flattered by chance, the more, the more there were. `names` has the choices
    that are judged and what they are called then, their promises being part of the configuration;
    without it all are, each under its own name.
    """
    rows, more = criterion.rows, criterion.more
    best: dict[str, dict[str, Any]] = {}
    for row in records(rows):
        name = label(row, promises)
        # A rate of 0 is no result; no set-up time and no loss are.
        possible = row["mean"] > 0 or (row["mean"] == 0 and not more)
        if row["engine"] == CEILING or name in aside or not possible:
            continue
        if names is not None:
            if name not in names:
                continue
            row = {**row, PROMISE: promise(row, promises)}
            name = names[name]
        if name not in best or _preferred(row, best[name], more):
            best[name] = row
    there = [f for f in factors if f in rows]
    varying = [f for f in varying_factors(rows, there) if f not in promises]
    if comparable.WITH not in rows and "step" in rows and rows["step"].nunique() > 1:
        varying.append("step")
    stores = [name for name, row in best.items() if row["engine"] != BASELINE]
    vague = {name for name in stores if as_estimate(best[name]).vague()}
    clear = [name for name in stores if name not in vague]
    places = ranks([as_estimate(best[name]) for name in clear], more=more)
    sign = -1 if more else 1
    ranked = sorted(
        [*zip(places, clear, strict=True), *((0, name) for name in vague)],
        key=lambda one: (one[1] in vague, one[0], sign * best[one[1]]["mean"], one[1]),
    )
    base = [(0, name) for name, row in best.items() if row["engine"] == BASELINE]
    return [_standing(name, best[name], rank, varying) for rank, name in [*base[:1], *ranked]]


def differing(estimates: Sequence[Estimate], *, ratios_only: bool = False) -> set[tuple[int, int]]:
    """Pairs (i, j), i < j, of estimates that differ; `ratios_only`: intervals may overlap."""
    pairs = list(itertools.combinations(range(len(estimates)), 2))
    apart = {(i, j) for i, j in pairs if not estimates[i].overlaps(estimates[j])}
    positive = [(i, j) for i, j in pairs if estimates[i].mean > 0 and estimates[j].mean > 0]
    ratios = {(i, j): ratio(estimates[i], estimates[j]) for i, j in positive}
    tested = {pair: one for pair, one in ratios.items() if not math.isnan(p_of(one))}
    judged = holm(list(tested.values()))
    different = {pair for pair, one in zip(tested, judged, strict=True) if one["differs"]}
    # Of a figure that is 0 there is no ratio: the intervals alone tell.
    different |= apart - ratios.keys()
    return different if ratios_only else different & apart


def ranks(estimates: Sequence[Estimate], *, more: bool, ratios_only: bool = False) -> list[int]:
    """The rank of each estimate, from 1; `more` says that more is better.

    `ratios_only` is for figures whose own intervals nobody sees.
    """
    different = differing(estimates, ratios_only=ratios_only)
    left = list(range(len(estimates)))
    places = [0] * len(estimates)
    rank = 0
    while left:
        rank += 1
        best = min(left, key=lambda i: _order(estimates[i], more))
        group = [i for i in left if (min(i, best), max(i, best)) not in different]
        for i in group:
            places[i] = rank
        left = [i for i in left if i not in group]
    return places


def _order(one: Estimate, more: bool) -> tuple[float, ...]:
    # Equal means are told by the rest of the figure, so that the order of the input is nothing.
    width = one.high - one.low if one.known() else math.inf
    return (-one.mean if more else one.mean, width, -one.n)


def _preferred(row: Mapping[str, Any], other: Mapping[str, Any], more: bool) -> bool:
    if CHOSEN_BY in row:
        return bool(row[CHOSEN_BY] > other[CHOSEN_BY])
    return bool(row["mean"] > other["mean"] if more else row["mean"] < other["mean"])


def _standing(name: str, row: Mapping[str, Any], rank: int, varying: Sequence[str]) -> Standing:
    where = [
        row.get(PROMISE, ""),
        setting(row, [f for f in varying if f not in SHAPE]),
        "" if missing(row.get(comparable.WITH)) else str(row[comparable.WITH]),
    ]
    return Standing(
        name,
        setting(row, _shape(row, varying)),
        ", ".join(words for words in where if words),
        as_estimate(row),
        rank,
        row["engine"] == BASELINE,
        "" if missing(row.get(NOTE)) else str(row[NOTE]),
        str(row[SOURCE_ROW]),
        str(row["engine"]),
        float(row.get(FINISHED, math.inf)),
    )


def _shape(row: Mapping[str, Any], varying: Sequence[str]) -> list[str]:
    """Those that vary, or that make it more than a single server."""
    there = [f for f in SHAPE if f in row and not missing(row[f])]
    return [f for f in there if f in varying or row[f] > 1]


def interval(estimate: Estimate, unit: str = "") -> str:
    """The 95 % interval in words and on what it rests; empty where there is none."""
    if not estimate.known() or not estimate.high > estimate.low:
        return ""
    one_run = estimate.resampled in ("seconds", "operations")
    basis = f", from the {estimate.resampled} of one run" if one_run else ""
    return f"95 % interval {quantity(estimate.low, unit)} to {quantity(estimate.high, unit)}{basis}"


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


def comparison(criterion: Criterion, better: Standing, worse: Standing) -> str:
    """How much better one choice is, in words: ``is 2.1 times as fast``, ``takes 15 % of that``.

    Neither figure may be 0.
    """
    a, b = better.estimate.mean, worse.estimate.mean
    if criterion.unit == INODES:
        # Few of them are nothing worth a ratio.
        return f"has {count(a)} instead of {count(b)}"
    factor = max(a, b) / min(a, b)
    if criterion.more:
        rate = criterion.unit.endswith("/s")
        if factor >= 2:
            return f"is {number(factor)} times as {'fast' if rate else 'high'}"
        return f"is {(factor - 1) * 100:.0f} % {'faster' if rate else 'higher'}"
    share = 100 / factor
    return f"takes {number(share) if share < 10 else f'{share:.0f}'} % of that"
