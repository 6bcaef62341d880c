"""Means over repeats, one row per setting and measure.

Figures are positive and their errors multiply, so the mean is the geometric one (Fleming & Wallace,
"How not to lie with statistics", *CACM* 29(3), 1986) and `error` is the standard error of its
logarithm. The variance is pooled over the settings of all stores, because a few repeats estimate a
single setting's variance badly; a setting's own variance is used if it is larger, with its own
degrees of freedom if an F test confirms that. Engines that store nothing are pooled separately.
The 95 % interval is Student's.

Values that are not all positive have an arithmetic mean without an interval; so have counts, which
are not random, and single repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtrit

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.common.frames import Floats, Integers
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.columns import COUNTED, KEY, KEYS, MEAN
from storewise.analysis.model.results import Results
from storewise.study.checks import MIN_REPEATS

#: As in `storewise.analysis.decision.model`.
UNEQUAL = 0.5


def summarise(table: pd.DataFrame, results: Results, keys: Sequence[str] = KEYS) -> pd.DataFrame:
    """One row per factors' levels and `keys`: then unit, MEAN and, where `table` has it, `count`
    (the sum).

    `table` has the trial, `keys`, value and unit. Variances are pooled over settings with the same
    phase, step, operation and measure.
    """
    factors = list(results.factors)
    groups = [*factors, *keys]
    table = table.merge(results.trials[["trial", *factors]], on="trial")
    if table.empty:
        more = ["count"] if "count" in table else []
        return pd.DataFrame(columns=[*groups, "unit", *MEAN, *more])
    number = _numbered(table, groups)
    first = table.iloc[np.unique(number, return_index=True)[1]]
    values = table["value"].to_numpy(dtype=float)
    n = np.bincount(number).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
        mean_log = np.bincount(number, logs) / n
    positive = np.bincount(number, ~(values > 0)) == 0
    timed = positive & ~first["measure"].isin(COUNTED).to_numpy()
    rows = timed[number]
    with np.errstate(invalid="ignore"):  # of empty groups
        distance = (logs[rows] - mean_log[number[rows]]) ** 2
    squares = np.bincount(number[rows], distance, minlength=len(n))
    engine = first["engine"].astype(str) if "engine" in first else pd.Series("", first.index)
    apart = first.assign(_apart=engine.where(engine.isin([BASELINE, CEILING]), ""))
    alike = _numbered(apart, [*(key for key in KEY if key in keys), "_apart"])
    error, freedom = _errors(n, np.asarray(squares, float), alike, timed)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.where(positive, np.exp(mean_log), np.bincount(number, values) / n)
        half = stdtrit(freedom, 0.975) * error
        low, high = mean * np.exp(-half), mean * np.exp(half)
    result = first[[*groups, "unit"]].reset_index(drop=True)
    result = result.assign(n=n.astype(int), mean=mean, low=low, high=high)
    result = result.assign(error=error, freedom=freedom)
    if "count" in table:
        count = np.bincount(number, table["count"].fillna(0))
        result["count"] = np.where(first["count"].notna(), count, np.nan)
    return result


def _numbered(table: pd.DataFrame, keys: Sequence[str]) -> Integers:
    """The number of each row's group, in the order of the keys."""
    groups = table.groupby(list(keys), dropna=False, observed=True)
    return np.asarray(groups.ngroup(), dtype=np.int64)


def _errors(
    n: Floats, squares: Floats, like: Integers, timed: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Standard errors of the means and their degrees of freedom; nan without repeats."""
    own_df = np.where(timed, n - 1, 0)
    df, total = np.bincount(like, own_df)[like], np.bincount(like, squares)[like]
    settings = np.bincount(like, own_df > 0)[like]
    with np.errstate(divide="ignore", invalid="ignore"):
        own, pooled = squares / own_df, total / df
        others = (total - squares) / (df - own_df)
        p = fdtrc(own_df, df - own_df, own / others)
        # nan if no setting was repeated, or no other one.
        larger = p < UNEQUAL / settings**2
        error = np.sqrt(np.fmax(pooled, own) / n)
    known = own_df > 0
    return np.where(known, error, np.nan), np.where(known, np.where(larger, own_df, df), np.nan)


def few_repeats(results: Results) -> Iterator[StudyWarning]:
    """A warning if a setting has too few repeats for a decision."""
    if results.trials.empty:
        return
    low = int(results.trials.groupby(list(results.factors), dropna=False).size().min())
    if low < MIN_REPEATS:
        yield StudyWarning(
            "few_repeats",
            "",
            f"some settings have {low} of the {MIN_REPEATS} rounds that a decision needs",
            f"set `repeats: {MIN_REPEATS}` or more",
        )
