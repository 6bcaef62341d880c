"""Rank groups: choices that do not differ share a rank.

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
from collections.abc import Sequence

from storewise.analysis.judge.differences import holm, p_of
from storewise.analysis.stats.intervals import Estimate, ratio

Pair = tuple[int, int]


def differing(estimates: Sequence[Estimate], *, ratios_only: bool = False) -> set[Pair]:
    """Pairs (i, j), i < j, of estimates that differ; `ratios_only`: intervals may overlap."""
    pairs = list(itertools.combinations(range(len(estimates)), 2))
    apart = {(i, j) for i, j in pairs if not estimates[i].overlaps(estimates[j])}
    ratios = {
        (i, j): ratio(estimates[i], estimates[j])
        for i, j in pairs
        if estimates[i].mean > 0 and estimates[j].mean > 0
    }
    tested = [pair for pair, one in ratios.items() if not math.isnan(p_of(one))]
    judged = holm([ratios[pair] for pair in tested])
    found = {pair for pair, one in zip(tested, judged, strict=True) if one["differs"]}
    # Of a figure that is 0 there is no ratio: the intervals alone tell.
    found |= {(i, j) for i, j in apart if (i, j) not in ratios}
    return found if ratios_only else found & apart


def ranks(estimates: Sequence[Estimate], *, more: bool, ratios_only: bool = False) -> list[int]:
    """The rank of each estimate, from 1; `more` says that more is better.

    `ratios_only` is for figures whose own intervals nobody sees.
    """
    different = differing(estimates, ratios_only=ratios_only)
    left = list(range(len(estimates)))
    found = [0] * len(estimates)
    for rank in itertools.count(1):
        if not left:
            return found
        best = min(left, key=lambda i: _order(estimates[i], more))
        group = [i for i in left if i == best or _pair(i, best) not in different]
        for i in group:
            found[i] = rank
        left = [i for i in left if i not in group]
    raise AssertionError("each round ranks one at least")


def _pair(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)


def _order(one: Estimate, more: bool) -> tuple[float, ...]:
    # Equal means are told by the rest of the figure, so that the order of the input is nothing.
    width = one.high - one.low if one.known() else math.inf
    return (-one.mean if more else one.mean, width, -one.n)
