"""The Universal Scalability Law over nodes, workers, processes, threads and clients.

X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) (Gunther, "Guerrilla Capacity Planning",
2007, chapters 4 to 6; Gunther, Puglia & Tomasette, "Hadoop superlinear scalability", CACM 58(4),
2015): lambda is the rate at N = 1, sigma in [0, 1] the serial share of the work (contention),
kappa >= 0 the cost of each pair for keeping data consistent (coherency). The rate has its maximum
at N* = sqrt((1 - sigma) / kappa); if kappa is 0 there is none.

The fit (`scipy.optimize.least_squares`) is on logarithms, since the errors of rates multiply,
weighted with the standard errors of the means where these are known. Its covariance is that of the
linearized problem at the minimum, times the reduced chi square; if errors are known, only where
that is above 1 (Birge, Physical Review 40, 1932). The intervals of all five figures are the middle
95 % of random draws of lambda, sigma and kappa with that covariance, clipped to the bounds: normal
if errors are known, else Student's t with the residuals' degrees of freedom.
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
#: Keys of a fit: each parameter with the ends of its interval, then facts about the fit.
FITTED = (*(name + end for name in PARAMETERS for end in ("", "_low", "_high")),)
FITTED += ("r2", "basis", "flags")
#: Fewest distinct levels for a fit of three parameters.
MIN_LEVELS = 5
#: Number of random draws of the parameters.
DRAWS = 2000
#: Sigma and kappa below these count as 0, which the fit only approaches: with them no rate falls
#: within 10,000 levels.
_NEGLIGIBLE = np.array([1e-6, 1e-8])


def law(level: Any, rate_of_one: Any, sigma: Any, kappa: Any) -> Any:
    """X(N) for `level` N; numbers or arrays."""
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
    """The law fitted to pairs of levels and rates: the keys FITTED.

    `lambda` has the unit of the rates. `peak` is the level with the highest rate (inf: none) and
    `peak_rate` that rate (without a peak the limit lambda / sigma), each with the ends of its
    interval. `r2` is of logarithms. `basis` is the source of the intervals, "repeats" (errors of
    the means) or "residuals". `flags` is "extrapolated" (the peak is above the highest level), "no
    peak" or empty.

    `errors` are the standard errors of the logarithms of `rates`; if one is missing or 0, all rates
    have equal weights. Raises ValueError with the reason of `not_fitted`.
    """
    if reason := not_fitted(levels, rates):
        raise ValueError(reason)
    n, logs = np.asarray(levels, dtype=float), np.log(np.asarray(rates, dtype=float))
    given = np.asarray(errors if errors is not None else math.nan, dtype=float)
    repeated = bool(np.all(np.isfinite(given) & (given > 0)))
    scale = given if repeated else np.ones(len(n))
    freedom = len(n) - 3

    def distance(at: Floats) -> Any:
        """Residuals, in standard errors, of the law with (log lambda, sigma, kappa)."""
        return (at[0] + np.log(law(n, 1.0, at[1], at[2])) - logs) / scale

    optimum = least_squares(
        distance,
        [float(np.max(logs - np.log(n))), 0.1, 0.01],
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, np.inf]),
        x_scale=[1.0, 0.1, 0.01],
        **dict.fromkeys(("xtol", "ftol", "gtol"), 1e-12),
    )
    chi = 2 * float(optimum.cost) / freedom
    covariance = np.linalg.pinv(optimum.jac.T @ optimum.jac) * (max(1.0, chi) if repeated else chi)
    rng = np.random.default_rng(SEED)
    noise = rng.multivariate_normal(np.zeros(3), covariance, DRAWS, method="svd")
    if not repeated:
        noise *= np.sqrt(freedom / rng.chisquare(freedom, (DRAWS, 1)))
    values = _figures(optimum.x[None, :])[0]
    middle = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    ends = np.quantile(_figures(optimum.x + noise), middle, axis=0, method="inverted_cdf")
    figures = np.column_stack([values, *ends]).ravel().tolist()
    misfit, total = np.log(law(n, *values[:3])) - logs, logs - logs.mean()
    r2 = 1 - float(misfit @ misfit / (total @ total)) if np.ptp(logs) > 0 else math.nan
    flag = "no peak" if math.isinf(values[3]) else "extrapolated" if values[3] > n.max() else ""
    basis = "repeats" if repeated else "residuals"
    return dict(zip(FITTED, [*figures, r2, basis, flag], strict=True))


def _figures(drawn: Floats) -> Floats:
    """Columns lambda, sigma, kappa, N*, X(N*) from rows of (log lambda, sigma, kappa)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        at_1 = np.exp(drawn[:, 0])
        positive = np.where(drawn[:, 1:] < _NEGLIGIBLE, 0.0, drawn[:, 1:])
        sigma, kappa = np.minimum(positive[:, 0], 1.0), positive[:, 1]
        no_max = kappa == 0
        # If the rate falls from the first level on, the peak is at N = 1.
        peak = np.where(no_max, np.inf, np.maximum(1.0, np.sqrt((1 - sigma) / kappa)))
        rate = np.where(no_max, at_1 / sigma, law(np.where(no_max, 1.0, peak), at_1, sigma, kappa))
    return np.column_stack([at_1, sigma, kappa, peak, rate])
