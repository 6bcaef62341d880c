"""Steps of a phase: what was reached with how many clients, at which rate, in how many operations.

A step is known by its parameters, not by its number: those of a search differ between repeats.
Rates per operation follow `throughput`: the steady part where a step is long enough, else all that
followed the warm-up. The target's share that was served is the number of operations that succeeded
over the number that was meant to begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import grouped, missing, records
from storewise.analysis.files.parts import Part
from storewise.analysis.measure.latency import NS
from storewise.analysis.measure.latency_intervals import about, of_operations, of_repeats
from storewise.analysis.measure.repeats import over_repeats
from storewise.analysis.measure.throughput import STEP, counters, durations
from storewise.analysis.model.results import Key, Results
from storewise.metrics.hdr import percentiles
from storewise.metrics.sparse_histogram import Counted

#: Operation of rows that are about all operations together.
ALL = "all"
#: What a step was told: client threads in all, target rate (operations/s), operations.
PARAMETERS = ("clients", "rate", "planned")
PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0}
UNITS = {"operations_per_s": "operations/s", "runtime": "s", "served": "1", "errors": "1"}
#: What else the steps of a phase differ in, in words; empty where there is nothing.
OTHER = "other"
_KEYS = ["phase", "step", "operation", *PARAMETERS, OTHER, "measure"]


def step_parameters(parts: Iterable[Part]) -> pd.DataFrame:
    """The parameters of each step of phases that have several, or a target rate.

    Columns: trial, phase, step, then PARAMETERS, missing where a step was not told, and OTHER.
    """
    rows = []
    seen = set()
    for part in parts:
        steps = part.conditions.get("steps")
        key = (part.trial, part.phase)
        if part.worker is None or not isinstance(steps, list) or key in seen:
            continue
        seen.add(key)
        if len(steps) < 2 and not any(step.get("rate") for step in steps):
            continue
        for number, (step, other) in enumerate(zip(steps, _others(steps), strict=True)):
            rows.append(
                {
                    "trial": part.trial,
                    "phase": part.phase,
                    "step": number,
                    "clients": step.get("clients"),
                    "rate": step.get("rate"),
                    "planned": step.get("operations"),
                    OTHER: other,
                }
            )
    found = pd.DataFrame(rows, columns=[*STEP, *PARAMETERS, OTHER])
    return found.astype(dict.fromkeys(PARAMETERS, float))


#: Told by columns of their own.
_TOLD = ("clients", "threads", "rate", "operations", "search")


def _others(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each step of a phase, in words, what tells it from the others beside PARAMETERS."""
    names = [name for name in steps[0] if name not in _TOLD]
    names = [n for n in names if any(step.get(n) != steps[0].get(n) for step in steps)]
    return [", ".join(_words(name, step.get(name)) for name in names) for step in steps]


def _words(name: str, value: Any) -> str:
    if value is None or value is False:
        return f"no {name}"
    if value is True:
        return name
    if isinstance(value, Mapping):
        inside = " ".join(f"{k} {v}" for k, v in value.items() if v not in (None, [], {}))
        return f"{name} ({inside})"
    return f"{name} {value}"


