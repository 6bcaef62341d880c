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
from storewise.analysis.files.parts import steps_of
from storewise.analysis.model.columns import ALL, RATES
from storewise.analysis.model.results import Results

#: Derived level: client threads over all processes of all workers.
CLIENTS = "clients"
_OF_CLIENTS = ("workers", "processes", "threads")


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


def points(results: Results, measures: pd.DataFrame) -> list[Point]:
    """All points of a study: of its rates, and the mean service time in s of each operation."""
    factors = {
        row["trial"]: {name: row[name] for name in results.factors if not missing(row[name])}
        for row in records(results.trials)
    }
    steps = steps_of(results.parts)
    points = []
    wanted = (measures["operation"] == ALL) & measures["measure"].isin(RATES)
    wanted |= measures["measure"] == "mean_service_time"
    for row in records(measures[wanted]):
        trial, phase, step = row["trial"], row["phase"], row["step"]
        if trial not in factors or not math.isfinite(row["value"]):
            continue
        parameters = dict(enumerate(steps.get((trial, phase), []))).get(step, {})
        points.append(
            Point(
                engine=str(factors[trial].get("engine", "")),
                phase=phase,
                step=step,
                measure=row["measure"],
                value=row["value"],
                operation="" if row["operation"] == ALL else row["operation"],
                levels=levels_of(factors[trial], parameters),
            )
        )
    return points


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


def same_level(ours: Any, theirs: Any) -> bool:
    """Whether two levels are the same, numbers as numbers."""
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-9)
    except (TypeError, ValueError):
        return str(ours) == str(theirs)


def within(levels: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether levels are as wanted: one value, one of a list, or {from:, to:} (both included)."""
    return all(name in levels and _as(levels[name], want) for name, want in wanted.items())


def _as(level: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        low, high = wanted.get("from", -math.inf), wanted.get("to", math.inf)
        return isinstance(level, int | float) and bool(low <= level <= high)
    return any(same_level(level, one) for one in (wanted if isinstance(wanted, list) else [wanted]))


def geometric(values: Iterable[float]) -> float:
    """Geometric mean of positive values, as the tables over repeats have it; else the plain one."""
    numbers = list(values)
    if all(v > 0 for v in numbers):
        return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))
    return math.fsum(numbers) / len(numbers)
