"""Analysis of variance of one response over several factors.

Ordinary least squares with an intercept; a factor that is no number is coded with sum-to-zero
contrasts, without which the main effects of type 3 would be tests at one level of the other
factors. Sums of squares, F and p are `statsmodels.stats.anova.anova_lm`'s, of type

- 1: each term after those before it, in the order of the factors, interactions last;
- 2 (the default): each term after all that do not contain it (Langsrud, *Statistics and Computing*
  13, 2003); the same for every coding and every origin of a number;
- 3: each term after all others. Beside an interaction with a number this tests a factor where that
  number is 0, as in other software.

In a balanced design without numbers all three agree. Effect sizes, with SS and df of the term, MS_r
the mean square of the residual and SS_t the corrected total sum of squares of the response:

- partial eta squared = SS / (SS + SS_r) (Cohen, *Educational and Psychological Measurement* 33,
  1973);
- omega squared = (SS - df MS_r) / (SS_t + MS_r), a share of all variance, not a partial one
  (Olejnik and Algina, *Psychological Methods* 8(4), 2003; Kirk, *Experimental Design*). It is less
  biased than eta squared, and below 0 where F < 1; it is handed out as it comes, for a value cut
  at 0 would be too high on average.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from storewise.analysis.common.text import some_of
from storewise.analysis.stats.models import OLS, anova_lm
from storewise.analysis.stats.residual_checks import Check, Floats, cells, equal_variance, normality
from storewise.errors import AnalysisError

#: "auto": all that the rows can carry, the others are named; "all" or an order: those, or an
#: error.
Interactions = Literal["auto", "all", "none"] | int
RESIDUAL = "Residual"
#: Residual sum of squares, as a share of that of the response itself, that is mere rounding.
ROUNDING = 1e-24
#: Cells of the design matrix above which a factor must have been meant as a number.
MOST_CELLS = 20_000_000
#: The factors of a term; several are an interaction.
Term = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Specification:
    """What is analysed and how.

    `numeric` factors enter as numbers (a straight line), all others as levels. `log` takes the
    natural logarithm of the response. `repeats` counts each row so many times, for rows that are
    means of so many equal repeats. `typ` is that of the sums of squares. `robust` takes F and p
    from the covariance HC3 (MacKinnon and White 1985; Long and Ervin, *The American Statistician*
    54, 2000), while the sums of squares and effect sizes stay the ordinary ones. `tukey` is a
    factor whose levels are compared in pairs. `highest` is the order of the highest interactions
    that are tried, all by default.
    """

    response: str
    factors: tuple[str, ...]
    numeric: tuple[str, ...] = ()
    log: bool = False
    repeats: int = 1
    typ: int = 2
    interactions: Interactions = "auto"
    robust: bool = False
    tukey: str | None = None
    highest: int | None = None

    @property
    def numbers(self) -> list[str]:
        """The factors that are numbers."""
        return [factor for factor in self.factors if factor in self.numeric]


@dataclass(frozen=True, slots=True)
class Row:
    """One term of a table of variance; the residual has neither F nor effect sizes."""

    term: str
    df: int
    sum_sq: float
    f: float | None = None
    p: float | None = None
    eta_sq_partial: float | None = None
    omega_sq: float | None = None
    factors: Term = ()

    def columns(self) -> dict[str, Any]:
        """The row but for its factors."""
        return {name: value for name, value in asdict(self).items() if name != "factors"}


@dataclass(frozen=True, slots=True)
class Model:
    """The fitted model, for comparisons of levels: statsmodels' result and how it was coded."""

    fitted: Any
    names: Mapping[str, str]
    """What each factor is called in the formula."""
    levels: Mapping[str, tuple[Any, ...]]
    """Of each factor that is no number, in their order."""
    means: Mapping[str, float]
    """Of each number, as it was put into the model."""


@dataclass(frozen=True, slots=True)
class Variance:
    """A table of variance with what its reader must know.

    `rows` are the terms in their order, the residual last. `left_out` are interactions that the
    rows cannot carry, with the reason. `parameters` and `n` count before any repeats.
    """

    rows: tuple[Row, ...]
    left_out: tuple[tuple[str, str], ...]
    normality: Check
    equal_variance: Check
    model: Model
    n: int
    parameters: int

    @property
    def inflation(self) -> float:
        """By how much counting each row `repeats` times makes each F greater."""
        return self.rows[-1].df / (self.n - self.parameters)


