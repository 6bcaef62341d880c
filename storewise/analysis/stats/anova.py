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
#: Residual sum of squares, as a share of that of the response itself, that is mere rounding.
ROUNDING = 1e-24
#: Why a term cannot be told from those before it.
ALIASED = "its levels go together with those of the terms before it, or cells of it have no rows"
#: The factors of a term; several are an interaction.
Term = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Specification:
    """The response, the factors and the options of an analysis of variance.

    `numeric` factors enter as numbers (a straight line), all others as levels. `log` takes the
    natural logarithm of the response (None, of a study: where all values are positive). `repeats`
    counts each row so many times, for rows that are means of so many equal repeats. `typ` is that
    of the sums of squares. `robust` takes F and p from the covariance HC3 (MacKinnon and White
    1985; Long and Ervin, *The American Statistician* 54, 2000), while the sums of squares and
    effect sizes stay the ordinary ones. `tukey` is a
    factor whose levels are compared in pairs. `order` is that of the highest interactions in the
    model, all by default; with `strict` those that the rows cannot carry are an error.
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
    """The rows as statsmodels' formulas have them, under names of our own: those of factors may be
    anything. `columns` has the name of each factor; those of levels are categories."""

    data: pd.DataFrame
    columns: Mapping[str, str]

    def levels(self, factor: str) -> Sequence[Any]:
        """The levels of a factor; none of a number."""
        values = self.data[self.columns[factor]]
        return list(values.cat.categories) if values.dtype == "category" else []

    def name(self, term: Term) -> str:
        """A term in a formula."""
        columns = ((f, self.columns[f]) for f in term)
        return ":".join(f"C({name}, Sum)" if self.levels(f) else name for f, name in columns)

    def model(self, terms: Iterable[Term], data: pd.DataFrame) -> Any:
        """The model of these terms, not yet fitted."""
        return OLS.from_formula("y ~ " + " + ".join(map(self.name, terms)), data)


@dataclass(frozen=True, slots=True)
class Variance:
    """A table of variance with what its reader must know.

    `table` has COLUMNS, a row per term in their order, the residual last, which has neither F nor
    effect sizes; `terms` are the factors of each. `left_out` maps interactions that the rows cannot
    carry to the reason. `normality` and `equal_variance` are p of the residuals. `freedom` and `n`
    count before any repeats.
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
        """The factor by which each F grows if each row is counted `repeats` times."""
        return float(self.fitted.df_resid) / self.freedom


def analysis_of_variance(table: pd.DataFrame, spec: Specification) -> Variance:
    """The table of variance of the response over the factors, one row of `table` per observation.

    Raises AnalysisError if the rows are too few for these factors.
    """
    if spec.robust and (spec.typ == 1 or spec.repeats > 1):
        raise AnalysisError(
            "robust tests are of sums of squares of type 2 or 3, and of rows that count once: give "
            "--robust without --type 1 and without --repeats"
        )
    design = _design(table, spec)
    terms, left_out = _terms(design, spec)
    data = design.data
    once = fitted = design.model(terms, data).fit()
    if once.ssr <= ROUNDING * float((data["y"] ** 2).sum()):
        raise AnalysisError(
            f"the model fits every {spec.response} exactly, so that nothing is left to hold the "
            "factors against; give repeats of the same levels, or fewer factors"
        )
    if spec.robust and float(once.get_influence().hat_matrix_diag.max()) > 1 - 1e-9:
        raise AnalysisError(
            "robust tests need at least two rows in each cell: one row has a cell to itself and "
            "always fits; leave --robust or an interaction away"
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
    """The rows of an analysis; AnalysisError where a factor has one level, or rows have none."""
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
                f"{response}: {wrong} values of 0 or less have no logarithm; leave --log-response "
                "away"
            )
        y = np.log(y)
    if np.ptp(y) == 0:
        raise AnalysisError(f"{response} has one value in {len(y)} rows; nothing varies")
    return y


def _terms(design: Design, spec: Specification) -> tuple[list[Term], dict[str, str]]:
    """The terms that the rows can carry, by order, and those that they cannot with the reason."""
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
            "a term cannot be tested: its covariance is singular; leave --robust or an interaction "
            "away"
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
