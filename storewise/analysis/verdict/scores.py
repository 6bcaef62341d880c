"""One figure per choice of all criteria by their weights, and what would change who is first.

The score of a choice is the weighted geometric mean of its figures, each as a ratio to the best
(turned over where less is better), so that units are nothing and twice as fast weighs as much as
half the space. It is the weighted product of multiple-criteria decisions (Miller and Starr,
*Executive Decisions and Operations Research*, 1969; Triantaphyllou, *Multi-criteria Decision Making
Methods*, 2000, section 2.2.2), whose order, unlike that of weighted sums, does not hang on what the
figures are divided by.

Criteria of one choice come from the same trials and may err together, so their errors are not added
in squares but as they are: the standard deviation of a sum is at most the sum of the standard
deviations. Those of two choices are independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from storewise.analysis.stats.intervals import Estimate, ratio, weaker
from storewise.analysis.verdict.standings import ranks


@dataclass(frozen=True, slots=True)
class Counted:
    """A criterion that counts: its weight, what is better, and the figure of each choice that has
    one; figures below `least` count as that."""

    name: str
    weight: float
    more: bool
    figures: Mapping[str, Estimate]
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """A choice's score relative to the best one (at most 1), with the interval of that ratio.

    `rank` is its group; 0 for a choice that lacks some of the criteria (`lacks`), which is held
    against the best of the others on what both have only.
    """

    choice: str
    relative: Estimate
    rank: int
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """With the weight of `criterion` at the share `share` instead of `now`, `choice` draws level
    with the winner; beyond it is first, until at the share `until` (nan: to the end) `then` is."""

    choice: str
    criterion: str
    share: float
    now: float
    then: str = ""
    until: float = math.nan


def logarithm(figure: Estimate, more: bool, least: float) -> tuple[float, float, float]:
    """The logarithm of a figure (greater is better), its standard error, and its degrees of
    freedom (inf: exact)."""
    sign = 1.0 if more else -1.0
    value = max(figure.mean, least)
    if not value > 0:
        raise ValueError("a figure of 0 has no ratio; its criterion needs a least figure")
    if figure.mean < least:
        return sign * math.log(value), 0.0, math.inf
    if figure.resampled == "none":
        return sign * math.log(value), math.nan, math.nan
    exact = figure.error == 0
    return sign * math.log(value), figure.error, math.inf if exact else figure.freedom


def product(choice: str, criteria: Sequence[Counted]) -> Estimate:
    """The weighted geometric mean of a choice's figures (all of `criteria` must have one).

    With errors e that add up as they are, Satterthwaite's degrees of freedom are those of
    s = sum(w e), whose own error is at most sum(w e / sqrt(2 f)): (s / sum(w e / sqrt(f)))^2.
    """
    total = sum(one.weight for one in criteria)
    centre, error, doubt = 0.0, 0.0, 0.0
    uncertain: list[Estimate] = []
    for one in criteria:
        figure = one.figures[choice]
        value, its_error, freedom = logarithm(figure, one.more, one.least)
        share = one.weight / total
        centre += share * value
        if its_error == 0:
            continue
        uncertain.append(figure)
        error += share * its_error
        doubt += share * its_error / math.sqrt(freedom)
    mean = math.exp(centre)
    if not uncertain:
        n = min(one.figures[choice].n for one in criteria)
        return Estimate(n, mean, mean, mean, "counted", 0.0, 1.0)
    n = min(figure.n for figure in uncertain)
    if math.isnan(error):
        return Estimate.unknown(n, mean)
    basis = weaker(*(figure.resampled for figure in uncertain))
    return Estimate.on_logarithms(n, mean, basis, error, (error / doubt) ** 2)


def with_weights(criteria: Sequence[Counted], weights: Mapping[str, float]) -> list[Counted]:
    """The criteria with other weights; 0 for those that are not named."""
    return [replace(one, weight=weights.get(one.name, 0.0)) for one in criteria]


def usable(criteria: Sequence[Counted]) -> list[Counted]:
    """The criteria with a weight by which choices can be compared: all of them, if two choices
    have figures for all (or there is one choice), else those that all choices have."""
    criteria = [one for one in criteria if one.weight > 0 and one.figures]
    choices = {choice for one in criteria for choice in one.figures}
    whole = [c for c in choices if all(c in one.figures for one in criteria)]
    if len(whole) > 1 or len(choices) < 2:
        return criteria
    return [one for one in criteria if choices <= set(one.figures)]


def scores(criteria: Sequence[Counted]) -> list[Score]:
    """The choices from first to last by criteria that are `usable`; empty without any.

    Those that have figures for all criteria are ranked; the others follow.
    """
    choices = sorted({choice for one in criteria for choice in one.figures})
    whole = [c for c in choices if all(c in one.figures for one in criteria)]
    if not whole:
        return []
    products = {choice: product(choice, criteria) for choice in whole}
    places = dict(
        zip(whole, ranks(list(products.values()), more=True, ratios_only=True), strict=True)
    )
    best = max(whole, key=lambda choice: products[choice].mean)
    ranked = []
    for choice in sorted(whole, key=lambda one: (places[one], -products[one].mean, one)):
        relative = ratio(products[choice], products[best])
        if choice == best:
            # Nothing is more or less than itself.
            relative = replace(products[best], mean=1.0, low=1.0, high=1.0, error=0.0, freedom=1.0)
        ranked.append(Score(choice, relative, places[choice]))
    for choice in choices:
        both = [one for one in criteria if choice in one.figures]
        if len(both) < len(criteria):
            relative = ratio(product(choice, both), product(best, both))
            lacks = tuple(one.name for one in criteria if choice not in one.figures)
            ranked.append(Score(choice, relative, 0, lacks))
    return ranked


def turn(winner: str, criteria: Sequence[Counted]) -> Turn | None:
    """The smallest change of the share of one weight that makes another choice first.

    The other weights keep their proportions. With d the difference of the logarithms of winner and
    other at each criterion, the two are level where sum(w d) = 0, which is linear in each weight.
    None where no single weight can do it. A criterion with weight 0 can become one.
    """
    weights = [one.weight for one in criteria]
    total = sum(weights)
    others = sorted({c for one in criteria for c in one.figures} - {winner})
    best: Turn | None = None
    for other in others:
        if any(one.weight > 0 and other not in one.figures for one in criteria):
            continue
        gaps = [_gap(one, winner, other) for one in criteria]
        lead = sum(w * gap for w, gap in zip(weights, gaps, strict=True) if gap is not None)
        for one, gap in zip(criteria, gaps, strict=True):
            if gap is None or gap == 0:
                continue
            rest = total - one.weight
            level = -(lead - one.weight * gap) / gap
            if level < 0 or rest <= 0 or level == one.weight:
                continue
            candidate = Turn(other, one.name, level / (rest + level), one.weight / total)
            if best is None or _change(candidate) < _change(best):
                best = candidate
    return best if best is None else _overtaken(best, winner, criteria)


def _overtaken(turn: Turn, winner: str, criteria: Sequence[Counted]) -> Turn:
    """The turn with whoever comes first when the weight changes further the same way."""
    upwards = turn.share > turn.now
    (changed,) = (one for one in criteria if one.name == turn.criterion)
    rest = [one for one in criteria if one.weight > 0 and one is not changed]
    total = sum(one.weight for one in rest)
    thirds = {c for one in criteria for c in one.figures} - {winner, turn.choice}
    for third in sorted(thirds):
        gaps = {one.name: _gap(one, turn.choice, third) for one in [*rest, changed]}
        known = {name: gap for name, gap in gaps.items() if gap is not None}
        gap = known.get(changed.name)
        if len(known) < len(gaps) or not gap or (gap < 0) != upwards:
            continue
        level = -sum(one.weight * known[one.name] for one in rest) / gap
        share = level / (total + level)
        if level >= 0 and (math.isnan(turn.until) or (share < turn.until) == upwards):
            turn = replace(turn, then=third, until=share)
    return turn


def _gap(one: Counted, winner: str, other: str) -> float | None:
    if winner not in one.figures or other not in one.figures:
        return None
    mine = logarithm(one.figures[winner], one.more, one.least)[0]
    return mine - logarithm(one.figures[other], one.more, one.least)[0]


def _change(turn: Turn) -> float:
    return abs(turn.share - turn.now)


def repeats_needed(relative: Estimate) -> int | None:
    """About how many repeats it takes until the interval of a ratio leaves out 1, if its mean stays
    where it is: its width on logarithms falls with the root of the repeats.

    None without an interval, with one that no repeats made, or where the ratio is 1.
    """
    repeated = relative.resampled in ("repeats", "pooled")
    if not repeated or not relative.mean > 0 or relative.mean == 1:
        return None
    half = math.log(relative.high / relative.low) / 2
    distance = abs(math.log(relative.mean))
    if distance <= 0:
        return None
    return max(relative.n + 1, math.ceil(relative.n * (half / distance) ** 2))
