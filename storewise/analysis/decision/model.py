"""The model of a decision: score = store + round + error, on natural logarithms.

A round is one repeat of every setting in random order. What changes from round to round (a machine
that slows down) is the rounds' effect, not the stores' error. In a table without gaps the least
squares estimate of a store is its plain mean.

The variance of a store's error is the one pooled over all, or its own where that is larger. Where
an F test says that it is larger, the few rounds of the store must say how large: it has n - 1
degrees of freedom, not the pooled ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

#: A store is better than another if it is at least so many times as good.
WORTH = 1.2
#: Chance of a false answer: for Student's t two-sided; Tukey's range uses half of it.
ALPHA = 0.05
#: Fewest degrees of freedom that an effect of rounds must leave.
MIN_DF = 4
#: One of k stores has a larger variance than the rest if p of the F test is below UNEQUAL / k².
#: The square, because a store with a larger variance makes all comparisons with it harder.
UNEQUAL = 0.5
#: Least standard error: smaller differences are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Fit:
    """Estimates for k stores, on natural logarithms; errors are nan without repeats."""

    mean: Floats  # (k,)
    gap: Floats  # (k, k): score of the row minus score of the column
    error: Floats  # (k, k): standard error of the gap
    mean_error: Floats  # (k,): standard error of the mean, of a model without rounds
    freedom: Floats  # (k,): degrees of freedom of the variance; a gap has the fewer of its two


def fit(scores: Floats, k: int | None = None, *, rounds: bool = True) -> Fit:
    """Fit scores (settings x rounds; nan: not measured; each row has at least one value).

    The first `k` rows are the stores; other rows only help to estimate the error. There is no round
    effect (it stays in the error) if `rounds` is false, if it would leave fewer than MIN_DF degrees
    of freedom, or if rounds have no setting in common.

    A gap is a weighted sum of scores. Its variance is the sum of squared weights times variances.
    """
    measured = ~np.isnan(scores)
    k = len(scores) if k is None else k
    row, z, n = np.nonzero(measured)[0], scores[measured], measured.sum(axis=1)
    design, weights, own_df = _design(measured.tobytes(), measured.shape, rounds)
    estimates, freedom = weights @ z, len(z) - len(weights)
    mean = estimates[:k]
    gap = mean[:, None] - mean
    if freedom == 0:
        return Fit(mean, gap, np.full((k, k), np.nan), np.full(k, np.nan), np.zeros(k))
    squares = np.bincount(row, (z - design @ estimates) ** 2)
    own_variance = np.where(n > 1, squares / np.maximum(own_df, ROUNDING), 0.0)
    other_variance = (squares.sum() - squares) / np.maximum(freedom - own_df, ROUNDING)
    limit = np.array([_f(UNEQUAL / k**2, df, round(freedom - df, 6)) for df in own_df.tolist()])
    unequal = (n > 1) & (own_variance > limit * other_variance) & (own_variance > ROUNDING**2)
    variance = np.maximum(squares.sum() / freedom, own_variance)[row]
    return Fit(
        mean,
        gap,
        error=np.sqrt((weights[:k, None] - weights[:k]) ** 2 @ variance) + ROUNDING,
        mean_error=np.sqrt(weights[:k] ** 2 @ variance) + ROUNDING,
        freedom=np.where(unequal, np.minimum(n - 1, freedom), freedom)[:k].astype(float),
    )


@lru_cache(maxsize=1024)
def _design(known: bytes, shape: tuple[int, int], rounds: bool) -> tuple[Floats, Floats, Floats]:
    """(design, weights, df): the design matrix (scores x estimates), its pseudoinverse, and each
    row's share of the degrees of freedom: the sum of 1 - leverage of its scores."""
    measured = np.frombuffer(known, dtype=bool).reshape(shape)
    row, column = np.nonzero(measured[:, measured.any(axis=0)])
    design = (row[:, None] == np.arange(shape[0])).astype(float)
    # Centred: the coefficient of a row is its mean over all rounds.
    n_rounds = int(column.max()) + 1
    effects = (column[:, None] == np.arange(1, n_rounds)) - 1 / n_rounds
    full = np.hstack([design, effects])
    connected = np.linalg.matrix_rank(full) == full.shape[1]
    if rounds and connected and len(row) - full.shape[1] >= MIN_DF:
        design = full
    weights = np.linalg.pinv(design)
    own_df = np.bincount(row, 1 - (design * weights.T).sum(axis=1)).astype(float).round(6)
    return design, weights, own_df


@lru_cache(maxsize=4096)
def _f(alpha: float, df: float, others: float) -> float:
    return float(stats.f.isf(alpha, df, others))


@lru_cache(maxsize=4096)
def student(freedom: float, tries: int) -> float:
    """Critical value of Student's t, two-sided at ALPHA, in standard errors; Bonferroni-adjusted
    for a store that was chosen from `tries` settings."""
    return float(stats.t.isf(ALPHA / 2 / tries, freedom))


@lru_cache(maxsize=4096)
def tukey(freedom: float, tries: int, stores: int) -> float:
    """Critical value of Tukey's studentized range at ALPHA / 2, in standard errors of a difference
    (hence divided by the root of 2)."""
    return float(stats.studentized_range.isf(ALPHA / 2 / tries, stores, freedom) / np.sqrt(2))


def balanced(k: int, n: int, tries: list[int]) -> dict[str, Any]:
    """Critical values for k stores with n complete rounds each, for scripts without SciPy.

    ``freedom``: of the pooled variance (0: no test is possible); ``rounds``: whether the model has
    a round effect; ``limit``: the ratio of a store's variance to the others' above which it counts
    as larger; ``t`` and ``tukey``: critical values, a pair for each of `tries` (for the pooled
    degrees of freedom, and for a store's own).
    """
    freedom_with_rounds = (k - 1) * (n - 1)
    rounds = freedom_with_rounds >= MIN_DF
    freedom = freedom_with_rounds if rounds else k * (n - 1)
    if k < 2 or freedom < 1:
        return {"freedom": 0, "rounds": False, "limit": 0.0, "t": [], "tukey": []}
    own_freedom = min(n - 1, freedom)
    return {
        "freedom": freedom,
        "rounds": rounds,
        "limit": _f(UNEQUAL / k**2, freedom / k, round(freedom - freedom / k, 6)),
        "t": [[student(df, n_tries) for df in (freedom, own_freedom)] for n_tries in tries],
        "tukey": [[tukey(df, n_tries, k) for df in (freedom, own_freedom)] for n_tries in tries],
    }