def measured_steps(
    samples: pd.DataFrame, by_second: pd.DataFrame, parameters: pd.DataFrame
) -> pd.DataFrame:
    """One row per trial, step, operation (and all together) and measure: value and unit.

    `by_second` is `throughput.series` of the same samples. Measures: UNITS.
    """
    columns = [*STEP, "operation", *PARAMETERS, OTHER, "measure", "value", "unit"]
    if parameters.empty:
        return pd.DataFrame(columns=columns)
    told = {tuple(row[k] for k in STEP): row for row in records(parameters)}
    seconds = dict(list(by_second.groupby(STEP, observed=True)))
    totals = {m: _by_operation(samples, m, per_second=False) for m in ("operations", "errors")}
    timed = _by_operation(samples, "operations", per_second=True)
    intended = samples[samples["metric"] == "intended_operations"]
    meant = intended.groupby(STEP, observed=True)["value"].sum()
    rows: list[dict[str, Any]] = []
    for step in records(durations(samples)):
        key = (str(step["trial"]), str(step["phase"]), step["step"])
        if key not in told:
            continue
        operations = totals["operations"].get(key, pd.Series(dtype=float))
        errors = totals["errors"].get(key, pd.Series(dtype=float))
        rates = _rates(seconds[key], timed.get(key), operations, float(step["wall"]))
        found = {
            ALL: {
                "operations_per_s": float(sum(rates.values())),
                "runtime": float(step["wall"]),
                "errors": float(errors.sum()),
            },
            **{
                str(name): {"operations_per_s": rate, "errors": float(errors.get(name, 0.0))}
                for name, rate in rates.items()
            },
        }
        if meant.get(key, 0.0) > 0:
            found[ALL]["served"] = float(operations.sum()) / float(meant.loc[key])
        rows += [
            {
                **told[key],
                "operation": operation,
                "measure": measure,
                "value": value,
                "unit": UNITS[measure],
            }
            for operation, values in found.items()
            for measure, value in values.items()
        ]
    return pd.DataFrame(rows, columns=columns)


def _by_operation(
    samples: pd.DataFrame, metric: str, *, per_second: bool
) -> dict[tuple[Any, ...], pd.Series]:
    """Sums over workers by (trial, phase, step), indexed by operation (and second)."""
    rows = counters(samples, metric, per_second=per_second)
    inner = ["operation", "second"] if per_second else ["operation"]
    return {
        (str(trial), str(phase), step): group.groupby(inner, observed=True)["value"].sum()
        for (trial, phase, step), group in grouped(rows, STEP)
    }


def _rates(
    seconds: pd.DataFrame, timed: pd.Series | None, totals: pd.Series, wall: float
) -> dict[str, float]:
    """Operations/s of each operation."""
    steady = set(seconds.loc[seconds["steady"], "second"])
    warm = set(seconds.loc[seconds["warmup"], "second"])
    left = wall - float(seconds.loc[seconds["warmup"], "length"].sum())
    if left <= 0:
        warm, left = set(), wall
    found = {}
    for name, total in totals.items():
        own = None
        if timed is not None and name in timed.index:
            own = timed.xs(name, level="operation")
        if steady and own is not None:
            found[str(name)] = float(own[own.index.isin(steady)].sum()) / len(steady)
        else:
            warmed = float(own[own.index.isin(warm)].sum()) if own is not None else 0.0
            found[str(name)] = (float(total) - warmed) / left
    return found


def steps(
    measured: pd.DataFrame,
    parameters: pd.DataFrame,
    histograms: Mapping[Key, Counted],
    results: Results,
) -> pd.DataFrame:
    """Over repeats: factors' levels, phase, step, operation, PARAMETERS, OTHER, measure, unit, n,
    mean, low, high, resampled, error, freedom.

    Times (``response_mean``, ``service_p99`` ...) are read from the histograms of all repeats
    together, in s; their intervals are those of `latencyintervals`.
    """
    columns = [
        *results.factors,
        *_KEYS,
        *("unit", "n", "mean", "low", "high", "resampled", "error", "freedom"),
    ]
    if measured.empty:
        return pd.DataFrame(columns=columns)
    rates = over_repeats(measured, results, _KEYS).reindex(columns=columns)
    times = pd.DataFrame(_times(parameters, histograms, results), columns=columns)
    return pd.concat([rates, times], ignore_index=True) if len(times) else rates


