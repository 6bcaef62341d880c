"""Which store, how sure: one score for each store and round, and one rule.

A store's score in a round is the sum of the logarithms of its figures, greater is better, by the
weights of the criteria: the weighted product of multiple-criteria decisions (Triantaphyllou,
*Multi-criteria Decision Making Methods*, 2000, section 2.2.2). So the figures of one trial may err
together, counts have no error, and units are nothing. `model` says how far scores are off,
`standing` which deployment a store is judged with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.decision.model import ROUNDING, WORTH, Fit, Floats, fit, student, tukey
from storewise.analysis.decision.standing import (
    Criterion,
    Field,
    at_common_volume,
    logarithms,
    stand,
)

#: Least chance that no store is more than WORTH times as good as the one that is taken.
SURE = {"good": 0.95, "fair": 0.80, "low": 0.0}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What repeats do not show. `crashes` and `failed` are by store."""

    other_work: bool = False
    """Whether anything else was at work on the hosts."""
    crashes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """In how many crashes acknowledged documents were lost, of how many."""
    failed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How many trials failed by the store's fault, of how many."""
    no_stores: Sequence[str] = (BASELINE, CEILING)
    """What is measured beside the stores, and never recommended."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. Frames are by store, from the best score down; `gap` in a comment is a
    difference of scores, which are natural logarithms."""

    sentence: str
    sure: str
    """good, fair or low: the chance that no other store is more than 1.2 times as good as the one
    that is taken, whichever of the named."""
    reasons: tuple[str, ...]
    table: pd.DataFrame
    """score: as a share of the best; low, high: 95 % interval of that ratio, nan for the best and
    where nothing but counts is judged; chance (see `sure`); named; n: rounds; deployment."""
    clients: pd.DataFrame
    """Store x criterion: the number of clients that the store stands with."""
    aside: Mapping[str, str]
    """Store -> why it is not judged."""
    crashes: pd.DataFrame
    """Store: lost, of; p of the difference to the first named (Fisher's exact test, two-sided)."""
    rounds: pd.DataFrame
    """(store, round) x criterion: logarithms, greater is better. Weights that sum to 1 times these
    are the scores."""
    t: pd.DataFrame
    """Best x other store: how many standard errors a gap must exceed for "Take X"."""
    tukey: pd.DataFrame
    """The same for a store to be left out of "A or B" (and at least `t`)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`judge`'s answer of k stores, in their order."""

    best: int
    named: npt.NDArray[np.bool_]
    chance: Floats
    """(k,): that the likeliest better store is at most WORTH times as good; nan if not known."""
    sure: str
    t: Floats
    tukey: Floats
    fit: Fit


def judge(scores: Floats, tries: Sequence[int] | None = None, *, counts: bool = False) -> Judgement:
    """The rule for scores (k stores x rounds, natural logarithms, nan where there is none).

    `tries` are the settings that each store could choose from. Of `counts` only there is no error:
    their scores are the same in all rounds. Without repeats nothing is told apart.
    """
    k = len(scores)
    fitted = fit(scores)
    best = int(fitted.mean.argmax())
    if counts:
        zero = np.zeros((k, k))
        fitted = Fit(fitted.mean, fitted.gap, zero, zero[0], np.full(k, np.inf), 0.0)
    freedom = np.minimum(fitted.freedom[:, None], fitted.freedom)
    t, q = np.full((k, k), np.nan), np.full((k, k), np.nan)
    named, chance = np.ones(k, bool), np.full(k, np.nan)
    if k > 1 and freedom.min() > 0:
        choices = tries or [1] * k
        for i, j in np.ndindex(k, k):
            t[i, j] = student(freedom[i, j], choices[i])
            q[i, j] = max(t[i, j], tukey(freedom[i, j], choices[i], k))
        gap, error = fitted.gap[best], fitted.error[best]
        worth = gap >= np.log(WORTH) - ROUNDING
        named = ~(worth & (gap > t[best] * error))
        if named.sum() > 1:
            named = ~(worth & (gap > q[best] * error))
        errors = np.maximum(fitted.error, ROUNDING)
        within = stats.t.cdf((np.log(WORTH) + ROUNDING + fitted.gap) / errors, freedom)
        np.fill_diagonal(within, 1.0)
        chance = within.min(axis=1)
    least = chance[named].min()
    sure = next((name for name, needed in SURE.items() if least >= needed), "low")
    return Judgement(best, named, chance, sure, t, q, fitted)
