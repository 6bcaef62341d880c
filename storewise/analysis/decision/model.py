"""The model of a decision: score = store + round + error, all on logarithms.

A round is one repeat of every setting in random order, so what changes between rounds (a machine
that slows down) is the rounds' effect, not the stores' error. Least squares gives a store's mean;
in a table without gaps it is the plain mean.

The variance of a store's error is the one pooled over all stores, or its own where that is larger.
Where its own is larger than the others' by an F test, so few rounds as it has must say how large,
and it has n - 1 degrees of freedom instead of the pooled ones. Without this, two stores of which
one spreads four times as much were told apart in 6 % of studies of three rounds, although equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

#: A store is better than another where it is at least so many times as good.
WORTH = 1.2
#: Chance of a false answer. "Take X" has one half of it in each direction, Tukey's range one half.
ALPHA = 0.05
#: Fewest degrees of freedom that an effect of rounds must leave.
FEWEST_DF = 4
#: Chance that, of stores that spread alike, any is said to spread more than the others.
UNEQUAL = 0.25
#: Standard errors are no smaller: what differs by less is equal but for rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Fit:
    """What the model says of k stores, on logarithms (natural)."""

    mean: Floats
    """(k,): each store's score."""
    gap: Floats
    """(k, k): how much the row is better than the column."""
    error: Floats
    """(k, k): standard error of the gap; nan where nothing was repeated."""
    mean_error: Floats
    """(k,): standard error of the mean, of a model without rounds."""
    freedom: Floats
    """(k,): degrees of freedom of the store's variance; a gap has the fewer of its two."""
    spread: float
    """Standard deviation of the error, pooled: how far a score is off from round to round."""


def fit(scores: Floats, *, rounds: bool = True) -> Fit:
    """Fit scores (k stores x rounds, nan where there is none; each store has at least one).

    The effect of rounds is left out where it would leave fewer than FEWEST_DF degrees of freedom,
    where rounds have no store in common, and without `rounds`: it is then part of the error.

    The error of a gap is that of least squares with a variance for each store: a gap is a weighted
    sum of scores, its variance the sum of squared weights times variances.
    """
    known = ~np.isnan(scores)
    k, z, n = len(scores), scores[known], known.sum(axis=1)
    store = np.nonzero(known)[0]
    design, weights, own_df = _design(known.tobytes(), known.shape, rounds)
    estimates = weights @ z
    mean, freedom = estimates[:k], len(z) - len(weights)
    gap = mean[:, None] - mean
    if freedom == 0:
        nothing = np.full((k, k), np.nan)
        return Fit(mean, gap, nothing, nothing[0], np.zeros(k), np.nan)
    squares = np.bincount(store, (z - design @ estimates) ** 2, minlength=k)
    pooled = squares.sum() / freedom
    own = np.where(n > 1, squares / np.maximum(own_df, ROUNDING), 0.0)
    others = (squares.sum() - squares) / np.maximum(freedom - own_df, ROUNDING)
    limit = np.array([_f(UNEQUAL / k, df, round(freedom - df, 6)) for df in own_df.tolist()])
    unequal = (n > 1) & (own > limit * others) & (own > ROUNDING**2)
    variance = np.maximum(pooled, own)[store]
    return Fit(
        mean=mean,
        gap=gap,
        error=np.sqrt((weights[:k, None] - weights[:k]) ** 2 @ variance) + ROUNDING,
        mean_error=np.sqrt(weights[:k] ** 2 @ variance) + ROUNDING,
        freedom=np.where(unequal, np.minimum(n - 1, freedom), freedom).astype(float),
        spread=float(np.sqrt(pooled)),
    )


@lru_cache(maxsize=1024)
def _design(pattern: bytes, shape: tuple[int, int], rounds: bool) -> tuple[Floats, Floats, Floats]:
    """Of scores that are known where the pattern says: the design (scores x estimates), the
    weights of scores in estimates (the stores' first), and each store's share of the degrees of
    freedom: the sum of 1 - leverage of its scores."""
    known = np.frombuffer(pattern, dtype=bool).reshape(shape)
    known = known[:, known.any(axis=0)]
    store, at = np.nonzero(known)
    k, n_rounds = known.shape
    design = (store[:, None] == np.arange(k)).astype(float)
    # Centred: a store's coefficient is its mean over the rounds.
    effects = (at[:, None] == np.arange(1, n_rounds)) - 1 / n_rounds
    whole = np.hstack([design, effects])
    needed = np.linalg.matrix_rank(whole) + FEWEST_DF if rounds else np.inf
    if whole.shape[1] + FEWEST_DF == needed <= len(store):
        design = whole
    weights = np.linalg.pinv(design)
    left = 1 - (design * weights.T).sum(axis=1)
    own_df = np.bincount(store, left, minlength=k).astype(float).round(6)
    return design, weights, own_df


@lru_cache(maxsize=4096)
def _f(alpha: float, df: float, others: float) -> float:
    return float(stats.f.isf(alpha, df, others))


@lru_cache(maxsize=4096)
def student(freedom: float, tries: int) -> float:
    """By how many standard errors one gap exceeds 0 by chance in ALPHA of all cases, either way;
    of the best of several settings (`tries`) by Bonferroni's method."""
    return float(stats.t.isf(ALPHA / 2 / tries, freedom))


@lru_cache(maxsize=4096)
def tukey(freedom: float, tries: int, stores: int) -> float:
    """The same of all gaps among the stores together, in ALPHA / 2 of all cases: Tukey's
    studentized range, which is of single means and so is divided by the root of 2."""
    return float(stats.studentized_range.isf(ALPHA / 2 / tries, stores, freedom) / np.sqrt(2))
