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
from collections.abc import Mapping
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
    if factor not in model.factors:
        raise AnalysisError(f"{factor} is no factor of the model ({', '.join(model.factors)})")
    if factor not in model.levels:
        raise AnalysisError(f"factor {factor} is a number; pairs of levels need a factor of levels")
    levels = model.levels[factor]
    coded = contrasts(len(levels))
    rows = {level: _mean_row(model, factor, row) for level, row in zip(levels, coded, strict=True)}
    pairs = list(itertools.combinations(levels, 2))
    hypotheses = np.vstack([rows[a] - rows[b] for a, b in pairs])
    covariance = model.fitted.cov_HC3 if robust else model.fitted.cov_params()
    found = model.fitted.t_test(hypotheses, cov_p=np.asarray(covariance))
    differences = np.atleast_1d(found.effect)
    errors = np.atleast_1d(found.sd).ravel()
    freedom = float(model.fitted.df_resid)
    ranges = np.abs(differences) / errors * math.sqrt(2)
    adjusted = np.clip(stats.studentized_range.sf(ranges, len(levels), freedom), 0.0, 1.0)
    half = critical(len(levels), freedom) / math.sqrt(2) * errors
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
    values: dict[str, float] = {"Intercept": 1.0}
    for name in model.factors:
        column = model.names[name]
        if name in model.means:
            width, row = 1, [model.means[name]]
        else:
            width = len(model.levels[name]) - 1
            row = list(coded) if name == factor else [0.0] * width
        values |= {f"{column}[{i}]": value for i, value in enumerate(row)}
        if width == 1:
            values[column] = row[0]
    return np.array([_product(values, name) for name in model.fitted.model.exog_names])


def _product(values: Mapping[str, float], column: str) -> float:
    return math.prod(values[part] for part in column.split(":"))
