"""Which trials are noisy, and of which kind the noise is.

Within a trial the rates of the steady seconds are looked at. Neighbouring seconds are alike, so n
of them say less than n independent ones: with the autocorrelation r of neighbours (of what is left
when the drift is taken out, corrected for its bias, Kendall, Biometrika 41, 1954) as many as
n (1 - r) / (1 + r) (Bayley & Hammersley, Journal of the Royal Statistical Society 8(2), 1946). The
drift is the slope of Theil (1950) and Sen (1968), a median of all slopes between two seconds, which
a single stalled second does not move; its interval and the p of Kendall's tau are widened for that
number of seconds (Yue & Wang, Water Resources Management 18, 2004).

Between trials, a trial is held against the others of its setting, and the canary (a fixed task that
ran before it) against that of all trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri
from scipy.stats import kendalltau, theilslopes

from storewise.analysis.common.frames import Floats, grouped, records
from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.judge.comparable_steps import LOAD_RATE, loads, of_rates
from storewise.analysis.measure.host_load import UNSTEADY
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.intervals import (
    LEVEL,
    MIN_SECONDS,
    autocorrelation,
    effective,
    holm_adjusted,
)

#: Coefficient of variation between seconds, that of counting aside, above which a trial is noisy:
#: of 20 independent seconds the mean is then still uncertain by 10 % (2 * 0.22 / sqrt(20)).
SPREAD = 0.22
#: Change over the steady part, as a share of its mean, above which a drift matters: beyond it the
#: figure says when it was taken.
DRIFT = 0.1
#: Share by which a trial may lie off the median of its repeats: two that are both this far off
#: differ by a fifth, more than many differences between stores.
OFF = 0.1
#: Ratio to the median canary, or of it, from which on the machine was another one: a host is
#: called unsteady where the fastest and the slowest differ by the square of this.
UNLIKE = math.sqrt(UNSTEADY)
#: Fewest trials whose median says what is usual.
USUAL = 3
#: Flag -> what to do about it.
REMEDIES: Mapping[str, str] = {
    "spread": "make the phase longer, so that its mean is of more seconds",
    "drift": "give the phase a longer warm-up, and make it longer",
    "autocorrelation": "make the phase longer, so that it has more independent seconds",
    "repeats": "set more repeats",
    "canary": "keep other work off the machine and measure the trial again",
}
#: Points of a series from which the drift is taken; longer ones are averaged down to it, since the
#: slopes between all pairs grow with the square.
POINTS = 120


@dataclass(frozen=True, slots=True)
class Series:
    """What the seconds of one step say; nan where they are too few.

    `cv` is their coefficient of variation, `cv_counting` the one that counting operations alone
    gives (Poisson: 1 / sqrt(operations per second)). Drifts are shares of the mean: per minute
    with the interval, and over all the seconds; `drift_p` is of no drift. `effective_seconds` is
    the number of independent ones.
    """

    seconds: int
    mean: float
    cv: float
    cv_counting: float
    drift_per_min: float = math.nan
    drift_low: float = math.nan
    drift_high: float = math.nan
    drift_change: float = math.nan
    drift_p: float = math.nan
    autocorrelation: float = math.nan
    effective_seconds: float = math.nan


COLUMNS = (
    *(*STEP, "measure", *(one.name for one in fields(Series))),
    *("repeats", "cv_repeats", "of_repeats", "canary", "canary_metric", "flags"),
)


def of_series(rates: Sequence[float], operations_per_s: float = math.inf) -> Series:
    """The noise in the rates of consecutive seconds, `operations_per_s` of which ended in each."""
    values = np.asarray(rates, dtype=float)
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    counting = 1 / math.sqrt(operations_per_s) if operations_per_s > 0 else math.nan
    if n < 2 or not mean > 0:
        return Series(n, mean, math.nan, counting)
    cv = float(values.std(ddof=1)) / mean
    if n < MIN_SECONDS:
        return Series(n, mean, cv, counting)
    if values.min() == values.max():
        return Series(n, mean, 0.0, counting, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, float(n))
    times, points = _averaged(values / mean)
    drift = theilslopes(points, times, alpha=LEVEL)
    size = effective(len(points), autocorrelation(points - drift.slope * times, 2))
    wider = math.sqrt(len(points) / size)
    r = autocorrelation(values - drift.slope * mean * np.arange(n), 2)
    p = float(kendalltau(times, points).pvalue)
    return Series(
        n,
        mean,
        cv,
        counting,
        60 * float(drift.slope),
        60 * float(drift.slope - wider * (drift.slope - drift.low_slope)),
        60 * float(drift.slope + wider * (drift.high_slope - drift.slope)),
        n * float(drift.slope),
        2 * float(ndtr(float(ndtri(max(p, 1e-300) / 2)) / wider)),
        r,
        effective(n, r),
    )


def _averaged(values: Floats) -> tuple[Floats, Floats]:
    """Times in s and values of at most POINTS equal parts."""
    length = math.ceil(len(values) / POINTS)
    whole = len(values) // length * length
    times = np.arange(whole, dtype=float).reshape(-1, length).mean(axis=1)
    return times, values[:whole].reshape(-1, length).mean(axis=1)


def noise(tables: Tables) -> Judged:
    """Table `noise`: COLUMNS, one row per trial, phase and step; a warning per noisy trial.

    `measure` is the rate that the phase is judged by (also where the study set it) and `mean` that
    of its `seconds` steady seconds; without these all from there to `effective_seconds` is missing.
    `drift_per_min` with its interval and `drift_change` (over the whole steady part) are shares of
    the mean. `of_repeats` is the trial's rate over the median of the `repeats` of its setting,
    `cv_repeats` their coefficient of variation. `canary` is the one canary of the trial, over the
    study's median, that is farthest from 1. `flags` are keys of REMEDIES, a comma between two.
    """
    rows = _steps(tables)
    canaries = canary_ratios(tables.canary)
    drift_p = holm_adjusted([row["drift_p"] for row in rows])
    for row, p in zip(rows, drift_p, strict=True):
        row["canary"], row["canary_metric"] = canaries.get(row["trial"], (math.nan, ""))
        row["flags"] = ", ".join(flags(row, drifts=bool(p <= 1 - LEVEL)))
    return Judged(pd.DataFrame(rows, columns=list(COLUMNS)), list(_warnings(rows)))


def flags(row: Mapping[str, Any], *, drifts: bool) -> list[str]:
    """The flags of a row of the table; `drifts` says that its drift is more than chance."""
    beyond = row["cv"] ** 2 - row["cv_counting"] ** 2
    holds = {
        "spread": beyond > SPREAD**2,
        "drift": drifts and abs(row["drift_change"]) > DRIFT,
        "autocorrelation": row["effective_seconds"] < MIN_SECONDS
        and row["autocorrelation"] > _by_chance(row["seconds"]),
        "repeats": row["repeats"] > 1 and abs(row["of_repeats"] - 1) > OFF,
        "canary": not 1 / UNLIKE <= row["canary"] <= UNLIKE and not math.isnan(row["canary"]),
    }
    return [name for name in REMEDIES if holds[name]]


def _by_chance(n: int) -> float:
    """What a corrected autocorrelation of independent seconds hardly exceeds: twice the standard
    error 1 / sqrt(n) of the plain one (Bartlett 1946). It is above 1 for few seconds."""
    return (2 * math.sqrt(n) + 2) / (n - 4) if n > 4 else math.inf


def _steps(tables: Tables) -> list[dict[str, Any]]:
    """All columns but those of the canary, and no flags."""
    factors = list(tables.results.factors)
    rates = tables.throughput
    rates = rates[of_rates(rates, loads(rates), [LOAD_RATE])]
    rates = rates.merge(tables.trials[["trial", *factors]], on="trial", how="inner")
    steady = tables.series[tables.series["steady"].astype(bool)]
    seconds = {
        (str(trial), str(phase), int(step)): group
        for (trial, phase, step), group in grouped(steady, STEP)
    }
    rows: list[dict[str, Any]] = []
    for _, setting in grouped(rates, [*factors, "phase", "step"]):
        values = setting["value"].to_numpy(dtype=float)
        middle, several = float(np.median(values)), len(values) > 1
        spread = float(values.std(ddof=1) / values.mean()) if several and middle > 0 else math.nan
        for row in records(setting):
            key = (str(row["trial"]), str(row["phase"]), int(row["step"]))
            measure = str(row["measure"])
            rows.append(
                {
                    **dict(zip(STEP, key, strict=True)),
                    "measure": measure,
                    **asdict(_series(measure, seconds.get(key))),
                    "repeats": len(values),
                    "cv_repeats": spread,
                    "of_repeats": row["value"] / middle if several and middle > 0 else math.nan,
                }
            )
    return sorted(rows, key=lambda row: tuple(row[k] for k in STEP))


def _series(measure: str, seconds: pd.DataFrame | None) -> Series:
    if seconds is None:
        return of_series([])
    ordered = seconds.sort_values("second")
    return of_series(ordered[measure].to_list(), float(ordered["operations"].mean()))


def canary_ratios(canary: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """Of each trial the canary that is farthest from its median over the study, as a ratio to that
    median, and its metric; none of canaries that fewer than USUAL trials have."""
    farthest: dict[str, tuple[float, str]] = {}
    rows = canary[canary["value"] > 0]
    for (metric, _), group in grouped(rows, ["metric", "taken_by"]):
        if group["trial"].nunique() < USUAL:
            continue
        ratios = group["value"] / group["value"].median()
        for trial, ratio in zip(group["trial"], ratios, strict=True):
            known = farthest.get(str(trial))
            if known is None or abs(math.log(ratio)) > abs(math.log(known[0])):
                farthest[str(trial)] = (float(ratio), str(metric))
    return farthest


def _warnings(rows: Sequence[Mapping[str, Any]]) -> Iterable[StudyWarning]:
    by_trial: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["flags"]:
            by_trial.setdefault(row["trial"], []).append(row)
    for trial, noisy in by_trial.items():
        texts: list[str] = []
        flagged = {flag for row in noisy for flag in row["flags"].split(", ")}
        for row in noisy:
            step = f", step {row['step']}" if row["step"] else ""
            parts = [_words(flag, row) for flag in row["flags"].split(", ") if flag != "canary"]
            if parts:
                texts.append(f"phase {row['phase']}{step}: {all_of(parts)}")
        if "canary" in flagged:
            texts.append(_words("canary", noisy[0]))
        remedies = [text for flag, text in REMEDIES.items() if flag in flagged]
        yield StudyWarning("noisy_trial", trial, "; ".join(texts), "; ".join(remedies))


def _words(flag: str, row: Mapping[str, Any]) -> str:
    change, off = row["drift_change"], row["of_repeats"] - 1
    texts = {
        "spread": f"seconds differ by {row['cv']:.0%} (coefficient of variation)",
        "drift": f"the rate {'rose' if change > 0 else 'fell'} by {abs(change):.0%} of its mean in "
        "its steady part",
        "autocorrelation": f"{row['seconds']} seconds are worth {row['effective_seconds']:.1f} "
        f"independent ones (autocorrelation {row['autocorrelation']:.2f})",
        "repeats": f"the rate is {abs(off):.0%} {'above' if off > 0 else 'below'} the median of "
        f"{row['repeats']} repeats",
        "canary": f"{row['canary_metric']} before it was {row['canary']:.2g} times the study's "
        "median",
    }
    return texts[flag]
