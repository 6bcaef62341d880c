"""Means over repeats with bootstrap intervals.

Rates, sizes and their ratios are positive and their errors multiply, so all is done on logarithms
and the mean is the geometric one (Fleming & Wallace, "How not to lie with statistics", CACM
29(3), 1986). Where a value is not positive the arithmetic mean and its interval are used instead.

Over n >= 2 repeats the *repeats* are resampled. A percentile interval of few values cannot leave
their range and covers far too little (for n = 2 about half of what it claims), so the bootstrap's
standard error s_b is used with Student's t and the narrowness correction sqrt(n / (n - 1)):
mean +- t(n - 1) * s_b * sqrt(n / (n - 1)) (Hesterberg, "What Teachers Should Know About the
Bootstrap", The American Statistician 69(4), 2015, sections 3 and 5). Of a mean s_b needs no
drawing: endlessly many resamples give sqrt(mean squared deviation / n) (Efron & Tibshirani, "An
Introduction to the Bootstrap", 1993, section 6.2). With fewer than five repeats that factor is so
large that nothing could be said (12.7 for two), so settings of one phase are taken to spread alike,
relative to their means, and their residuals are resampled together: the residual bootstrap (Efron &
Tibshirani, chapter 9), whose standard error of a mean of n is sqrt(mean squared residual / n), with
the degrees of freedom of all settings. With one repeat only the *seconds* within it can be
resampled, in moving blocks because neighbours are alike (Kuensch, Annals of Statistics 17(3),
1989), or the operations behind a percentile (``storewise.analysis.latencyintervals``); such an
interval knows nothing of what differs from run to run and is labelled so. With neither, there is no
interval, but for what is counted and not timed (a store's size): that stands for itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

#: Confidence level of every interval.
LEVEL = 0.95
RESAMPLES = 2000
SEED = 20190601
#: Fewest seconds from which an interval within one trial is made.
MIN_SECONDS = 8

#: From this many repeats on a setting's own spread is used, below that of all settings together.
OWN_SPREAD = 5

Resampled = Literal["repeats", "pooled", "seconds", "operations", "counted", "none"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval; `low` and `high` are nan where `resampled` is "none".

    `error` is the standard error of the mean on the scale of `log` (logarithms or plain values),
    `freedom` its degrees of freedom; both serve to carry the interval into ratios.
    """

    n: int
    mean: float
    low: float
    high: float
    resampled: Resampled
    error: float = math.nan
    freedom: float = math.nan
    log: bool = True

    def known(self) -> bool:
        """Whether there is an interval at all."""
        return self.resampled != "none"

    def overlaps(self, other: Estimate) -> bool:
        """Whether the two cannot be told apart; unknown intervals overlap with everything."""
        if not (self.known() and other.known()):
            return True
        return self.low <= other.high and other.low <= self.high


def _standard_error(values: Floats) -> float:
    """Bootstrap standard error of the mean, corrected for narrowness."""
    n = len(values)
    ideal = float(np.std(values)) / math.sqrt(n)
    return ideal * math.sqrt(n / (n - 1))


def estimate(
    values: Sequence[float], seconds: Sequence[float] = (), *, counted: bool = False
) -> Estimate:
    """The mean of one value per repeat, with its 95 % interval.

    `seconds` are the per-second values of the single repeat, used only where `values` has one;
    `counted` says that a single value is exact.
    Raises ValueError for no value at all.
    """
    if not len(values):
        raise ValueError("no value to take the mean of")
    plain = np.asarray(values, dtype=float)
    log = bool(np.all(plain > 0))
    scaled = np.log(plain) if log else plain
    centre = float(np.mean(scaled))
    n = len(plain)
    mean = math.exp(centre) if log else centre
    if n == 1 and counted:
        return Estimate(1, mean, mean, mean, "counted", 0.0, 1.0, log)
    if n == 1:
        return _within(mean, seconds)
    error = _standard_error(scaled)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * error
    low, high = centre - half, centre + half
    if log:
        low, high = math.exp(low), math.exp(min(high, 700.0))
    return Estimate(n, mean, low, high, "repeats", error, n - 1.0, log)


