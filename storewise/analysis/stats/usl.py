"""The Universal Scalability Law over nodes, workers, processes, threads and clients.

X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) (Gunther, "Guerrilla Capacity Planning",
2007, chapters 4 to 6; Gunther, Puglia & Tomasette, "Hadoop superlinear scalability", CACM 58(4),
2015): lambda is the rate of one, sigma in [0, 1] the share that is done one after another
(contention), kappa >= 0 what each pays for each other (coherency). The rate is highest at
N* = sqrt((1 - sigma) / kappa); without kappa there is no highest rate.

The fit (`scipy.optimize.least_squares`) is on logarithms, since the errors of rates multiply,
weighted with the errors of the means where these are known. Its covariance is that of the linear
problem at the minimum, times the reduced chi square: with known errors only where the means lie
farther from the curve than these (Birge, Physical Review 40, 1932). Intervals of all five figures
are the middle 95 % of draws of lambda, sigma and kappa from that covariance, normal with known
errors and else Student's with the residuals' degrees of freedom, put within the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from storewise.analysis.common.frames import Floats
from storewise.analysis.stats.intervals import LEVEL, SEED

PARAMETERS = ("lambda", "sigma", "kappa", "peak", "peak_rate")
#: Each parameter with the ends of its interval, and what a reader must know of the fit.
FITTED = (*(name + end for name in PARAMETERS for end in ("", "_low", "_high")),)
FITTED += ("r2", "basis", "flags")
#: Levels from which on three parameters can be told from chance.
MIN_LEVELS = 5
#: Draws of the parameters within their errors.
DRAWS = 2000
#: Sigma and kappa below these are at their bound, 0, which the fit only comes near: no rate falls
#: within 10,000 levels.
_NEGLIGIBLE = np.array([1e-6, 1e-8])


def law(level: Any, rate_of_one: Any, sigma: Any, kappa: Any) -> Any:
    """X(N), of numbers or arrays."""
    return rate_of_one * level / (1 + sigma * (level - 1) + kappa * level * (level - 1))


def not_fitted(levels: Sequence[float], rates: Sequence[float]) -> str:
    """The reason why the law cannot be fitted to these rates; empty if it can."""
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
    levels: Sequence[float], rates: Sequence[float], errors: Sequence[float] | None = None
) -> dict[str, Any]:
    """The law fitted to rates at levels, one value each: FITTED.

    `lambda` is in the rates' unit; `peak` is the level with the highest rate (inf: none) and
    `peak_rate` the rate there (without a peak the one that is never reached, lambda / sigma), each
    with the ends of its interval; `r2` is of logarithms; `basis` says what the intervals rest on,
    "repeats" (errors of the means) or "residuals"; `flags` is "extrapolated" (the peak lies beyond
    the highest level), "no peak" or empty.

    `errors` are the standard errors of the logarithms of `rates`; where one is missing or nothing,
    all count alike. Raises ValueError with what `not_fitted` says.
    """
    if reason := not_fitted(levels, rates):
        raise ValueError(reason)
    n, logs = np.asarray(levels, dtype=float), np.log(np.asarray(rates, dtype=float))
    known = np.asarray(errors if errors is not None else math.nan, dtype=float)
    repeated = bool(np.all(np.isfinite(known) & (known > 0)))
    scale = known if repeated else np.ones(len(n))
    freedom = len(n) - 3

    def distance(at: Floats) -> Any:
        """Scaled residuals of the law with log lambda, sigma and kappa."""
        return (at[0] + np.log(law(n, 1.0, at[1], at[2])) - logs) / scale

    found = least_squares(
        distance,
        [float(np.max(logs - np.log(n))), 0.1, 0.01],
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, np.inf]),
        x_scale=[1.0, 0.1, 0.01],
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-12),
    )
    chi = 2 * float(found.cost) / freedom
    covariance = np.linalg.pinv(found.jac.T @ found.jac) * (max(1.0, chi) if repeated else chi)
    rng = np.random.default_rng(SEED)
    noise = rng.multivariate_normal(np.zeros(3), covariance, DRAWS, method="svd")
    if not repeated:
        noise *= np.sqrt(freedom / rng.chisquare(freedom, (DRAWS, 1)))
    values = _figures(found.x[None, :])[0]
    middle = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    ends = np.quantile(_figures(found.x + noise), middle, axis=0, method="inverted_cdf")
    figures = np.column_stack([values, *ends]).ravel().tolist()
    left, total = np.log(law(n, *values[:3])) - logs, logs - logs.mean()
    r2 = 1 - float(left @ left / (total @ total)) if np.ptp(logs) > 0 else math.nan
    flag = "no peak" if math.isinf(values[3]) else "extrapolated" if values[3] > n.max() else ""
    basis = "repeats" if repeated else "residuals"
    return dict(zip(FITTED, [*figures, r2, basis, flag], strict=True))


def _figures(drawn: Floats) -> Floats:
    """lambda, sigma, kappa, N*, X(N*) of rows of log lambda, sigma and kappa."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one = np.exp(drawn[:, 0])
        within = np.where(drawn[:, 1:] < _NEGLIGIBLE, 0.0, drawn[:, 1:])
        sigma, kappa = np.minimum(within[:, 0], 1.0), within[:, 1]
        endless = kappa == 0
        # Where it falls from the start on, one is best.
        peak = np.where(endless, np.inf, np.maximum(1.0, np.sqrt((1 - sigma) / kappa)))
        rate = np.where(endless, one / sigma, law(np.where(endless, 1.0, peak), one, sigma, kappa))
    return np.column_stack([one, sigma, kappa, peak, rate])
