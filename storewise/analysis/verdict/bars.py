"""The figures of a criterion as bars: how long each is, relative to the best.

Longer is better, also where less is (a bar is then best / figure). A scale is straight where the
longest bar is at most `FAR` times the shortest, else logarithmic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from storewise.analysis.verdict.criteria import Criterion, Standing

#: Ratio of the best to the worst figure from which on a scale is logarithmic.
FAR = 20.0
#: The shortest bar of a logarithmic scale.
SHORTEST = 0.04
#: What the client alone can do is drawn where it is at most so many times the best: farther away
#: it limits nobody.
NEAR = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; lengths are shares (0 to 1) of the widest place, nan where there is none."""

    standing: Standing
    length: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scale:
    """How a criterion's figures become lengths: `unit` has length 1 (or `share` of it, where the
    client's ceiling is beyond the best)."""

    best: float
    least: float
    more: bool
    log: bool
    decades: float
    share: float

    def length(self, value: float) -> float:
        """The length of a figure, from 0 to 1; nan of what is no number."""
        if math.isnan(value):
            return math.nan
        value = max(value, self.least)
        relative = (value / self.best if self.more else self.best / value) if value > 0 else 0.0
        if not self.log:
            return min(1.0, max(0.0, relative * self.share))
        if relative <= 0:
            return 0.0
        return min(1.0, max(0.0, (1 + math.log10(relative) / self.decades) * self.share))


def scale_of(criterion: Criterion) -> Scale | None:
    """The scale of a criterion's bars; None where no figure is above 0."""
    values = [max(s.estimate.mean, criterion.least) for s in criterion.standings]
    values = [value for value in values if value > 0]
    if not values:
        return None
    far = max(values) / min(values)
    log = far > FAR
    best = max(values) if criterion.more else min(values)
    decades = math.log10(far) / (1 - SHORTEST) if log else 0.0
    scale = Scale(best, criterion.least, criterion.more, log, decades, 1.0)
    if criterion.more and best < criterion.ceiling <= NEAR * best:
        share = (
            1 + math.log10(criterion.ceiling / best) / decades
            if log
            else (criterion.ceiling / best)
        )
        scale = Scale(best, criterion.least, criterion.more, log, decades, 1 / share)
    return scale


def bars(criterion: Criterion) -> dict[str, Bar]:
    """Choice -> its bar; a figure that is not measured well enough has no length."""
    scale = scale_of(criterion)
    made = {}
    for s in criterion.standings:
        if scale is None:
            made[s.label] = Bar(s, math.nan, math.nan, math.nan)
            continue
        known = s.estimate.known() and s.estimate.high > s.estimate.low
        ends = (s.estimate.low, s.estimate.high) if known else (math.nan, math.nan)
        low, high = sorted(scale.length(end) for end in ends) if known else ends
        made[s.label] = Bar(s, scale.length(s.estimate.mean), low, high)
    return made


def ceiling_of(criterion: Criterion) -> float:
    """Where the client's own ceiling lies, as a length; nan where it is not near."""
    scale = scale_of(criterion)
    if scale is None or not scale.best < criterion.ceiling <= NEAR * scale.best:
        return math.nan
    return 1.0
