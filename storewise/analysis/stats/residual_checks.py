"""Whether a model's residuals are what the tests of an analysis of variance assume of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from storewise.analysis.stats.models import het_breuschpagan

Floats = npt.NDArray[np.float64]
#: Residuals up to which Shapiro and Wilk's p is exact enough (scipy's own limit).
SHAPIRO = 5000
#: Residual degrees of freedom, and rows of a cell, from which on residuals are tested.
TESTABLE = 3


@dataclass(frozen=True, slots=True)
class Check:
    """A test of the residuals; `p` is None where they are too few, and `test` says that."""

    test: str
    p: float | None


def cells(table: pd.DataFrame, factors: Sequence[str]) -> npt.NDArray[np.intp]:
    """The number of each row's cell, which is one level of every factor."""
    return np.asarray(table.groupby(list(factors), observed=True).ngroup(), dtype=np.intp)


def normality(residuals: Floats, freedom: int) -> Check:
    """Whether residuals may be normal: Shapiro and Wilk (1965) up to 5,000 of them, beyond that
    the K squared of D'Agostino and Pearson (1973), which needs no table of their number."""
    if freedom < TESTABLE:
        return Check(f"not tested: {freedom} residual degrees of freedom", None)
    if len(residuals) <= SHAPIRO:
        return Check("Shapiro-Wilk", float(stats.shapiro(residuals).pvalue))
    return Check("D'Agostino-Pearson", float(stats.normaltest(residuals).pvalue))


def equal_variance(
    residuals: Floats, of_cell: npt.NDArray[np.intp] | None, estimates: Floats
) -> Check:
    """Whether residuals may spread alike: Brown and Forsythe (1974; Levene with medians) over the
    cells if each has three rows or more, else Breusch and Pagan (1979; studentized by Koenker
    1981) over the model's `estimates`, as Cook and Weisberg (1983) have it.

    With two rows in a cell both are equally far from its median, so the former says nothing; and
    over the levels of a factor the latter says nothing where each cell has one row, for the
    residuals of a level then depend on each other. What it finds is a spread that grows (or falls)
    with the mean.
    """
    if of_cell is not None:
        groups = [residuals[of_cell == cell] for cell in np.unique(of_cell)]
        if len(groups) > 1 and min(map(len, groups)) >= TESTABLE:
            test = stats.levene(*groups, center="median")
            return Check("Brown-Forsythe", float(test.pvalue))
    if len(residuals) - 2 < TESTABLE:
        return Check(f"not tested: {len(residuals)} rows", None)
    _, p, _, _ = het_breuschpagan(residuals, np.column_stack([np.ones(len(residuals)), estimates]))
    return Check("Breusch-Pagan", float(p))
