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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from storewise.analysis.stats.residual_checks import Check, Floats, cells, equal_variance, normality
from storewise.errors import AnalysisError

#: "auto": all that the rows can carry, the others are told; "all" or an order: those, or an error.
Interactions = Literal["auto", "all", "none"] | int
RESIDUAL = "Residual"
#: Residual sum of squares, as a share of that of the response itself, that is mere rounding.
ROUNDING = 1e-24
#: Cells of the design matrix above which a factor must have been meant as a number.
MOST_CELLS = 20_000_000


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
    factors: tuple[str, ...] = ()
    """Those of the term; several are an interaction."""


@dataclass(frozen=True, slots=True)
class Model:
    """The fitted model, for comparisons of levels: statsmodels' result and how it was coded."""

    fitted: Any
    factors: tuple[str, ...]
    levels: Mapping[str, tuple[Any, ...]]
    """Of each factor that is no number, in their order."""
    means: Mapping[str, float]
    """Of each number, as it was put into the model."""
    names: Mapping[str, str]
    """What each factor is called in the formula."""


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


@dataclass(frozen=True, slots=True)
class _Term:
    factors: tuple[str, ...]

    @property
    def name(self) -> str:
        return ":".join(self.factors)

    def parts(self) -> list[_Term]:
        """The interactions of one factor less."""
        return [_Term(p) for p in itertools.combinations(self.factors, len(self.factors) - 1)]

    def formula(self, names: Mapping[str, str]) -> str:
        return ":".join(names[f] for f in self.factors)


def analysis_of_variance(
    table: pd.DataFrame,
    response: str,
    factors: Sequence[str],
    *,
    numeric: Sequence[str] = (),
    log: bool = False,
    repeats: int = 1,
    typ: int = 2,
    interactions: Interactions = "auto",
    robust: bool = False,
    highest: int | None = None,
) -> Variance:
    """The table of variance of `response` over `factors`, one row of `table` per observation.

    `numeric` factors enter as numbers (a straight line), all others as levels. `log` takes the
    natural logarithm of the response. `repeats` counts each row so many times, for rows that are
    means of so many equal repeats. `robust` takes F and p from the covariance HC3 (MacKinnon and
    White 1985; Long and Ervin, *The American Statistician* 54, 2000), while the sums of squares
    and effect sizes stay the ordinary ones. `highest` is the order of the highest interactions
    that are tried, all by default. Raises AnalysisError where the rows cannot carry it.
    """
    if typ not in (1, 2, 3):
        raise AnalysisError(f"type of sums of squares {typ}: 1, 2 or 3 is possible")
    if robust and typ == 1:
        raise AnalysisError("sums of squares of type 1 have no robust test; take type 2 or 3")
    if repeats < 1:
        raise AnalysisError(f"{repeats} repeats of each row: at least 1 is needed")
    if robust and repeats > 1:
        raise AnalysisError(
            "robust tests take each row's own error, and rows that count several times have none "
            "apart; give --robust or --repeats, not both"
        )
    y = _response(table, response, log, repeats)
    blocks, levels = _blocks(table, factors, numeric)
    terms, left_out = _terms(table, factors, numeric, blocks, len(y), interactions, highest)
    if typ == 3:
        for factor in set(numeric) & set(factors):
            x = table[factor].to_numpy(dtype=float)
            blocks[factor] = (x / x.std())[:, None]
    data, names = _data(table, y, factors, blocks, levels)
    formula = "y ~ " + " + ".join(term.formula(names) for term in terms)
    fitted = once = OLS.from_formula(formula, data).fit()
    if once.ssr <= ROUNDING * float(y @ y):
        raise AnalysisError(
            f"the model fits every {response} exactly, so that nothing is left to hold the factors "
            "against; give repeats of the same levels, or fewer factors"
        )
    if robust and float(once.get_influence().hat_matrix_diag.max()) > 1 - 1e-9:
        raise AnalysisError(
            "robust tests need at least two rows in each cell: one row has a cell to itself and "
            "always fits; leave --robust or an interaction away"
        )
    if repeats > 1:
        fitted = OLS.from_formula(formula, data.loc[data.index.repeat(repeats)]).fit()
    table_of = anova_lm(fitted, typ=typ)
    tests = anova_lm(fitted, typ=typ, robust="hc3") if robust else table_of
    rows = _rows(table_of, tests, terms, names, fitted)
    parameters = len(y) - int(once.df_resid)
    return Variance(
        rows=rows,
        left_out=left_out,
        normality=normality(once.resid, int(once.df_resid)),
        equal_variance=equal_variance(
            once.resid,
            None if set(numeric) & set(factors) else cells(table, factors),
            once.fittedvalues,
        ),
        model=Model(
            fitted,
            tuple(factors),
            levels,
            {f: float(blocks[f].mean()) for f in factors if f in numeric},
            names,
        ),
        n=len(y),
        parameters=parameters,
    )


