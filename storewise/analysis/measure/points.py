"""What a study measured, one value for each trial, phase, step and measure, with all levels.

Levels are the trial's factors, the parameters of the phase with what the step changed, and
`clients`, the client threads in all. So a curve can run over anything that varied, whether it was
a factor (several trials) or a step (one trial).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import missing, records
from storewise.analysis.measure.throughput import counters
from storewise.analysis.model.results import Results

#: Derived level: client threads over all processes of all workers.
CLIENTS = "clients"
_OF_CLIENTS = ("workers", "processes", "threads")
_STEP = ["trial", "phase", "step"]


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one step of one trial, in our units (s, 1/s)."""

    engine: str
    phase: str
    step: int
    measure: str
    value: float
    operation: str = ""
    levels: Mapping[str, Any] = field(default_factory=dict)


def points(results: Results, mean_times: pd.DataFrame, throughput: pd.DataFrame) -> list[Point]:
    """All points of a study.

    `throughput` is `throughput.throughput`. Beside its measures there is `mean_service_time` in s
    of each operation, as `mean_times` has it.
    """
    factors = {row["trial"]: _factors(row, results.factors) for row in records(results.trials)}
    params: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for part in results.parts:
        steps = part.conditions.get("steps")
        if isinstance(steps, list) and part.worker is not None:
            params.setdefault((part.trial, part.phase), steps)
    found = []
    for row in [*records(throughput), *records(mean_times)]:
        trial, phase, step = str(row["trial"]), str(row["phase"]), int(row["step"])
        if trial not in factors or not math.isfinite(row["value"]):
            continue
        steps = params.get((trial, phase), [])
        own = steps[step] if step < len(steps) else {}
        found.append(
            Point(
                engine=str(factors[trial].get("engine", "")),
                phase=phase,
                step=step,
                measure=str(row["measure"]),
                value=float(row["value"]),
                operation=str(row.get("operation", "")),
                levels=levels_of(factors[trial], own),
            )
        )
    return found


def levels_of(factors: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """All levels of a step: factors, then the step's parameters, then the number of clients."""
    levels = {k: v for k, v in factors.items() if "." not in k}
    levels |= {k: _plain(v) for k, v in step.items() if not missing_level(v)}
    if missing_level(levels.get(CLIENTS)):
        levels[CLIENTS] = math.prod(int(levels.get(name, 1)) for name in _OF_CLIENTS)
    return levels


def _plain(value: Any) -> Any:
    """A list of one as that one; conditions, such as a slowed node, in words."""
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    if isinstance(value, Mapping):
        more = ", ".join(f"{k} {v}" for k, v in value.items() if v not in (None, [], ()))
        return f"({more})"
    return value


def missing_level(value: Any) -> bool:
    return not isinstance(value, list | dict | str) and missing(value)


def _factors(row: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: row[name] for name in names if not missing(row[name])}


def mean_times(samples: pd.DataFrame) -> pd.DataFrame:
    """`mean_service_time` in s per trial, phase, step and operation: its total time in the store's
    calls over its number, which is what closed-loop benchmarks call latency.

    Columns: trial, phase, step, operation, measure, value. `samples` are those of whole phases.
    """
    totals = {
        metric: counters(samples, metric, per_second=False)
        .groupby([*_STEP, "operation"], observed=True)["value"]
        .sum()
        for metric in ("operations", "service_time_sum")
    }
    table = pd.DataFrame(totals).dropna()
    table = table[table["operations"] > 0].reset_index()
    value = table["service_time_sum"] / table["operations"]
    return table[[*_STEP, "operation"]].assign(measure="mean_service_time", value=value)


def same_level(ours: Any, theirs: Any) -> bool:
    """Whether two levels are the same, numbers as numbers."""
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9)
    except (TypeError, ValueError):
        return str(ours) == str(theirs)


def within(levels: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether levels are as wanted: one value, one of a list, or {from:, to:} (both included)."""
    for name, want in wanted.items():
        if name not in levels:
            return False
        have = levels[name]
        if isinstance(want, Mapping):
            low, high = want.get("from", -math.inf), want.get("to", math.inf)
            if not isinstance(have, int | float) or not low <= have <= high:
                return False
        elif isinstance(want, list):
            if not any(same_level(have, one) for one in want):
                return False
        elif not same_level(have, want):
            return False
    return True


def geometric(values: Iterable[float]) -> float:
    """Geometric mean of positive values, as the tables over repeats have it; else the plain one."""
    found = list(values)
    if all(v > 0 for v in found):
        return math.exp(math.fsum(map(math.log, found)) / len(found))
    return math.fsum(found) / len(found)
