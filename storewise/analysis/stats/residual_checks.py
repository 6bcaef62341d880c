"""Whether a model's residuals are what the tests of an analysis of variance assume of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import stats

from storewise.analysis.common.frames import Floats
from storewise.analysis.stats.models import het_breuschpagan

#: Residuals up to which Shapiro and Wilk's p is exact enough (scipy's own limit).
SHAPIRO = 5000
#: Residual degrees of freedom, and rows of a cell, from which on residuals are tested.
TESTABLE = 3


def normality(residuals: Floats, freedom: int) -> float:
    """p that residuals are normal, nan where they have few degrees of freedom: Shapiro and Wilk
    (1965) up to 5,000 of them, beyond that the K squared of D'Agostino and Pearson (1973), which
    needs no table of their number."""
    if freedom < TESTABLE:
        return math.nan
    test = stats.shapiro if len(residuals) <= SHAPIRO else stats.normaltest
    return float(test(residuals).pvalue)


def equal_variance(residuals: Floats, cells: pd.Series | None, estimates: Floats) -> float:
    """p that residuals spread alike, nan of few: Brown and Forsythe (1974; Levene with medians)
    over the `cells` (the number of each row's) if each has three rows or more, else Breusch and
    Pagan (1979; studentized by Koenker 1981) over the model's `estimates`, as Cook and Weisberg
    (1983) have it.

    With two rows in a cell both are equally far from its median, so the former says nothing; and
    over the levels of a factor the latter says nothing where each cell has one row, for the
    residuals of a level then depend on each other. What it finds is a spread that grows (or falls)
    with the mean.
    """
    if cells is not None:
        groups = [residuals[cells == cell] for cell in np.unique(cells)]
        if len(groups) > 1 and min(map(len, groups)) >= TESTABLE:
            return float(stats.levene(*groups, center="median").pvalue)
    if len(residuals) - 2 < TESTABLE:
        return math.nan
    regressors = np.column_stack([np.ones(len(residuals)), estimates])
    return float(het_breuschpagan(residuals, regressors)[1])