def _response(table: pd.DataFrame, response: str, log: bool, repeats: int) -> Floats:
    y = table[response].to_numpy(dtype=float)
    if not np.isfinite(y).all():
        raise AnalysisError(
            f"{response}: {int((~np.isfinite(y)).sum())} values are no finite numbers"
        )
    if log:
        if (y <= 0).any():
            raise AnalysisError(
                f"{response}: {int((y <= 0).sum())} values have no logarithm (<= 0)"
            )
        y = np.log(y)
    with np.errstate(over="ignore"):
        total = float(y @ y)
    if not np.isfinite(total * repeats):
        raise AnalysisError(
            f"{response}: values up to {np.abs(y).max():.3g} are too large to be squared; give "
            "them in a larger unit, or take --log-response"
        )
    if len(y) < 2:
        raise AnalysisError(f"{response} has one row; nothing varies")
    if np.ptp(y) == 0:
        raise AnalysisError(f"{response} has the same value in all {len(y)} rows; nothing varies")
    return y


def _blocks(
    table: pd.DataFrame, factors: Sequence[str], numeric: Sequence[str]
) -> tuple[dict[str, Floats], dict[str, tuple[Any, ...]]]:
    """The columns of each factor in the design matrix, and the levels of those with levels."""
    blocks: dict[str, Floats] = {}
    levels: dict[str, tuple[Any, ...]] = {}
    for factor in factors:
        found = table[factor]
        if found.isna().any():
            raise AnalysisError(f"factor {factor}: {int(found.isna().sum())} rows have no level")
        if found.nunique() < 2:
            only = f" ({found.iloc[0]!s})" if len(found) else ""
            raise AnalysisError(f"factor {factor} has only one level{only}; two or more are needed")
        if factor in numeric:
            x = found.to_numpy(dtype=float)
            # Tests of types 1 and 2 stay the same, only rounding gets less.
            blocks[factor] = ((x - x.mean()) / x.std())[:, None]
            continue
        codes, known = pd.factorize(found, sort=True)
        if len(known) * len(table) > MOST_CELLS:
            raise AnalysisError(
                f"factor {factor} has {len(known):,} levels; is it a number (--numeric)?"
            )
        levels[factor] = tuple(known)
        blocks[factor] = contrasts(len(known))[codes]
    return blocks, levels


