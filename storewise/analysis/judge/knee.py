"""The knee of latency over throughput, and how long operations wait before they begin.

Up to the knee more load brings more throughput, beyond it mostly more waiting. It is the step with
the greatest *power*, throughput over mean response time (Kleinrock, "Power and deterministic rules
of thumb for probabilistic problems in computer communications", ICC 1979): at that step one percent
more throughput costs one percent more time, as the straight line from the origin touches the curve
there. Unlike the point of greatest curvature, which depends on how the axes are scaled, it has a
meaning of its own; that point, Kneedle without smoothing (Satopaa, Albrecht, Irwin & Raghavan,
ICDCS Workshops 2011), stands beside it. Both are measured steps: nothing is interpolated.

Of a closed loop the response time follows from the throughput by Little's law, so its errors go the
other way by the same share, and power errs by twice as much; those of an open loop are taken as
independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import Floats, grouped, records
from storewise.analysis.model.columns import ALL, OTHER
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.stats.intervals import LEVEL, RESAMPLES, SEED

#: Steps from which on one of them can be a knee between others.
MIN_STEPS = 3
#: What `response` compares.
STATISTICS = ("mean", "p50", "p95", "p99")
OPERATIONS = "operations_per_s"
#: What a knee is made of.
MEASURES = (OPERATIONS, "response_mean", "response_p99")

KNEE_COLUMNS = (
    *("phase", OTHER, "planned", "loop", "load", "steps", "lowest", "highest"),
    *("knee", "knee_low", "knee_high", "throughput", "throughput_low", "throughput_high"),
    *("latency", "latency_low", "latency_high", "latency_p99", "power"),
    *("saturation", "saturation_low", "saturation_high", "saturation_load"),
    *("kneedle", "n", "resampled", "flags", "reason"),
)
RESPONSE_COLUMNS = (
    *("phase", "step", "operation", "clients", "rate", OTHER),
    *("statistic", "service", "response", "ratio", "n", "unit"),
)


@dataclass(frozen=True, slots=True)
class Knee:
    """Places (from 0) of the step with the greatest power, of the one with the greatest
    throughput, and of Kneedle's; `share` is how often a resample has its knee at each step (empty
    without errors)."""

    power: int
    saturation: int
    kneedle: int
    share: tuple[float, ...]


def find(
    throughput: Sequence[float],
    latency: Sequence[float],
    *,
    errors: Sequence[tuple[float, float]] | None = None,
    closed: bool = False,
) -> Knee:
    """The knee of steps in the order of their load.

    `errors` are the standard errors of the logarithms of throughput and latency of each step.
    Raises ValueError for fewer than MIN_STEPS steps, or values that are not positive.
    """
    x, t = np.asarray(throughput, dtype=float), np.asarray(latency, dtype=float)
    if len(x) != len(t) or len(x) < MIN_STEPS:
        raise ValueError(f"a knee takes {MIN_STEPS} steps or more, each with both values")
    if not (np.all(x > 0) and np.all(t > 0)):
        raise ValueError("throughput and latency are positive")
    share: tuple[float, ...] = ()
    if errors is not None and np.all(np.isfinite(np.asarray(errors, dtype=float))):
        of_x, of_t = np.asarray(errors, dtype=float).T
        rng = np.random.default_rng(SEED)
        first = rng.standard_normal((RESAMPLES, len(x)))
        second = -first if closed else rng.standard_normal((RESAMPLES, len(x)))
        drawn = np.log(x) - np.log(t) + first * of_x - second * of_t
        counts = np.bincount(np.argmax(drawn, axis=1), minlength=len(x))
        share = tuple(float(c) / RESAMPLES for c in counts)
    return Knee(int(np.argmax(x / t)), int(np.argmax(x)), kneedle(x, t), share)


def kneedle(throughput: Floats, latency: Floats) -> int:
    """The place of the step that lies farthest below the line from the first step to the one with
    the greatest throughput, both axes scaled to 1."""
    last = int(np.argmax(throughput))
    x, t = throughput[: last + 1], latency[: last + 1]
    if last == 0 or np.ptp(x) == 0 or np.ptp(t) == 0:
        return last
    below = (x - x.min()) / np.ptp(x) - (t - t.min()) / np.ptp(t)
    return int(np.argmax(below))


def ends(share: Sequence[float]) -> tuple[int, int]:
    """The first and the last step of the middle 95 % of the resamples' knees."""
    total = np.cumsum(share)
    tail = (1 - LEVEL) / 2
    low = int(np.searchsorted(total, tail, side="right"))
    high = int(np.searchsorted(total, 1 - tail - 1e-12))
    return low, min(high, len(share) - 1)


