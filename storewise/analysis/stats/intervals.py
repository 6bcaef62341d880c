"""Means with their intervals, and p of many tests.

The errors of means over repeats are `storewise.analysis.measure.summary`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from storewise.analysis.common.frames import Floats

#: Confidence level of every interval.
LEVEL = 0.95
#: Of what is drawn.
SEED = 20190601
#: An interval whose ends differ by more than this factor says hardly anything.
WIDEST = 10.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of `n` repeats with the ends of its interval, which are nan where there is none."""

    n: int
    mean: float
    low: float = math.nan
    high: float = math.nan

    def known(self) -> bool:
        """Whether there is an interval at all."""
        return self.low <= self.high


def too_wide(low: float | None, high: float | None) -> bool:
    """Whether an interval says too little to be drawn: more than WIDEST from end to end, or beyond
    zero."""
    if low is None or high is None or not high > low:
        return False
    return low <= 0 or high > WIDEST * low


def holm_adjusted(p: Sequence[float | None] | Floats) -> Floats:
    """p of a family of tests adjusted by Holm's method (*Scandinavian Journal of Statistics* 6,
    1979).

    In ascending order each p is multiplied by the number of tests not yet passed (itself included),
    raised to the adjusted p before it if that is greater, and limited to 1. A test without p (None,
    nan) becomes nan and does not count. `statsmodels` has the same, but each of its calls collects
    garbage, 50 ms for every family.
    """
    adjusted = np.array(p, dtype=float)
    tested = np.flatnonzero(~np.isnan(adjusted))
    order = tested[np.argsort(adjusted[tested], kind="stable")]
    steps = adjusted[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(steps).clip(max=1.0)
    return adjusted
