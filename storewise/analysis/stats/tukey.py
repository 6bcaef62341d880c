"""Which levels of a factor differ: Tukey's honestly significant difference.

The means of the levels are those of the model (least-squares means): every cell of the other
factors counts alike, and numbers stand at their mean. In a balanced design they are the plain
means. The standard error of a difference comes from the model's covariance, and the studentized
range gives p and interval for all pairs of a factor together (Tukey 1953; Kramer, *Biometrics*
12(3), 1956, where levels have different numbers of rows). With one factor it is
`scipy.stats.tukey_hsd`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from storewise.analysis.stats.anova import Model, contrasts
from storewise.analysis.stats.residual_checks import Floats
from storewise.errors import AnalysisError

#: Of all intervals of a factor together.
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """Level `a` minus level `b`: the difference with its interval, in the model's units."""

    a: Any
    b: Any
    difference: float
    low: float
    high: float
    p_adj: float

    @property
    def reject(self) -> bool:
        """Whether the interval leaves out no difference at all."""
        return self.p_adj < 1 - LEVEL


def tukey(model: Model, factor: str, *, robust: bool = False) -> list[Pair]:
    """All pairs of levels of a factor of a fitted model; AnalysisError for a number."""
    if factor not in model.names:
        raise AnalysisError(f"{factor} is no factor of the model ({', '.join(model.names)})")
    if factor not in model.levels:
        raise AnalysisError(f"factor {factor} is a number; pairs of levels need a factor of levels")
    levels = model.levels[factor]
    rows = [_mean_row(model, factor, row) for row in contrasts(len(levels))]
    hypotheses = np.vstack([a - b for a, b in itertools.combinations(rows, 2)])
    covariance = model.fitted.cov_HC3 if robust else model.fitted.cov_params()
    contrast = model.fitted.t_test(hypotheses, cov_p=np.asarray(covariance))
    differences = np.atleast_1d(contrast.effect)
    errors = np.atleast_1d(contrast.sd).ravel()
    freedom = float(model.fitted.df_resid)
    ranges = np.abs(differences) / errors * math.sqrt(2)
    adjusted = np.clip(stats.studentized_range.sf(ranges, len(levels), freedom), 0.0, 1.0)
    half = critical(len(levels), freedom) / math.sqrt(2) * errors
    pairs = itertools.combinations(levels, 2)
    return [
        Pair(a, b, float(d), float(d - h), float(d + h), float(p))
        for (a, b), d, h, p in zip(pairs, differences, half, adjusted, strict=True)
    ]


@lru_cache(maxsize=1024)
def critical(levels: int, freedom: float) -> float:
    """The studentized range that so many means exceed by chance in 1 - LEVEL of all cases."""
    return float(stats.studentized_range.ppf(LEVEL, levels, freedom))


def _mean_row(model: Model, factor: str, coded: Floats) -> Floats:
    """The row of the design matrix whose estimate is the least-squares mean of a level.

    Sum-to-zero contrasts average to 0 over the levels of the other factors, and so do products of
    them; numbers are at their mean.
    """
    values = {"Intercept": 1.0} | {model.names[name]: mean for name, mean in model.means.items()}
    for name, levels in model.levels.items():
        row = coded if name == factor else np.zeros(len(levels) - 1)
        values |= {f"{model.names[name]}[{i}]": value for i, value in enumerate(row)}
        values[model.names[name]] = row[0]  # what a single column is called
    columns = model.fitted.model.exog_names
    return np.array([math.prod(values[part] for part in name.split(":")) for name in columns])