def knees(tables: Tables) -> Judged:
    """Table `knees`: factors, then KNEE_COLUMNS; one row per curve of steps with rising load.

    `loop` is "closed" (load: `clients`) or "open" (load: `rate` in operations/s); rates are in
    operations/s, times the mean response time in s (`latency_p99`: its 99th percentile), `power` in
    operations/s^2. `knee_low` and `knee_high` are the loads between which the knee lies in 95 % of
    the resamples, of two repeats or more. `flags`: "highest step" (the knee may lie beyond),
    "lowest step" (it may lie before), "saturation not reached" (the throughput is highest at the
    last step). `reason` says why there is no knee. Searches are left out: their steps are no curve.
    """
    factors = list(tables.results.factors)
    wide = list(_steps(tables, factors))
    rows: list[dict[str, Any]] = []
    for loop, load, held in (("closed", "clients", []), ("open", "rate", ["clients"])):
        of_loop = [step for step in wide if math.isnan(step["rate"]) == (loop == "closed")]
        table = pd.DataFrame([s for s in of_loop if not math.isnan(s[load])])
        keys = [*factors, "phase", OTHER, "planned", *held]
        for levels, group in grouped(table, keys):
            steps = records(group.sort_values(load, kind="stable").drop_duplicates(load))
            if len(steps) > 1:
                named = dict(zip(keys, levels, strict=True))
                rows.append({**named, **_row(steps, loop, load)})
    return Judged(pd.DataFrame(rows, columns=[*factors, *KNEE_COLUMNS]))


def _steps(tables: Tables, factors: Sequence[str]) -> Iterable[dict[str, Any]]:
    """One dict per step of all operations together: factors, its parameters, and of throughput,
    mean and p99 of the response time the row of `steps` (None where there is none)."""
    rows = tables.steps
    rows = rows[
        (rows["operation"] == ALL)
        & rows["measure"].isin(MEASURES)
        & ~rows["phase"].isin(set(tables.searches["phase"]))
    ]
    keys = [*factors, "phase", "step", "clients", "rate", "planned", OTHER]
    for levels, group in grouped(rows, keys):
        step = dict(zip(keys, levels, strict=True))
        for name in ("clients", "rate"):
            step[name] = math.nan if step[name] is None else float(step[name])
        by_measure = {row["measure"]: row for row in records(group)}
        yield {**step, **{name: by_measure.get(name) for name in MEASURES}}


def _row(steps: Sequence[dict[str, Any]], loop: str, load: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "loop": loop,
        "load": load,
        "steps": len(steps),
        "lowest": steps[0][load],
        "highest": steps[-1][load],
        "resampled": "none",
        "flags": "",
        "reason": "",
    }
    rates = [step[OPERATIONS] for step in steps]
    times = [step["response_mean"] for step in steps]
    if len(steps) < MIN_STEPS:
        return {**row, "reason": f"{len(steps)} steps; a knee between others takes {MIN_STEPS}"}
    if any(one is None or not one["mean"] > 0 for one in (*rates, *times)):
        return {**row, "reason": "a step has no throughput or no response times"}
    repeated = all(one["n"] > 1 and one["error"] >= 0 for one in (*rates, *times))
    errors = [(x["error"], t["error"]) for x, t in zip(rates, times, strict=True)]
    knee = find(
        [one["mean"] for one in rates],
        [one["mean"] for one in times],
        errors=errors if repeated else None,
        closed=loop == "closed",
    )
    best, most = knee.power, knee.saturation
    tail = steps[best]["response_p99"]
    flags = {
        "lowest step": best == 0,
        "highest step": best == len(steps) - 1,
        "saturation not reached": most == len(steps) - 1,
    }
    row |= {
        "knee": steps[best][load],
        **_interval("throughput", rates[best]),
        **_interval("latency", times[best]),
        "latency_p99": tail["mean"] if tail is not None else math.nan,
        "power": rates[best]["mean"] / times[best]["mean"],
        **_interval("saturation", rates[most]),
        "saturation_load": steps[most][load],
        "kneedle": steps[knee.kneedle][load],
        "n": min(one["n"] for one in rates),
        "flags": ", ".join(name for name, true in flags.items() if true),
    }
    if knee.share:
        low, high = ends(knee.share)
        row |= {"knee_low": steps[low][load], "knee_high": steps[high][load]}
        row["resampled"] = "repeats"
    return row


def _interval(name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {name: row["mean"], f"{name}_low": row["low"], f"{name}_high": row["high"]}


def response(tables: Tables) -> Judged:
    """Table `response` of open loops: factors, then RESPONSE_COLUMNS.

    `ratio` is response over service time. Where it is far above 1, operations waited for others
    before they could begin, which the service time, all that a client notices that waits for each
    answer, does not show (coordinated omission: Tene, "How NOT to measure latency", 2013;
    Schroeder, Wierman & Harchol-Balter, "Open versus closed", NSDI 2006). Times are in s.
    """
    factors = list(tables.results.factors)
    steps = tables.steps
    keys = [*factors, "phase", "step", "operation", "clients", "rate", OTHER]
    rows = []
    for levels, group in grouped(steps[steps["rate"].notna()], keys):
        values = {row["measure"]: row for row in records(group)}
        for name in STATISTICS:
            service, waited = values.get(f"service_{name}"), values.get(f"response_{name}")
            if service is None or waited is None or not service["mean"] > 0:
                continue
            rows.append(
                {
                    **dict(zip(keys, levels, strict=True)),
                    "statistic": name,
                    "service": service["mean"],
                    "response": waited["mean"],
                    "ratio": waited["mean"] / service["mean"],
                    "n": waited["n"],
                    "unit": waited["unit"],
                }
            )
    return Judged(pd.DataFrame(rows, columns=[*factors, *RESPONSE_COLUMNS]))
