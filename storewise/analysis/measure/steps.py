"""Steps of a phase: what was reached with how many clients, at which rate, in how many operations.

A step is known by its parameters, not by its number: those of a search differ between repeats.
Rates per operation follow `throughput`: the steady part where a step is long enough, else all that
followed the warm-up. The target's share that was served is the number of operations that succeeded
over the number that was meant to begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import grouped, key_of, records
from storewise.analysis.files.parts import Part, steps_of
from storewise.analysis.measure.latency_intervals import over_trials
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.measure.repeats import ESTIMATE, over_repeats
from storewise.analysis.model.results import Key, Results
from storewise.metrics.hdr import Counted

#: Operation of rows that are about all operations together.
ALL = "all"
#: Of a step: client threads in all, target rate (operations/s), operations.
PARAMETERS = ("clients", "rate", "planned")
#: Percentiles of a time, and its mean.
TIMES: Mapping[str, float | None] = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "mean": None}
UNITS = {"operations_per_s": "operations/s", "runtime": "s", "served": "1", "errors": "1"}
#: What else the steps of a phase differ in, in words; empty where there is nothing.
OTHER = "other"
_STEP_KEYS = ["phase", "step", "operation", *PARAMETERS, OTHER]
_KEYS = [*_STEP_KEYS, "measure"]
_TIME_KEYS = [*_STEP_KEYS, "time"]


def step_parameters(parts: Iterable[Part]) -> pd.DataFrame:
    """The parameters of each step of phases that have several, or a target rate.

    Columns: trial, phase, step, then PARAMETERS, missing where a step has none, and OTHER.
    """
    rows = [
        (*phase, number, step.get("clients"), step.get("rate"), step.get("operations"), other)
        for phase, steps in steps_of(parts).items()
        if len(steps) > 1 or any(step.get("rate") for step in steps)
        for number, (step, other) in enumerate(zip(steps, _others(steps), strict=True))
    ]
    table = pd.DataFrame(rows, columns=[*STEP, *PARAMETERS, OTHER])
    return table.astype(dict.fromkeys(PARAMETERS, float))


#: What has a column of its own.
_IN_COLUMNS = ("clients", "threads", "rate", "operations", "search")


def _others(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each step of a phase, in words, what tells it from the others beside PARAMETERS."""
    names = [name for name in steps[0] if name not in _IN_COLUMNS]
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


def measured_steps(samples: Reduction, parameters: pd.DataFrame) -> pd.DataFrame:
    """One row per trial, step, operation (and all together) and measure: value and unit.

    Measures: UNITS.
    """
    table = samples.table("FROM step_measures").merge(parameters, on=STEP)
    table = table.assign(unit=table["measure"].map(UNITS))
    return table[[*STEP, "operation", *PARAMETERS, OTHER, "measure", "value", "unit"]]


def steps(
    measured: pd.DataFrame,
    parameters: pd.DataFrame,
    histograms: Mapping[Key, Counted],
    results: Results,
) -> pd.DataFrame:
    """Over repeats: factors' levels, phase, step, operation, PARAMETERS, OTHER, measure, unit, n,
    mean, low, high, resampled, error, freedom.

    Times (``response_mean``, ``service_p99`` ...) are read from the histograms of all repeats
    together, in s; their intervals are those of `latency_intervals`.
    """
    columns = [*results.factors, *_KEYS, "unit", *ESTIMATE, "error", "freedom"]
    if measured.empty:
        return pd.DataFrame(columns=columns)
    rates = over_repeats(measured, results, _KEYS).reindex(columns=columns)
    times = pd.DataFrame(
        over_trials(
            _times(parameters, histograms, results),
            [*results.factors, *_TIME_KEYS],
            TIMES,
            results,
        )
    )
    if times.empty:
        return rates
    times = times.assign(measure=times["time"] + "_" + times["figure"], unit="s")
    times = times.rename(columns={"value": "mean"}).reindex(columns=columns)
    return pd.concat([rates, times], ignore_index=True)


def _times(
    parameters: pd.DataFrame, histograms: Mapping[Key, Counted], results: Results
) -> Iterator[tuple[tuple[Any, ...], str, Counted]]:
    """Histograms of steps with parameters, by _TIME_KEYS, of each operation and of all."""
    parameters_of = {key_of(row, STEP): row for row in records(parameters)}
    levels = {row["trial"]: row for row in records(results.trials)}
    names = [*results.factors, *_TIME_KEYS]
    for (trial, phase, step, operation, time), histogram in histograms.items():
        row = parameters_of.get((trial, phase, step))
        if row is not None and trial in levels:
            row = {**levels[trial], **row, "time": time}
            yield key_of({**row, "operation": operation}, names), trial, histogram
            yield key_of({**row, "operation": ALL}, names), trial, histogram


def searches(results: Results) -> pd.DataFrame:
    """What searches for the highest rate found, one row per trial and search.

    Columns: trial, phase, first_step, clients, percentile, limit_ms, time, steps, rate
    (operations/s; missing where none met the limit), verified, bounded.
    """
    rows = [
        {
            **search,
            "trial": part.trial,
            "phase": part.phase,
            "clients": part.conditions["steps"][search["first_step"]]["clients"],
            "steps": len(search["tried"]),
        }
        for part in results.parts
        if part.worker == 0
        for search in part.conditions.get("searches") or []
    ]
    columns = ["trial", "phase", "first_step", "clients", "percentile", "limit_ms", "time"]
    return pd.DataFrame(rows, columns=[*columns, "steps", "rate", "verified", "bounded"])


def highest_rates(searched: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The answers of searches over repeats: factors' levels, phase, clients, percentile, limit_ms,
    time, n, mean, low, high, resampled; in operations/s. Trials without an answer are left out."""
    keys = ["phase", "clients", "percentile", "limit_ms", "time", "measure"]
    answered = searched[searched["rate"].notna()]
    table = answered.assign(
        measure="highest_rate", unit="operations/s", value=answered["rate"].astype(float)
    )
    return over_repeats(table, results, keys)


def wide(table: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """`steps` with one row per step and operation and one column per measure (its mean), and
    `low` and `high` of the throughput."""
    keys = [*factors, "phase", "step", "operation", *PARAMETERS, OTHER]
    of_rate = ["low", "high", "n", "resampled"]
    rows = []
    for key, group in grouped(table, keys):
        rate = group[group["measure"] == "operations_per_s"][of_rate]
        rows.append(
            {
                **dict(zip(keys, key, strict=True)),
                **dict(zip(group["measure"], group["mean"], strict=True)),
                **(records(rate)[0] if len(rate) else dict.fromkeys(of_rate)),
            }
        )
    return pd.DataFrame(rows, columns=None if rows else [*keys, *of_rate])