def analysis_of_variance(table: pd.DataFrame, spec: Specification) -> Variance:
    """The table of variance of the response over the factors, one row of `table` per observation.

    Raises AnalysisError where the rows cannot carry it.
    """
    if spec.robust and spec.typ == 1:
        raise AnalysisError("sums of squares of type 1 have no robust test; take type 2 or 3")
    if spec.robust and spec.repeats > 1:
        raise AnalysisError(
            "robust tests take each row's own error, and rows that count several times have none "
            "apart; give --robust or --repeats, not both"
        )
    y = _response(table, spec)
    # Factors have names of our own, for theirs may be anything.
    data = pd.DataFrame({"y": y})
    names: dict[str, str] = {}
    levels: dict[str, tuple[Any, ...]] = {}
    blocks: dict[str, Floats] = {}
    for number, factor in enumerate(spec.factors):
        column = f"f{number}"
        if factor in spec.numeric:
            x = _checked(table, factor).to_numpy(dtype=float)
            # Tests of types 1 and 2 stay the same, only rounding gets less.
            centred = (x - x.mean()) / x.std()
            names[factor], blocks[factor] = column, centred[:, None]
            data[column] = x / x.std() if spec.typ == 3 else centred
            continue
        codes, known = pd.factorize(_checked(table, factor), sort=True)
        if len(known) * len(table) > MOST_CELLS:
            raise AnalysisError(
                f"factor {factor} has {len(known):,} levels; is it a number (--numeric)?"
            )
        # Coded by a call, for then a formula keeps the order of its terms; it puts numbers behind
        # what has levels of its own.
        names[factor], blocks[factor] = f"coded({column}, {len(known)})", coded(codes, len(known))
        data[column], levels[factor] = codes, tuple(known)
    terms, left_out = _terms(table, spec, blocks)
    formula = "y ~ " + " + ".join(_formula(term, names) for term in terms)
    fitted = once = OLS.from_formula(formula, data).fit()
    if once.ssr <= ROUNDING * float(y @ y):
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
        fitted = OLS.from_formula(formula, data.loc[data.index.repeat(spec.repeats)]).fit()
    freedom = int(once.df_resid)
    of_cell = None if spec.numbers else cells(table, spec.factors)
    return Variance(
        rows=_rows(fitted, spec, {term: _formula(term, names) for term in terms}),
        left_out=left_out,
        normality=normality(once.resid, freedom),
        equal_variance=equal_variance(once.resid, of_cell, once.fittedvalues),
        model=Model(fitted, names, levels, {f: float(data[names[f]].mean()) for f in spec.numbers}),
        n=len(y),
        parameters=len(y) - freedom,
    )


def _formula(term: Term, names: Mapping[str, str]) -> str:
    return ":".join(names[factor] for factor in term)


def _response(table: pd.DataFrame, spec: Specification) -> Floats:
    response = spec.response
    y = table[response].to_numpy(dtype=float)
    if not np.isfinite(y).all():
        raise AnalysisError(
            f"{response}: {int((~np.isfinite(y)).sum())} values are no finite numbers"
        )
    if spec.log:
        if (y <= 0).any():
            raise AnalysisError(
                f"{response}: {int((y <= 0).sum())} values have no logarithm (<= 0)"
            )
        y = np.log(y)
    with np.errstate(over="ignore"):
        total = float(y @ y)
    if not np.isfinite(total * spec.repeats):
        raise AnalysisError(
            f"{response}: values up to {np.abs(y).max():.3g} are too large to be squared; give "
            "them in a larger unit, or take --log-response"
        )
    if len(y) < 2:
        raise AnalysisError(f"{response} has one row; nothing varies")
    if np.ptp(y) == 0:
        raise AnalysisError(f"{response} has the same value in all {len(y)} rows; nothing varies")
    return y


def _checked(table: pd.DataFrame, factor: str) -> pd.Series:
    """The levels of a factor; AnalysisError where rows have none or all the same one."""
    values = table[factor]
    if values.isna().any():
        raise AnalysisError(f"factor {factor}: {int(values.isna().sum())} rows have no level")
    if values.nunique() < 2:
        only = f" ({values.iloc[0]!s})" if len(values) else ""
        raise AnalysisError(f"factor {factor} has only one level{only}; two or more are needed")
    return values


def coded(codes: Any, levels: int) -> Floats:
    """The contrasts of each row; called by formulas."""
    rows: Floats = contrasts(levels)[np.asarray(codes, dtype=int)]
    return rows


def contrasts(levels: int) -> Floats:
    """Sum-to-zero contrasts: one row per level, one column per level but the last."""
    return np.vstack([np.eye(levels - 1), -np.ones(levels - 1)])


