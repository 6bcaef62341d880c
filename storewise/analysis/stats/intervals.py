"""Means over repeats with bootstrap intervals, and their ratios.

Rates, sizes and their ratios are positive and their errors multiply, so all is done on logarithms
and the mean is the geometric one (Fleming & Wallace, "How not to lie with statistics", CACM
29(3), 1986). Where a value is not positive the arithmetic mean and its interval are used instead.

Over n >= 2 repeats the *repeats* are resampled. A percentile interval of few values cannot leave
their range and covers far too little (for n = 2 about half of what it claims), so the bootstrap's
standard error s_b is used with Student's t and the narrowness correction sqrt(n / (n - 1)): mean +-
t(n - 1) * s_b * sqrt(n / (n - 1)) (Hesterberg, "What Teachers Should Know About the Bootstrap", The
American Statistician 69(4), 2015, sections 3 and 5). Of a mean s_b needs no drawing: endlessly many
resamples give sqrt(mean squared deviation / n) (Efron & Tibshirani, "An Introduction to the
Bootstrap", 1993, section 6.2). With fewer than five repeats that factor is so large that nothing
could be said (12.7 for two), so settings of one phase are taken to spread alike, relative to their
means, and their residuals are resampled together: the residual bootstrap (Efron & Tibshirani,
chapter 9), whose standard error of a mean of n is sqrt(mean squared residual / n), with the degrees
of freedom of all settings. A setting that spreads more than the others do, by more than chance (F
test of its variance, `UNLIKE`), shares it with its like only, or with none: beside steady settings
it would else look far surer than it is. With one repeat only the *seconds* within it are left.
Neighbours are alike, so n of them with autocorrelation r are worth n (1 - r) / (1 + r) (Bayley &
Hammersley, Journal of the Royal Statistical Society 8(2), 1946), which takes the place of n in the
formula above. Moving blocks (Kuensch, Annals of Statistics 17(3), 1989) ask for far longer series:
of 8 to 60 seconds with r = 0.6 their 95 % intervals cover 54 to 81 %. Of a percentile the
operations behind it are left (``storewise.analysis.measure.latency_intervals``). Either interval
knows nothing of what differs from run to run and is labelled so. With neither, there is no
interval, but for what is counted and not timed (a store's size): that stands for itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import fdtrc, stdtrit

from storewise.analysis.common.frames import Floats

#: Confidence level of every interval.
LEVEL = 0.95
#: Of what is drawn.
SEED = 20190601
#: An interval whose ends differ by more than this factor says hardly anything.
WIDEST = 10.0
#: Fewest seconds from which an interval within one trial is made.
MIN_SECONDS = 8

#: From this many repeats on a setting's own spread is used, below that of all settings together.
OWN_SPREAD = 5
#: Probability of a spread so far above that of the other settings, below which it is not shared.
#: Larger than usual in tests: to miss a noisy setting does more harm than a wide interval.
UNLIKE = 0.1
#: What rounding leaves of equal or straight values, as a share of them.
_ROUNDING = 1e-12
#: Greatest logarithm of an interval's end over its mean; `exp` of more is no number.
_FARTHEST = 700.0
#: The columns of an estimate in a table.
ESTIMATE = ("n", "mean", "low", "high", "resampled", "error", "freedom")

Resampled = Literal["repeats", "pooled", "seconds", "operations", "counted", "none"]


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

    @classmethod
    def unknown(cls, n: int, mean: float) -> Estimate:
        """A mean without an interval."""
        return cls(n, mean, math.nan, math.nan, "none")

    @classmethod
    def on_logarithms(
        cls, n: int, mean: float, resampled: Resampled, error: float, freedom: float
    ) -> Estimate:
        """A positive mean with Student's interval, from the standard error of its logarithm."""
        half = half_width(error, freedom)
        low, high = mean * math.exp(-half), mean * math.exp(min(half, _FARTHEST))
        return cls(n, mean, low, high, resampled, error, freedom)

    def known(self) -> bool:
        """Whether there is an interval at all."""
        return self.resampled != "none"

    def times(self, factor: float) -> Estimate:
        """The estimate times a number; on logarithms its error stays."""
        return replace(
            self, mean=self.mean * factor, low=self.low * factor, high=self.high * factor
        )

    def under(self, number: float) -> Estimate:
        """A number over the estimate: the interval's ends change places, and on logarithms the
        error stays. Where the interval reaches 0 there is none."""
        if not (self.known() and self.low > 0):
            return Estimate.unknown(self.n, number / self.mean)
        return replace(
            self, mean=number / self.mean, low=number / self.high, high=number / self.low
        )

    def columns(self) -> dict[str, Any]:
        """The columns ESTIMATE of a row."""
        return {name: getattr(self, name) for name in ESTIMATE}


def too_wide(low: float | None, high: float | None) -> bool:
    """Whether an interval says too little to be drawn: more than WIDEST from end to end, or beyond
    zero."""
    if low is None or high is None or not high > low:
        return False
    return low <= 0 or high > WIDEST * low


def half_width(error: float, freedom: float) -> float:
    """Half of Student's interval at LEVEL."""
    return float(stdtrit(freedom, (1 + LEVEL) / 2)) * error


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
    error = float(np.std(scaled, ddof=1)) / math.sqrt(n)
    if log:
        return Estimate.on_logarithms(n, mean, "repeats", error, n - 1.0)
    half = half_width(error, n - 1.0)
    return Estimate(n, mean, mean - half, mean + half, "repeats", error, n - 1.0, log=False)


