"""Means with 95 % intervals, and adjusted p of several tests.

`storewise.analysis.measure.summary` computes the standard errors of means over repeats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from storewise.analysis.common.frames import Floats

#: Confidence level of every interval.
LEVEL = 0.95
#: Seed of random draws.
SEED = 20190601
#: Largest ratio of the ends of an interval that is drawn.
WIDEST = 10.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of `n` repeats with the ends of its interval (nan: no interval)."""

    n: int
    mean: float
    low: float = math.nan
    high: float = math.nan

    def known(self) -> bool:
        """Whether the estimate has an interval."""
        return self.low <= self.high


def too_wide(low: float | None, high: float | None) -> bool:
    """Whether an interval is too wide to draw: it includes 0, or its ends differ by more than the
    factor WIDEST."""
    if low is None or high is None or not high > low:
        return False
    return low <= 0 or high > WIDEST * low


def holm_adjusted(p: Sequence[float | None] | Floats) -> Floats:
    """p of a family of tests, adjusted by Holm's method (*Scandinavian Journal of Statistics* 6,
    1979).

    In ascending order, p number i of n is multiplied by n - i + 1, raised to the adjusted p before
    it if that is greater, and limited to 1. A test without p (None, nan) becomes nan and does not
    count. `statsmodels` has the same, but each call collects garbage, which takes 50 ms per family.
    """
    adjusted = np.array(p, dtype=float)
    tested = np.flatnonzero(~np.isnan(adjusted))
    order = tested[np.argsort(adjusted[tested], kind="stable")]
    steps = adjusted[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(steps).clip(max=1.0)
    return adjusted