def _times(
    parameters: pd.DataFrame, histograms: Mapping[Key, Counted], results: Results
) -> list[dict[str, Any]]:
    told = {tuple(row[k] for k in STEP): row for row in records(parameters)}
    levels = {row["trial"]: row for row in records(results.trials)}
    merged: dict[tuple[Any, ...], Any] = {}
    single: dict[tuple[Any, ...], dict[str, Any]] = {}
    names = [*results.factors, "phase", "step", "operation", *PARAMETERS, OTHER, "time"]
    for (trial, phase, step, operation, time), histogram in histograms.items():
        row = told.get((trial, phase, step))
        if row is None or trial not in levels:
            continue
        values = {**levels[trial], **row, "time": time}
        for one in (operation, ALL):
            values["operation"] = one
            # One nan does not equal another, so that repeats would stay apart.
            key = tuple(None if missing(values[n]) else values[n] for n in names)
            merged.setdefault(key, Counted()).add(histogram)
            single.setdefault(key, {}).setdefault(trial, Counted()).add(histogram)
    each = [
        {**dict(zip(names, key, strict=True)), "trial": trial, "measure": measure, "value": value}
        for key, by_trial in single.items()
        if len(by_trial) > 1
        for trial, histogram in by_trial.items()
        for measure, value in _times_of(histogram, key[-1]).items()
    ]
    table = pd.DataFrame(each).drop(columns=list(results.factors)) if each else pd.DataFrame()
    relative = of_repeats(table.assign(unit="s"), results, _KEYS)
    rows = []
    for key, histogram in merged.items():
        if not histogram.get_total_count():
            continue
        place = dict(zip(names, key, strict=True))
        time = place.pop("time")
        n = len(single[key])
        for measure, value in _times_of(histogram, time).items():
            known = about(value, relative.get((*key[:-1], measure)))
            percentile = PERCENTILES.get(measure.rpartition("_")[2])
            if n == 1 and percentile is not None:
                known = of_operations(histogram, percentile, NS)
            rows.append({**place, "measure": measure, "unit": "s", "n": n, "mean": value, **known})
    return rows


def _times_of(histogram: Any, time: str) -> dict[str, float]:
    """Percentiles and mean of a histogram in s by measure; none of an empty one."""
    if not histogram.get_total_count():
        return {}
    found = percentiles(histogram, list(PERCENTILES.values()))
    values = {f"{time}_{name}": found[p] / NS for name, p in PERCENTILES.items()}
    return {**values, f"{time}_mean": histogram.get_mean_value() / NS}


def searches(results: Results) -> pd.DataFrame:
    """What searches for the highest rate found, one row per trial and search.

    Columns: trial, phase, first_step, clients, percentile, limit_ms, time, steps, rate
    (operations/s; missing where none met the limit), verified, bounded.
    """
    columns = ["first_step", "percentile", "limit_ms", "time", "rate", "verified", "bounded"]
    rows = []
    for part in results.parts:
        if part.worker != 0:
            continue
        for one in part.conditions.get("searches") or []:
            at = one["first_step"]
            rows.append(
                {
                    "trial": part.trial,
                    "phase": part.phase,
                    "clients": part.conditions["steps"][at]["clients"],
                    "steps": len(one["tried"]),
                    **{name: one[name] for name in columns},
                }
            )
    order = ["trial", "phase", "first_step", "clients", *columns[1:4], "steps", *columns[4:]]
    return pd.DataFrame(rows, columns=order)


def highest_rates(found: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The answers of searches over repeats: factors' levels, phase, clients, percentile, limit_ms,
    time, n, mean, low, high, resampled; in operations/s. Trials without an answer are left out."""
    keys = ["phase", "clients", "percentile", "limit_ms", "time", "measure"]
    answered = found[found["rate"].notna()]
    table = answered.assign(
        measure="highest_rate", unit="operations/s", value=answered["rate"].astype(float)
    )
    return over_repeats(table, results, keys)


def wide(found: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """`steps` with one row per step and operation and one column per measure (its mean), and
    `low` and `high` of the throughput."""
    keys = [*factors, "phase", "step", "operation", *PARAMETERS, OTHER]
    rows = []
    for key, group in grouped(found, keys):
        row = dict(zip(keys, key, strict=True))
        row |= dict(zip(group["measure"], group["mean"], strict=True))
        main = group[group["measure"] == "operations_per_s"]
        for name in ("low", "high", "n", "resampled"):
            row[name] = main[name].iloc[0] if len(main) else None
        rows.append(row)
    return pd.DataFrame(rows, columns=None if rows else [*keys, "low", "high", "n", "resampled"])