def pooled(settings: Sequence[Sequence[float]]) -> list[Estimate | None]:
    """Means of few repeats, one per setting, with intervals from the spread of all settings.

    None for a setting that has its own interval or none: fewer than two or at least `OWN_SPREAD`
    values, a value that is not positive, or no other setting to share a spread with. Settings whose
    spread is above that of the others by more than chance share it with each other only (it stays
    in the others' all the same).
    """
    estimates: list[Estimate | None] = [None] * len(settings)
    logs = {
        i: np.log(np.asarray(values, dtype=float))
        for i, values in enumerate(settings)
        if 2 <= len(values) < OWN_SPREAD and min(values) > 0
    }
    if len(logs) < 2:
        return estimates
    # Residuals are drawn towards their own mean; n / (n - 1) in the square undoes that.
    squares = np.concatenate([(x - x.mean()) ** 2 * len(x) / (len(x) - 1) for x in logs.values()])
    freedom = float(sum(len(x) - 1 for x in logs.values()))
    sums = {i: float(np.sum((x - x.mean()) ** 2)) for i, x in logs.items()}
    total = sum(sums.values())
    noisy: list[int] = []
    for i, x in logs.items():
        if _spreads_more(sums[i], len(x) - 1.0, total - sums[i], freedom - len(x) + 1):
            noisy.append(i)
            continue
        error = math.sqrt(float(squares.mean()) / len(x))
        mean = math.exp(float(x.mean()))
        estimates[i] = Estimate.on_logarithms(len(x), mean, "pooled", error, freedom)
    for i, one in zip(noisy, pooled([settings[i] for i in noisy]), strict=True):
        estimates[i] = one
    return estimates


def _spreads_more(square: float, freedom: float, others: float, of_others: float) -> bool:
    """Whether a sum of squares is that of a greater variance than the others', by an F test."""
    if others <= 0:
        return square > 0
    return bool(fdtrc(freedom, of_others, square / freedom / (others / of_others)) < UNLIKE)


def _within(mean: float, seconds: Sequence[float]) -> Estimate:
    """The interval of one trial's mean rate from its own seconds."""
    rates = np.asarray(seconds, dtype=float)
    if len(rates) < MIN_SECONDS or not np.all(np.isfinite(rates)) or rates.mean() <= 0:
        return Estimate.unknown(1, mean)
    # Relative to the seconds' own mean: the headline may be of the whole phase.
    relative = rates / rates.mean()
    size = effective(len(rates), autocorrelation(relative))
    error = float(np.std(relative, ddof=1)) / math.sqrt(size)
    return Estimate.on_logarithms(1, mean, "seconds", error, size - 1)


def autocorrelation(values: Floats, fitted: int = 1) -> float:
    """The correlation of neighbours, corrected for the bias that `fitted` parameters (a mean, or
    mean and slope) bring (Kendall, Biometrika 41, 1954)."""
    n = len(values)
    centred = values - values.mean()
    square = float(np.sum(centred**2))
    # What rounding leaves of a straight line is no correlation.
    if n < 5 or square <= n * (_ROUNDING * float(np.abs(values).max())) ** 2:
        return 0.0
    plain = float(np.sum(centred[1:] * centred[:-1])) / square
    return float(np.clip((n * plain + fitted) / (n - 4), -1.0, 1.0))


def effective(n: int, r: float) -> float:
    """The number of independent values that `n` with autocorrelation `r` are worth: from 2 to n,
    for negative correlation is not trusted to make them worth more."""
    r = min(max(r, 0.0), 1.0)
    return float(min(n, max(2.0, n * (1 - r) / (1 + r))))


def ratio(above: Estimate, below: Estimate) -> Estimate:
    """The ratio of two independent means with its interval.

    On logarithms the ratio is a difference: errors add in squares, degrees of freedom as Welch
    and Satterthwaite have them (`welch`).
    """
    n = min(above.n, below.n)
    mean = above.mean / below.mean if below.mean else math.nan
    if not (above.known() and below.known() and above.log and below.log and mean > 0):
        return Estimate.unknown(n, mean)
    error = math.hypot(above.error, below.error)
    shared = above.resampled == below.resampled == "pooled" and error > 0
    if shared and math.isclose(above.error * math.sqrt(above.n), below.error * math.sqrt(below.n)):
        freedom = above.freedom  # one spread, estimated once
    else:
        freedom = welch([(one.error, one.freedom) for one in (above, below)])
    basis = weaker(above.resampled, below.resampled)
    return Estimate.on_logarithms(n, mean, basis, error, freedom)


def welch(errors: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent values, each with its standard error and degrees
    of freedom (Welch, Biometrika 34, 1947; Satterthwaite, Biometrics Bulletin 2, 1946)."""
    total = math.hypot(*(error for error, _ in errors))
    if total == 0:
        return sum(freedom for _, freedom in errors)
    return total**4 / sum(error**4 / freedom for error, freedom in errors if error > 0)


#: From the basis that says least about other runs to the one that says most.
_WEAKEST = ("none", "operations", "seconds", "pooled", "repeats", "counted")


def weaker(*bases: Resampled) -> Resampled:
    """On what a figure rests that is made of several."""
    return min(bases, key=_WEAKEST.index)


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