def _product(blocks: Mapping[str, Floats], term: Term) -> Floats:
    columns = blocks[term[0]]
    for factor in term[1:]:
        columns = (columns[:, :, None] * blocks[factor][:, None, :]).reshape(len(columns), -1)
    return columns


def _terms(
    table: pd.DataFrame, spec: Specification, blocks: Mapping[str, Floats]
) -> tuple[list[Term], tuple[tuple[str, str], ...]]:
    """The terms that the rows can carry, by order, and those that they cannot with the reason."""
    n, every = len(table), len(spec.factors)
    orders = {"auto": every, "all": every, "none": 1}
    wanted = orders.get(str(spec.interactions)) or int(spec.interactions)
    highest = min(every, wanted, spec.highest or every)
    columns = np.ones((n, 1))
    kept: list[Term] = []
    out: list[tuple[str, str]] = []
    for order in range(1, highest + 1):
        terms = list(itertools.combinations(spec.factors, order))
        wider, fitting, reasons, parameters = columns, [], [], columns.shape[1]
        for term in terms:
            name = ":".join(term)
            if order > 1 and not all(p in kept for p in itertools.combinations(term, order - 1)):
                reasons.append((name, "a part of it is left out"))
                continue
            parameters += math.prod(blocks[f].shape[1] for f in term)
            if parameters >= n:
                break
            widened = np.column_stack([wider, _product(blocks, term)])
            if np.linalg.matrix_rank(widened, rtol=1e-8) < parameters:
                reasons.append((name, _aliased(table, term, spec.numeric)))
                parameters = wider.shape[1]
            else:
                wider = widened
                fitting.append(term)
        if parameters >= n:
            # All of this order, so that the order of the factors makes no difference.
            why = f"{n} rows leave no residual degrees of freedom with it"
            reasons = [(":".join(term), why) for term in terms]
        else:
            columns, kept = wider, [*kept, *fitting]
        if order == 1 and parameters >= n:
            raise AnalysisError(
                f"no residual degrees of freedom: {n} rows for {parameters} parameters or more, "
                "without any interaction; give repeats, fewer factors, or take a factor of many "
                "levels as a number (--numeric)"
            )
        if order == 1 and reasons:
            raise AnalysisError(f"factor {reasons[0][0]}: {reasons[0][1]}; leave one of them out")
        out += reasons
    if out and spec.interactions != "auto":
        name, why = out[0]
        raise AnalysisError(
            f"interaction {name}: {why}; leave it out (--interactions none, or 2 for pairs only)"
        )
    return kept, tuple(out)


def _aliased(table: pd.DataFrame, term: Term, numeric: Sequence[str]) -> str:
    """Why a term cannot be told from those before it, with up to three empty cells."""
    if len(term) > 1 and not set(term) & set(numeric):
        there = set(map(tuple, table[list(term)].drop_duplicates().to_numpy().tolist()))
        each = [list(pd.factorize(table[f], sort=True)[1]) for f in term]
        empty = [cell for cell in itertools.product(*each) if cell not in there]
        cases = [", ".join(f"{f}={v}" for f, v in zip(term, c, strict=True)) for c in empty]
        if cases:
            return f"no rows with {some_of(cases, 3, '; ')}"
    return "its levels go together with those of the terms before it, so their effects are one"


def _rows(fitted: Any, spec: Specification, formulas: Mapping[Term, str]) -> tuple[Row, ...]:
    sums = anova_lm(fitted, typ=spec.typ)
    tests = anova_lm(fitted, typ=spec.typ, robust="hc3") if spec.robust else sums
    residual, total = float(fitted.ssr), float(fitted.centered_tss)
    mean_square = residual / float(fitted.df_resid)
    rows = []
    for term, formula in formulas.items():
        name = ":".join(term)
        sum_sq, df = (float(sums[column].loc[formula]) for column in ("sum_sq", "df"))
        f, p = (float(tests[column].loc[formula]) for column in ("F", "PR(>F)"))
        if not np.isfinite([sum_sq, f, p]).all():
            raise AnalysisError(
                f"term {name} cannot be tested: its covariance is singular; leave --robust or "
                "an interaction away"
            )
        eta = sum_sq / (sum_sq + residual)
        omega = (sum_sq - df * mean_square) / (total + mean_square)
        rows.append(Row(name, round(df), sum_sq, f, p, eta, omega, term))
    return (*rows, Row(RESIDUAL, round(float(fitted.df_resid)), residual))
