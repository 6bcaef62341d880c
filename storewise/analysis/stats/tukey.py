"""Tukey's honestly significant difference: the levels of a factor that differ.

The means of the levels are those of the model (least-squares means): every cell of the other
factors counts alike, and numbers stand at their mean. In a balanced design they are the plain
means. The standard error of a difference comes from the model's covariance, and the studentized
range gives p and interval for all pairs of a factor together (Tukey 1953; Kramer, *Biometrics*
12(3), 1956, where levels have different numbers of rows). With one factor it is
`scipy.stats.tukey_hsd`, and statsmodels' `pairwise_tukeyhsd`, which knows no further factor.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import stats

from storewise.analysis.common.frames import Floats
from storewise.analysis.stats.anova import Variance
from storewise.errors import AnalysisError

#: Simultaneous confidence level of all intervals of a factor.
LEVEL = 0.95


#: Level `a` minus level `b`: the difference with its interval, in the model's units.
COLUMNS = ("a", "b", "difference", "low", "high", "p_adj")


def tukey(variance: Variance, factor: str, *, robust: bool = False) -> pd.DataFrame:
    """All pairs of levels of a factor in a model (COLUMNS); AnalysisError if it is numeric."""
    design, fitted = variance.design, variance.fitted
    if factor not in design.columns:
        raise AnalysisError(f"{factor} is no factor of the model ({', '.join(design.columns)})")
    levels = design.levels(factor)
    if not levels:
        raise AnalysisError(f"factor {factor} is a number; pairs of levels need a factor of levels")
    rows = _mean_rows(variance, design.columns[factor])
    hypotheses = np.vstack([a - b for a, b in itertools.combinations(rows, 2)])
    covariance = fitted.cov_HC3 if robust else fitted.cov_params()
    contrast = fitted.t_test(hypotheses, cov_p=np.asarray(covariance))
    differences = np.atleast_1d(contrast.effect)
    errors = np.atleast_1d(contrast.sd).ravel() / math.sqrt(2)
    freedom = float(fitted.df_resid)
    ranges = np.abs(differences) / errors
    adjusted = np.clip(stats.studentized_range.sf(ranges, len(levels), freedom), 0.0, 1.0)
    half = _critical(len(levels), freedom) * errors
    first, second = zip(*itertools.combinations(levels, 2), strict=True)
    columns = (first, second, differences, differences - half, differences + half, adjusted)
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


@lru_cache(maxsize=1024)
def _critical(levels: int, freedom: float) -> float:
    """The quantile LEVEL of the studentized range of that number of levels."""
    return float(stats.studentized_range.ppf(LEVEL, levels, freedom))


def _mean_rows(variance: Variance, column: str) -> Floats:
    """The rows of the design matrix for the least-squares means of a column's levels: averages over
    all cells of the other factors."""
    design = variance.design
    places = [design.levels(factor) or [0.0] for factor in design.columns]
    cells = pd.DataFrame(itertools.product(*places), columns=list(design.columns.values()))
    cells = cells.astype(design.data[cells.columns].dtypes.to_dict()).assign(y=0.0)
    matrix = pd.DataFrame(design.model(variance.terms, cells).exog)
    return matrix.groupby(cells[column], observed=True).mean().to_numpy()
