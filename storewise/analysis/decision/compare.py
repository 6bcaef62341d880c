"""Comparison of an old and a new measurement: which settings became better or worse.

Two days differ for unmeasured reasons. So there are three kinds of comparison, the best first:

* Old and new were measured in the same rounds of one study: their differences give the error.
* Settings that are known to be unchanged (controls) were measured on both days: the scatter of
  their ratios is the error. It includes the variation of a setting from day to day, which more
  rounds on one day cannot show.
* Neither: only the ratio is reported, without a test.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from storewise.analysis.decision.model import ALPHA, ROUNDING, WORTH, Floats, fit, student
from storewise.analysis.stats.intervals import holm_adjusted

SIDES = ("old", "new")
#: Fewest unchanged settings from which an error is estimated.
MIN_CONTROLS = 3
#: Values of the column `basis`.
COUNTED, SAME_ROUNDS, CONTROLS, DAYS = "counted", "same rounds", "controls", "different days"


def compare(
    measures: pd.DataFrame, *, same_rounds: bool, counted: Collection[str] = ()
) -> pd.DataFrame:
    """The ratio new / old for each setting and criterion that both sides have.

    `measures` has a row per trial and criterion: side ("old", "new"), criterion, round, value, the
    factors of a setting in all other columns, and, for different days, control (whether the setting
    is known to be unchanged). Values that are not positive and finite are left out. Criteria in
    `counted` (files, bytes) have no error: they differ if the ratio reaches WORTH.

    Returns a row per criterion and setting without controls: ratio, low, high (95 % interval of
    this ratio), error and freedom (standard error of the ratio's logarithm and its degrees of
    freedom), p (Student's t, two-sided), p_adjusted (Holm's method, over all rows), basis (COUNTED,
    SAME_ROUNDS, CONTROLS, DAYS) and told: "different", "not told apart" or "cannot be told". The
    chance of any false "different" is at most ALPHA.
    """
    rows = measures.astype({"value": float})
    rows = rows[(rows["value"] > 0) & np.isfinite(rows["value"])]
    factors = [c for c in rows if c not in ("side", "criterion", "round", "value", "control")]
    place = rows.groupby(factors, dropna=False).ngroup() if factors else 0
    rows = rows.assign(place=place, log=np.log(rows["value"]))
    settings = rows.drop_duplicates("place").set_index("place")[factors].sort_index()
    unchanged = (
        set()
        if same_rounds or "control" not in rows
        else set(rows.loc[rows["control"].astype(bool), "place"])
    )
    frames = []
    for criterion, group in rows.groupby("criterion"):
        wide = group.groupby(["side", "place", "round"])["log"].mean().unstack("round")
        common = [p for p in settings.index if all((side, p) in wide.index for side in SIDES)]
        old, new = (wide.reindex([(side, p) for p in common]).to_numpy() for side in SIDES)
        control = np.array([p in unchanged for p in common], dtype=bool)
        if criterion in counted:
            basis, answer = COUNTED, _exact(old, new)
        elif same_rounds:
            basis, answer = SAME_ROUNDS, _paired(new - old)
        elif control.sum() >= MIN_CONTROLS:
            basis, answer = CONTROLS, _beside_controls(old, new, control)
        else:
            basis, answer = DAYS, _exact(old, new)
        frame = settings.loc[common].assign(criterion=criterion, **answer, basis=basis)
        frames.append(frame[~control])
    columns = [*factors, "criterion", *_columns(np.empty(0)), "basis"]
    table = pd.concat(frames) if frames else pd.DataFrame(columns=columns, dtype=float)
    return _told(table.dropna(subset="ratio").reset_index(drop=True))


def _exact(old: Floats, new: Floats) -> dict[str, Floats]:
    """Columns of ratios without an error."""
    return _columns(_means(new) - _means(old))


def _paired(differences: Floats) -> dict[str, Floats]:
    """Columns from paired differences (settings x rounds). The variance is pooled over the
    settings, or the setting's own if that is larger, as in `model`."""
    rows = ~np.isnan(differences).all(axis=1)
    gap, error, freedom = (np.full(len(differences), np.nan) for _ in range(3))
    if rows.any():
        fitted = fit(differences[rows], rounds=False)
        gap[rows], error[rows], freedom[rows] = fitted.mean, fitted.mean_error, fitted.freedom
    return _columns(gap, error, freedom)


def _beside_controls(old: Floats, new: Floats, control: npt.NDArray[np.bool_]) -> dict[str, Floats]:
    """Columns of changes minus the mean change of the controls, which is the effect of the day.

    The variance is that of a new observation compared with n controls, s² (1 + 1 / n), with n - 1
    degrees of freedom. If the rounds of a setting vary more, their variance replaces the first s².
    """
    change = _means(new) - _means(old)
    days = fit(np.vstack([old, new]), rounds=False).mean_error.reshape(2, -1)
    rounds = np.nan_to_num(np.square(days).sum(axis=0))
    n, scatter = int(control.sum()), float(np.var(change[control], ddof=1))
    error = np.sqrt(np.maximum(scatter, rounds) + scatter / n) + ROUNDING
    return _columns(change - change[control].mean(), error, np.full(len(change), n - 1.0))


def _means(logs: Floats) -> Floats:
    """The mean over rounds of each row, which has at least one."""
    means: Floats = np.nansum(logs, axis=1) / (~np.isnan(logs)).sum(axis=1)
    return means


def _columns(
    gap: Floats, error: Floats | float = np.nan, freedom: Floats | float = np.nan
) -> dict[str, Floats]:
    """Columns ratio, low, high, error, freedom and p from differences of logarithms."""
    degrees = np.where(np.asarray(freedom) > 0, freedom, np.nan)
    half = np.array([student(float(f), 1) for f in np.broadcast_to(degrees, gap.shape)]) * error
    p = 2 * stats.t.sf(np.abs(gap) / error, degrees)
    columns = {"ratio": np.exp(gap), "low": np.exp(gap - half), "high": np.exp(gap + half)}
    others = {"error": error, "freedom": degrees, "p": p}
    return columns | {name: np.broadcast_to(column, gap.shape) for name, column in others.items()}


def _told(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the columns `p_adjusted` and `told` added."""
    counted = table["basis"] == COUNTED
    large = np.abs(np.log(table["ratio"])) >= np.log(WORTH) - ROUNDING
    table = table.assign(p_adjusted=holm_adjusted(table["p"].to_numpy()))
    different = (table["p_adjusted"] < ALPHA) | (counted & large)
    result = np.where(different, "different", "not told apart")
    return table.assign(told=np.where(table["p"].isna() & ~counted, "cannot be told", result))