def _data(
    table: pd.DataFrame,
    y: Floats,
    factors: Sequence[str],
    blocks: Mapping[str, Floats],
    levels: Mapping[str, tuple[Any, ...]],
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The columns of the model, and how its formula calls the factors: by names of our own, for
    theirs may be anything. Levels are coded by a call, for then a formula keeps the order of its
    terms; with levels of its own it puts numbers behind them."""
    data = pd.DataFrame({"y": y})
    names = {}
    for number, factor in enumerate(factors):
        column = f"f{number}"
        if factor in levels:
            data[column] = pd.factorize(table[factor], sort=True)[0]
            names[factor] = f"coded({column}, {len(levels[factor])})"
        else:
            data[column] = blocks[factor][:, 0]
            names[factor] = column
    return data, names


def coded(codes: Any, levels: int) -> Floats:
    """The contrasts of each row; called by formulas."""
    rows: Floats = contrasts(levels)[np.asarray(codes, dtype=int)]
    return rows


def contrasts(levels: int) -> Floats:
    """Sum-to-zero contrasts: one row per level, one column per level but the last."""
    return np.vstack([np.eye(levels - 1), -np.ones(levels - 1)])


def _product(blocks: Mapping[str, Floats], term: _Term) -> Floats:
    columns = blocks[term.factors[0]]
    for factor in term.factors[1:]:
        columns = (columns[:, :, None] * blocks[factor][:, None, :]).reshape(len(columns), -1)
    return columns


def _terms(
    table: pd.DataFrame,
    factors: Sequence[str],
    numeric: Sequence[str],
    blocks: Mapping[str, Floats],
    n: int,
    interactions: Interactions,
    most: int | None,
) -> tuple[list[_Term], tuple[tuple[str, str], ...]]:
    """The terms that the rows can carry, by order, and those that they cannot with the reason."""
    asked = {"auto": len(factors), "all": len(factors), "none": 1}.get(str(interactions))
    highest = min(len(factors), int(interactions) if asked is None else asked, most or len(factors))
    basis = np.full((n, 1), 1 / np.sqrt(n))
    kept: list[_Term] = []
    out: list[tuple[str, str]] = []
    for order in range(1, highest + 1):
        terms = [_Term(chosen) for chosen in itertools.combinations(factors, order)]
        wider, fitting, reasons, parameters = basis, [], [], basis.shape[1]
        for term in terms:
            if order > 1 and not all(part in kept for part in term.parts()):
                reasons.append((term.name, "a part of it is left out"))
                continue
            parameters += int(np.prod([blocks[f].shape[1] for f in term.factors]))
            if parameters >= n:
                break
            found = _widened(wider, _product(blocks, term))
            if found is None:
                reasons.append((term.name, _aliased(table, term, numeric)))
                parameters = wider.shape[1]
            else:
                wider = found
                fitting.append(term)
        if parameters >= n:
            # All of this order, so that the order of the factors makes no difference.
            why = f"{n} rows leave no residual degrees of freedom with it"
            reasons = [(term.name, why) for term in terms]
        else:
            basis, kept = wider, [*kept, *fitting]
        if order == 1 and parameters >= n:
            raise AnalysisError(
                f"no residual degrees of freedom: {n} rows for {parameters} parameters or more, "
                "without any interaction; give repeats, fewer factors, or take a factor of many "
                "levels as a number (--numeric)"
            )
        if order == 1 and reasons:
            raise AnalysisError(f"factor {reasons[0][0]}: {reasons[0][1]}; leave one of them out")
        out += reasons
    if out and interactions != "auto":
        name, why = out[0]
        raise AnalysisError(
            f"interaction {name}: {why}; leave it out (--interactions none, or 2 for pairs only)"
        )
    return kept, tuple(out)


def _widened(basis: Floats, columns: Floats) -> Floats | None:
    """An orthonormal basis of both; None where columns are, but for rounding, in the first."""
    # Twice, for what one pass leaves of rounding is itself not orthogonal.
    rest = columns - basis @ (basis.T @ columns)
    rest -= basis @ (basis.T @ rest)
    own, sizes, _ = np.linalg.svd(rest, full_matrices=False)
    if sizes.min() <= 1e-8 * float(np.linalg.norm(columns, ord=2)):
        return None
    return np.column_stack([basis, own])


def _aliased(table: pd.DataFrame, term: _Term, numeric: Sequence[str]) -> str:
    """Why a term cannot be told from those before it, with up to three empty cells."""
    by_level = [f for f in term.factors if f not in numeric]
    if len(term.factors) > 1 and len(by_level) == len(term.factors):
        there = set(map(tuple, table[by_level].drop_duplicates().to_numpy().tolist()))
        each = [list(pd.factorize(table[f], sort=True)[1]) for f in by_level]
        empty = [cell for cell in itertools.product(*each) if cell not in there]
        shown = [", ".join(f"{f}={v}" for f, v in zip(by_level, c, strict=True)) for c in empty[:3]]
        more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
        if empty:
            return f"no rows with {'; '.join(shown)}{more}"
    return "its levels go together with those of the terms before it, so their effects are one"


def _rows(
    sums: pd.DataFrame,
    tests: pd.DataFrame,
    terms: Sequence[_Term],
    names: Mapping[str, str],
    fitted: Any,
) -> tuple[Row, ...]:
    residual, total = float(fitted.ssr), float(fitted.centered_tss)
    mean_square = residual / float(fitted.df_resid)
    rows = []
    for term in terms:
        key = term.formula(names)
        sum_sq, df = (float(sums[column].loc[key]) for column in ("sum_sq", "df"))
        f, p = (float(tests[column].loc[key]) for column in ("F", "PR(>F)"))
        if not np.isfinite([sum_sq, f, p]).all():
            raise AnalysisError(
                f"term {term.name} cannot be tested: its covariance is singular; leave --robust or "
                "an interaction away"
            )
        rows.append(
            Row(
                term.name,
                round(df),
                sum_sq,
                f,
                p,
                sum_sq / (sum_sq + residual),
                (sum_sq - df * mean_square) / (total + mean_square),
                term.factors,
            )
        )
    return (*rows, Row(RESIDUAL, round(float(fitted.df_resid)), residual))
