"""Analysis of variance of one response over several factors, by statsmodels' formulas.

Ordinary least squares with an intercept. Factors of levels are coded sum-to-zero: without that,
main effects of type 3 would be tests at one level of the other factors. Numbers are taken from
their mean, and so is a factor tested beside its interaction with one. Sums of squares, F and p are
those of `statsmodels.stats.anova.anova_lm`, of type

- 1: each term after those before it: factors of levels, numbers, then interactions, as formulas
  have them;
- 2 (the default): each term after all that do not contain it (Langsrud, *Statistics and Computing*
  13, 2003); the same for every coding and every origin of a number;
- 3: each term after all others.

In a balanced design without numbers all three agree. Effect sizes, with SS and df of the term, MS_r
the mean square of the residual and SS_t the corrected total sum of squares of the response:

- partial eta squared = SS / (SS + SS_r) (Cohen, *Educational and Psychological Measurement* 33,
  1973);
- omega squared = (SS - df MS_r) / (SS_t + MS_r), a share of all variance, not a partial one
  (Olejnik and Algina, *Psychological Methods* 8(4), 2003). It is less biased than eta squared, and
  below 0 where F < 1; it is not cut at 0, for then it would be too high on average.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import Floats
from storewise.analysis.stats.models import OLS, anova_lm
from storewise.analysis.stats.residual_checks import equal_variance, normality
from storewise.errors import AnalysisError

RESIDUAL = "Residual"
COLUMNS = ("term", "df", "sum_sq", "f", "p", "eta_sq_partial", "omega_sq")
#: Residual sum of squares over that of the response: at or below this it is rounding error.
ROUNDING = 1e-24
#: Reason for leaving out a term that is aliased with earlier terms.
ALIASED = "its levels go together with those of the terms before it, or cells of it have no rows"
#: The factors of a term; several are an interaction.
Term = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Specification:
    """The response, the factors and the options of an analysis of variance.

    `numeric` factors enter as numbers (a straight line), all others as levels. `log` takes the
    natural logarithm of the response (None: if all values are positive). `repeats` is the number of
    equal repeats of which each row is the mean. `typ` is the type of the sums of squares (1, 2 or
    3). `robust` takes F and p from the covariance HC3 (MacKinnon and White 1985; Long and Ervin,
    *The American Statistician* 54, 2000); sums of squares and effect sizes stay ordinary. `tukey`
    is a factor whose levels are compared in pairs. `order` is the highest order of interactions,
    all by default; with `strict`, interactions that cannot be estimated are an error.
    """

    response: str
    factors: tuple[str, ...]
    numeric: tuple[str, ...] = ()
    log: bool | None = False
    repeats: int = 1
    typ: int = 2
    order: int | None = None
    strict: bool = False
    robust: bool = False
    tukey: str | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """The rows for statsmodels' formulas. `columns` maps factor to column: formulas do not allow
    every name of a factor. Factors of levels are categories."""

    data: pd.DataFrame
    columns: Mapping[str, str]

    def levels(self, factor: str) -> Sequence[Any]:
        """The levels of a factor; empty for a numeric factor."""
        values = self.data[self.columns[factor]]
        return list(values.cat.categories) if values.dtype == "category" else []

    def name(self, term: Term) -> str:
        """The text of a term in a formula."""
        columns = ((f, self.columns[f]) for f in term)
        return ":".join(f"C({name}, Sum)" if self.levels(f) else name for f, name in columns)

    def model(self, terms: Iterable[Term], data: pd.DataFrame) -> Any:
        """The model with these terms, not yet fitted."""
        return OLS.from_formula("y ~ " + " + ".join(map(self.name, terms)), data)


@dataclass(frozen=True, slots=True)
class Variance:
    """The table of an analysis of variance, and checks of its assumptions.

    `table` has COLUMNS and a row per term; the last row is the residual, without F and effect
    sizes. `terms` has the factors of each term. `left_out` maps interactions that cannot be
    estimated to the reason. `normality` and `equal_variance` are p of tests of the residuals.
    `freedom` and `n` count each row once, without `repeats`.
    """

    table: pd.DataFrame
    terms: Sequence[Term]
    left_out: Mapping[str, str]
    normality: float
    equal_variance: float
    design: Design
    fitted: Any
    n: int
    freedom: int

    @property
    def inflation(self) -> float:
        """The factor by which each F is larger because each row counts `repeats` times."""
        return float(self.fitted.df_resid) / self.freedom


def analysis_of_variance(table: pd.DataFrame, spec: Specification) -> Variance:
    """The analysis of variance of the response; `table` has one row per observation.

    Raises AnalysisError if there are too few rows for these factors.
    """
    if spec.robust and (spec.typ == 1 or spec.repeats > 1):
        raise AnalysisError(
            "--robust works with sums of squares of type 2 or 3, and without repeats: omit --type "
            "1 and --repeats"
        )
    design = _design(table, spec)
    terms, left_out = _terms(design, spec)
    data = design.data
    once = fitted = design.model(terms, data).fit()
    if once.ssr <= ROUNDING * float((data["y"] ** 2).sum()):
        raise AnalysisError(
            f"the model fits every {spec.response} exactly: without a residual, factors cannot be "
            "tested; give repeats of the same levels, or fewer factors"
        )
    if spec.robust and float(once.get_influence().hat_matrix_diag.max()) > 1 - 1e-9:
        raise AnalysisError(
            "robust tests need at least two rows in each cell: the only row of a cell fits "
            "exactly; omit --robust or an interaction"
        )
    if spec.repeats > 1:
        fitted = design.model(terms, data.loc[data.index.repeat(spec.repeats)]).fit()
    residuals, freedom = once.resid.to_numpy(), int(once.df_resid)
    cells = None if spec.numeric else table.groupby(list(spec.factors), observed=True).ngroup()
    return Variance(
        table=_table(fitted, spec, [design.name(term) for term in terms], terms),
        terms=terms,
        left_out=left_out,
        normality=normality(residuals, freedom),
        equal_variance=equal_variance(residuals, cells, once.fittedvalues.to_numpy()),
        design=design,
        fitted=fitted,
        n=len(data),
        freedom=freedom,
    )


def _design(table: pd.DataFrame, spec: Specification) -> Design:
    """The rows of an analysis; AnalysisError if a factor has one level or no row is left."""
    data = pd.DataFrame({"y": _response(table, spec)})
    columns = {factor: f"f{number}" for number, factor in enumerate(spec.factors)}
    for factor, column in columns.items():
        values = table[factor].reset_index(drop=True)
        if values.isna().any():
            raise AnalysisError(f"factor {factor}: {int(values.isna().sum())} rows have no level")
        if values.nunique() < 2:
            raise AnalysisError(
                f"factor {factor} has only one level ({values.iloc[0]!s}); two or more are needed"
            )
        if factor in spec.numeric:
            x = values.astype(float)
            data[column] = (x - x.mean()) / x.std()
        else:
            data[column] = pd.Categorical(values.astype(object))
    return Design(data, columns)


def _response(table: pd.DataFrame, spec: Specification) -> Floats:
    response, y = spec.response, table[spec.response].to_numpy(dtype=float)
    if wrong := int((~np.isfinite(y)).sum()):
        raise AnalysisError(f"{response}: {wrong} values are no finite numbers")
    if spec.log:
        if wrong := int((y <= 0).sum()):
            raise AnalysisError(
                f"{response}: {wrong} values of 0 or less have no logarithm; omit --log-response"
            )
        y = np.log(y)
    if np.ptp(y) == 0:
        raise AnalysisError(f"{response} has one value in {len(y)} rows; nothing varies")
    return y


def _terms(design: Design, spec: Specification) -> tuple[list[Term], dict[str, str]]:
    """The terms that can be estimated, by order, and the others with the reason."""
    n, every = len(design.data), len(spec.factors)
    width = {factor: max(1, len(design.levels(factor)) - 1) for factor in spec.factors}
    kept: list[Term] = []
    left_out: dict[Term, str] = {}
    for order in range(1, min(every, spec.order or every) + 1):
        terms = list(itertools.combinations(spec.factors, order))
        fitting, reasons = list(kept), {}
        for term in terms:
            if order > 1 and not set(itertools.combinations(term, order - 1)) <= set(kept):
                reasons[term] = "a part of it is left out"
                continue
            more = [*fitting, term]
            if 1 + sum(math.prod(width[f] for f in one) for one in more) >= n:
                # All of this order, so that the order of the factors makes no difference.
                why = f"{n} rows leave no residual degrees of freedom with it"
                fitting, reasons = kept, dict.fromkeys(terms, why)
                break
            matrix = design.model(more, design.data).exog
            if np.linalg.matrix_rank(matrix, rtol=1e-8) < matrix.shape[1]:
                reasons[term] = ALIASED
            else:
                fitting = more
        kept, left_out = fitting, left_out | reasons
    for term, why in left_out.items():
        if len(term) == 1:
            raise AnalysisError(
                f"factor {term[0]}: {why}; leave it out, measure repeats, or treat a factor of "
                "many levels as numeric (--numeric)"
            )
        if spec.strict:
            raise AnalysisError(
                f"interaction {':'.join(term)}: {why}; leave it out (--interactions none, or 2 for "
                "pairs only)"
            )
    return kept, {":".join(term): why for term, why in left_out.items()}


def _table(
    fitted: Any, spec: Specification, names: Sequence[str], terms: Sequence[Term]
) -> pd.DataFrame:
    sums = anova_lm(fitted, typ=spec.typ).loc[names]
    tests = anova_lm(fitted, typ=spec.typ, robust="hc3").loc[names] if spec.robust else sums
    residual, freedom = float(fitted.ssr), int(fitted.df_resid)
    sum_sq, df, mean_square = sums["sum_sq"], sums["df"].astype(int), residual / freedom
    if not np.isfinite([sum_sq, tests["F"], tests["PR(>F)"]]).all():
        raise AnalysisError(
            "a term cannot be tested: its covariance is singular; omit --robust or an interaction"
        )
    columns = (
        [":".join(term) for term in terms],
        *(df, sum_sq, tests["F"], tests["PR(>F)"]),
        sum_sq / (sum_sq + residual),
        (sum_sq - df * mean_square) / (fitted.centered_tss + mean_square),
    )
    last = (RESIDUAL, freedom, residual, *[np.nan] * 4)
    rows = [*zip(*columns, strict=True), last]
    return pd.DataFrame(rows, columns=list(COLUMNS))
