"""The Universal Scalability Law over nodes, workers, processes, threads and clients.

X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) (Gunther, "Guerrilla Capacity Planning",
2007, chapters 4 to 6; Gunther, Puglia & Tomasette, "Hadoop superlinear scalability", CACM 58(4),
2015): lambda is the rate of one, sigma in [0, 1] the share that is done one after another
(contention), kappa >= 0 what each pays for each other (coherency). The rate is highest at
N* = sqrt((1 - sigma) / kappa); without kappa there is no highest rate.

The fit is on logarithms, since the errors of rates multiply, weighted with the errors of the means
where these are known. With N / X = s + b N + c N (N - 1) the bounds of sigma and kappa are those of
s, b, c >= 0 (lambda = 1 / (s + b), sigma = b / (s + b), kappa = c / (s + b)), so that each step of
Gauss-Newton is a linear problem with non-negative unknowns (`scipy.optimize.nnls`: Lawson & Hanson,
1974).

Intervals are those of a seeded bootstrap. Where every mean has an error, means are drawn from it;
where they lie farther from the curve than that, the errors are widened by the square root of the
reduced chi square (Birge, Physical Review 40, 1932). Else the residuals are all that tells of the
errors, and they are few: resamples are normal (Davison & Hinkley, "Bootstrap Methods and their
Application", 1997, section 6.2), each with a spread of its own, drawn from what chi square says of
the true one, so that together they are Student's t with the residuals' degrees of freedom.
Resampled residuals themselves give 95 % intervals that cover 75 to 90 % with four to six levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from storewise.analysis.common.frames import Floats
from storewise.analysis.stats.intervals import LEVEL, SEED, half_width

#: Levels from which on three parameters can be told apart and be wrong.
MIN_LEVELS = 4
#: Resamples of one fit: the ends of a 95 % interval are the tenth values from either end.
RESAMPLES = 400
_STEPS = 30
_NEAR = 1e-9
#: Residuals of logarithms below this are rounding, not data.
_ROUNDING = 1e-9
#: Logarithm of the largest error of a resample; one degree of freedom gives any.
_FARTHEST = 20.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A parameter with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Usl:
    """A fitted law.

    `rate_of_one` is lambda, in the rates' unit; `peak` the level with the highest rate (inf: none)
    and `peak_rate` the rate there (without a peak the one that is never reached, lambda / sigma);
    `r2` is of logarithms; `resampled` is "repeats" (errors of the means) or "residuals"; `flags`
    say what to doubt: "extrapolated" (the peak lies beyond the highest level), "no peak",
    "superlinear" (a rate grows faster than its level and a negative sigma fits better, the law's
    bounds are at fault), "superlinear within the errors" (the same, but no more than chance gives).
    """

    rate_of_one: Interval
    sigma: Interval
    kappa: Interval
    peak: Interval
    peak_rate: Interval
    r2: float
    resampled: str
    flags: tuple[str, ...]


def law(level: float | Floats, rate_of_one: float, sigma: float, kappa: float) -> float | Floats:
    """X(N)."""
    return rate_of_one * level / (1 + sigma * (level - 1) + kappa * level * (level - 1))


def not_fitted(levels: Sequence[float], rates: Sequence[float]) -> str:
    """Why the law cannot be fitted to these, or nothing."""
    distinct = len(set(levels))
    if distinct < MIN_LEVELS:
        return (
            f"{distinct} levels; the law's 3 parameters need {MIN_LEVELS} or more to be told apart"
        )
    if not all(math.isfinite(n) and n >= 1 for n in levels):
        return "a level is below 1"
    if not all(math.isfinite(x) and x > 0 for x in rates):
        return "a rate is not positive"
    return ""


def fit(
    levels: Sequence[float],
    rates: Sequence[float],
    errors: Sequence[float] | None = None,
    *,
    resamples: int = RESAMPLES,
) -> Usl:
    """The law fitted to rates at levels, one value each.

    `errors` are the standard errors of the logarithms of `rates`; where one is missing or nothing,
    all count alike. Raises ValueError with what `not_fitted` says.
    """
    if reason := not_fitted(levels, rates):
        raise ValueError(reason)
    n = np.asarray(levels, dtype=float)
    logs = np.log(np.asarray(rates, dtype=float))
    known = np.asarray(errors if errors is not None else math.nan, dtype=float)
    repeated = bool(np.all(np.isfinite(known) & (known > 0)))
    design = np.column_stack([np.ones(len(n)), n, n * (n - 1)])
    curve = _Curve(n, design, known if repeated else np.ones(len(n)), repeated)
    best = curve.solve(logs)
    fitted = np.log(n) - np.log(design @ best)
    draws = curve.draws(logs, fitted, int((best > 0).sum()), resamples)
    resampled = [_parameters(curve.solve(row, best)) for row in draws]
    values = _parameters(best)
    ends = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], 0, method="inverted_cdf")
    one, sigma, kappa, peak, peak_rate = (
        Interval(value, float(low), float(high))
        for value, low, high in zip(values, *ends, strict=True)
    )
    total = float(np.sum((logs - logs.mean()) ** 2))
    left = float(np.sum((logs - fitted) ** 2))
    return Usl(
        one,
        sigma,
        kappa,
        peak,
        peak_rate,
        r2=1 - left / total if total > 0 else math.nan,
        resampled="repeats" if repeated else "residuals",
        flags=tuple(curve.flags(logs, best, peak.value)),
    )


@dataclass(frozen=True, slots=True)
class _Curve:
    """The levels of a curve, the columns of N / X = s + b N + c N (N - 1), and the standard errors
    of the logarithms of its rates (`repeated`; else all alike)."""

    levels: Floats
    design: Floats
    scale: Floats
    repeated: bool

    def solve(self, logs: Floats, start: Floats | None = None) -> Floats:
        """Non-negative s, b, c whose rates are nearest to these, on logarithms: Gauss-Newton, each
        step halved until it is no worse."""
        wanted = np.log(self.levels) - logs
        if start is None:
            # Relative errors of N / X: the same problem where residuals are small.
            start, _ = nnls(self.design / (np.exp(wanted) * self.scale)[:, None], 1 / self.scale)
        best, far = start, self._distance(wanted, start)
        for _ in range(_STEPS):
            target, _ = nnls(*self._linear(wanted, best))
            share, trial = 1.0, target
            while (now := self._distance(wanted, trial)) > far and share > _NEAR:
                share /= 2
                trial = best + share * (target - best)
            if now > far:
                break
            gained, best, far = far - now, trial, now
            if gained <= _NEAR * max(far, _ROUNDING**2):
                break
        return best

    def _linear(self, wanted: Floats, at: Floats) -> tuple[Floats, Floats]:
        """The linear problem of one step: its matrix and its right side."""
        curve = self.design @ at
        matrix = self.design / (curve * self.scale)[:, None]
        return matrix, (1 + wanted - np.log(curve)) / self.scale

    def _distance(self, wanted: Floats, at: Floats) -> float:
        curve = self.design @ at
        if np.any(curve <= 0):
            return math.inf
        return float(np.sum(((np.log(curve) - wanted) / self.scale) ** 2))

    def draws(self, logs: Floats, fitted: Floats, parameters: int, resamples: int) -> Floats:
        """Logarithms of rates as another study would find them, one row per resample;
        `parameters` are those above 0."""
        rng = np.random.default_rng(SEED)
        square = float(np.sum(((logs - fitted) / self.scale) ** 2))
        freedom = len(logs) - parameters
        if self.repeated:
            chi = square / freedom if freedom > 0 else 1.0
            noise = rng.standard_normal((resamples, len(logs))) * max(1.0, math.sqrt(chi))
            return fitted + noise * self.scale
        spread = math.sqrt(square / freedom)
        if spread < _ROUNDING:
            return fitted[None, :]
        # One estimate of the spread per resample, as uncertain as so few residuals make it.
        factor = np.sqrt(freedom / rng.chisquare(freedom, size=(resamples, 1)))
        noise = rng.standard_normal((resamples, len(logs))) * factor * spread
        return fitted + np.clip(noise, -_FARTHEST, _FARTHEST)

    def flags(self, logs: Floats, best: Floats, peak: float) -> Iterable[str]:
        """What to doubt of a fit."""
        if math.isinf(peak):
            yield "no peak"
        elif peak > self.levels.max():
            yield "extrapolated"
        each = logs - np.log(self.levels)
        if best[1] > 0 or not np.any(each > each[np.argmin(self.levels)] + _ROUNDING):
            return
        # b, whose sign is that of sigma, after one step of the fit without bounds.
        rows, target = self._linear(-each, best)
        solution = np.linalg.lstsq(rows, target, rcond=None)[0]
        freedom = len(rows) - rows.shape[1]
        chi = float(np.sum((rows @ solution - target) ** 2)) / freedom
        variance = np.linalg.pinv(rows.T @ rows)[1, 1] * (max(1.0, chi) if self.repeated else chi)
        if solution[1] < 0:
            sure = solution[1] + half_width(math.sqrt(variance), freedom) < 0
            yield "superlinear" if sure else "superlinear within the errors"


def _parameters(at: Floats) -> tuple[float, float, float, float, float]:
    """lambda, sigma, kappa, N*, X(N*) of s, b, c."""
    one = float(at[0] + at[1])
    if one <= 0:
        # Only coherency is left: X(1) is endless and so is what follows from it.
        return math.inf, 0.0, math.inf, 1.0, math.inf
    rate, sigma, kappa = 1 / one, float(at[1]) / one, float(at[2]) / one
    if kappa <= 0:
        return rate, sigma, kappa, math.inf, rate / sigma if sigma > 0 else math.inf
    # Where it falls from the start on, one is best.
    peak = max(1.0, math.sqrt((1 - sigma) / kappa))
    return rate, sigma, kappa, peak, float(law(peak, rate, sigma, kappa))
