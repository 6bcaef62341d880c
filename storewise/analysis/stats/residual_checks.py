"""Tests of the residuals that an analysis of variance assumes normal, with equal variances."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import stats

from storewise.analysis.common.frames import Floats
from storewise.analysis.stats.models import het_breuschpagan

#: Most residuals for which scipy's p of Shapiro and Wilk is accurate.
SHAPIRO = 5000
#: Fewest residual degrees of freedom, and fewest rows of a cell, for a test of residuals.
TESTABLE = 3


def normality(residuals: Floats, freedom: int) -> float:
    """p of a test that residuals are normal; nan for few degrees of freedom. Up to 5,000 residuals:
    Shapiro and Wilk (1965); above: K squared of D'Agostino and Pearson (1973)."""
    if freedom < TESTABLE:
        return math.nan
    test = stats.shapiro if len(residuals) <= SHAPIRO else stats.normaltest
    return float(test(residuals).pvalue)


def equal_variance(residuals: Floats, cells: pd.Series | None, estimates: Floats) -> float:
    """p of a test that residuals have equal variances; nan for few residuals. If each cell
    (`cells`: the cell's number for each row) has three rows or more: Brown and Forsythe (1974;
    Levene with medians). Else Breusch and Pagan (1979; studentized, Koenker 1981) over the model's
    `estimates`.

    With two rows in a cell both are equally far from its median, so the first test is useless. The
    second test uses estimates (Cook and Weisberg 1983) instead of levels, because with one row per
    cell the residuals of a level depend on each other. It finds a variance that changes with the
    mean.
    """
    if cells is not None:
        groups = [residuals[cells == cell] for cell in np.unique(cells)]
        if len(groups) > 1 and min(map(len, groups)) >= TESTABLE:
            return float(stats.levene(*groups, center="median").pvalue)
    if len(residuals) - 2 < TESTABLE:
        return math.nan
    regressors = np.column_stack([np.ones(len(residuals)), estimates])
    return float(het_breuschpagan(residuals, regressors)[1])