def pooled(settings: Sequence[Sequence[float]]) -> list[Estimate | None]:
    """Means of few repeats, one per setting, with intervals from the spread of all settings.

    None for a setting that has its own interval or none: fewer than two or at least `OWN_SPREAD`
    values, a value that is not positive, or no other setting to share a spread with.
    """
    found: list[Estimate | None] = [None] * len(settings)
    logs = {
        i: np.log(np.asarray(values, dtype=float))
        for i, values in enumerate(settings)
        if 2 <= len(values) < OWN_SPREAD and min(values) > 0
    }
    if len(logs) < 2:
        return found
    # Residuals are drawn towards their own mean; n / (n - 1) in the square undoes that.
    squares = np.concatenate([(x - x.mean()) ** 2 * len(x) / (len(x) - 1) for x in logs.values()])
    freedom = float(sum(len(x) - 1 for x in logs.values()))
    for i, x in logs.items():
        error = math.sqrt(float(squares.mean()) / len(x))
        half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
        centre = float(x.mean())
        low, high = math.exp(centre - half), math.exp(min(centre + half, 700.0))
        found[i] = Estimate(len(x), math.exp(centre), low, high, "pooled", error, freedom)
    return found


def _within(mean: float, seconds: Sequence[float]) -> Estimate:
    """The interval of one trial's mean rate from its own seconds."""
    rates = np.asarray(seconds, dtype=float)
    if len(rates) < MIN_SECONDS or not np.all(np.isfinite(rates)) or rates.mean() <= 0:
        return Estimate(1, mean, math.nan, math.nan, "none")
    # Relative to the seconds' own mean: the headline may be of the whole phase.
    means = block_means(rates) / rates.mean()
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    error = float(np.std(np.log(means[means > 0]))) if np.any(means > 0) else math.nan
    return Estimate(1, mean, mean * low, mean * high, "seconds", error, len(rates) - 1.0)


def block_means(values: Floats, resamples: int = RESAMPLES) -> Floats:
    """Means of moving-block resamples; blocks of the cube root of n, as usual for a mean."""
    n = len(values)
    length = max(1, round(n ** (1 / 3)))
    blocks = math.ceil(n / length)
    rng = np.random.default_rng(SEED)
    starts = rng.integers(0, n - length + 1, size=(resamples, blocks))
    index = (starts[:, :, None] + np.arange(length)).reshape(resamples, -1)[:, :n]
    means: Floats = values[index].mean(axis=1)
    return means


def ratio(above: Estimate, below: Estimate) -> Estimate:
    """The ratio of two independent means with its interval.

    On logarithms the ratio is a difference: errors add in squares, degrees of freedom as Welch
    and Satterthwaite have them (Welch, Biometrika 34, 1947).
    """
    if below.mean == 0:
        return Estimate(min(above.n, below.n), math.nan, math.nan, math.nan, "none")
    mean = above.mean / below.mean
    n = min(above.n, below.n)
    if not (above.known() and below.known() and above.log and below.log) or mean <= 0:
        return Estimate(n, mean, math.nan, math.nan, "none")
    error = math.hypot(above.error, below.error)
    if error == 0:
        freedom = above.freedom + below.freedom
    elif above.resampled == below.resampled == "pooled":
        freedom = above.freedom  # one spread, estimated once
    else:
        freedom = error**4 / (above.error**4 / above.freedom + below.error**4 / below.freedom)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return Estimate(
        n,
        mean,
        mean * math.exp(-half),
        mean * math.exp(min(half, 700.0)),
        weaker(above.resampled, below.resampled),
        error,
        freedom,
    )


#: From the basis that says least about other runs to the one that says most.
_WEAKEST: tuple[Resampled, ...] = (
    "none",
    "operations",
    "seconds",
    "pooled",
    "repeats",
    "counted",
)


def weaker(*bases: Resampled) -> Resampled:
    """On what a figure rests that is made of several."""
    return min(bases, key=_WEAKEST.index)


def columns(found: Estimate) -> Mapping[str, float | int | str]:
    """The estimate as columns of a table."""
    return {
        "n": found.n,
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "resampled": found.resampled,
    }
