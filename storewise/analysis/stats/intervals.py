"""Means over repeats with their intervals, ratios of them, and p of many tests.

Rates, times and sizes are positive and their errors multiply, so errors are of logarithms and a
mean is the geometric one (Fleming & Wallace, "How not to lie with statistics", *CACM* 29(3), 1986).
Where they come from, from the spread of repeats, is `storewise.analysis.measure.summary`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from storewise.analysis.common.frames import Floats

#: Confidence level of every interval.
LEVEL = 0.95
#: Of what is drawn.
SEED = 20190601
#: An interval whose ends differ by more than this factor says hardly anything.
WIDEST = 10.0
#: Greatest logarithm of an interval's end over its mean; `exp` of more is no number.
_FARTHEST = 700.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of `n` repeats with the ends of its interval, which are nan where there is none.

    `error` is the standard error of the mean's logarithm, `freedom` its degrees of freedom; both
    serve to carry the interval into ratios.
    """

    n: int
    mean: float
    low: float = math.nan
    high: float = math.nan
    error: float = math.nan
    freedom: float = math.nan

    @classmethod
    def of(cls, n: int, mean: float, error: float, freedom: float) -> Estimate:
        """A positive mean with Student's interval."""
        half = half_width(error, freedom)
        low, high = mean * math.exp(-half), mean * math.exp(min(half, _FARTHEST))
        return cls(n, mean, low, high, error, freedom)

    def known(self) -> bool:
        """Whether there is an interval at all."""
        return self.low <= self.high

    def times(self, factor: float) -> Estimate:
        """The estimate times a number; its error stays."""
        return replace(
            self, mean=self.mean * factor, low=self.low * factor, high=self.high * factor
        )

    def reciprocal(self, numerator: float) -> Estimate:
        """A number over the estimate: the interval's ends change places, its error stays. Where the
        interval reaches 0 there is none."""
        if not self.low > 0:
            return Estimate(self.n, numerator / self.mean)
        low, high = numerator / self.high, numerator / self.low
        return replace(self, mean=numerator / self.mean, low=low, high=high)

    def columns(self) -> dict[str, Any]:
        """The columns ESTIMATE of a row."""
        return asdict(self)


#: The columns of an estimate in a table.
ESTIMATE = tuple(one.name for one in fields(Estimate))


def too_wide(low: float | None, high: float | None) -> bool:
    """Whether an interval says too little to be drawn: more than WIDEST from end to end, or beyond
    zero."""
    if low is None or high is None or not high > low:
        return False
    return low <= 0 or high > WIDEST * low


def half_width(error: float, freedom: float) -> float:
    """Half of Student's interval at LEVEL."""
    return float(stdtrit(freedom, (1 + LEVEL) / 2)) * error


def ratio(above: Estimate, below: Estimate) -> Estimate:
    """The ratio of two independent means with its interval.

    On logarithms the ratio is a difference: errors add in squares, degrees of freedom as Welch
    and Satterthwaite have them (`welch`); of errors from one pooled variance they are its own.
    """
    n, mean = min(above.n, below.n), above.mean / below.mean if below.mean else math.nan
    if not (above.known() and below.known() and mean > 0):
        return Estimate(n, mean)
    spreads = [one.error * math.sqrt(one.n) for one in (above, below)]
    pooled = above.freedom == below.freedom and math.isclose(*spreads)
    errors = [(one.error, one.freedom) for one in (above, below)]
    freedom = above.freedom if pooled else welch(errors)
    return Estimate.of(n, mean, math.hypot(above.error, below.error), freedom)


def welch(errors: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent values, each with its standard error and degrees
    of freedom (Welch, Biometrika 34, 1947; Satterthwaite, Biometrics Bulletin 2, 1946)."""
    total = math.hypot(*(error for error, _ in errors))
    if total == 0:
        return sum(freedom for _, freedom in errors)
    return total**4 / sum(error**4 / freedom for error, freedom in errors if error > 0)


def holm_adjusted(p: Sequence[float | None] | Floats) -> Floats:
    """p of a family of tests adjusted by Holm's method (*Scandinavian Journal of Statistics* 6,
    1979): from the smallest up times the number of those not judged yet, never below one before.

    What was not tested (None, nan) becomes nan and does not count. `statsmodels` has the same, but
    each of its calls collects garbage, 50 ms for every family.
    """
    adjusted = np.array(p, dtype=float)
    tested = np.flatnonzero(~np.isnan(adjusted))
    order = tested[np.argsort(adjusted[tested], kind="stable")]
    steps = adjusted[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.maximum.accumulate(steps).clip(max=1.0)
    return adjusted
