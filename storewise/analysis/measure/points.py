"""All measured values of a study, one per trial, phase, step and measure, with all levels.

Levels are the trial's factors, the parameters of the phase with what the step changed, and
`clients`, the total number of client threads. So a curve can have any varied level as its x axis,
whether it is a factor (several trials) or a step (one trial).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
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
    """One value of one step of one trial, in s or 1/s; the engine is one of the levels.

    `operation` is ALL for figures over all operations.
    """

    phase: str
    measure: str
    value: float
    operation: str = ALL
    levels: Mapping[str, Any] = field(default_factory=dict)


def points(results: Results, measures: pd.DataFrame) -> list[Point]:
    """All points of a study: its rates, and the mean service time in s of each operation."""
    names = list(results.factors)
    factors = {row["trial"]: row for row in records(results.trials[["trial", *names]])}
    steps = steps_of(results.parts)
    wanted = (measures["operation"] == ALL) & measures["measure"].isin(RATES)
    wanted |= measures["measure"] == "mean_service_time"
    found = []
    for row in records(measures[wanted & np.isfinite(measures["value"])]):
        levels = {name: factors[row["trial"]][name] for name in names}
        parameters = dict(enumerate(steps.get((row["trial"], row["phase"]), ())))
        levels = levels_of(levels, parameters.get(row["step"], {}))
        found.append(Point(row["phase"], row["measure"], row["value"], row["operation"], levels))
    return found


def levels_of(factors: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """All levels of a step: factors, then the step's parameters, then the number of clients."""
    levels = {
        name: _plain(value)
        for given in (factors, step)
        for name, value in given.items()
        if "." not in name and (isinstance(value, list | dict) or not missing(value))
    }
    levels.setdefault(CLIENTS, math.prod(int(levels.get(name, 1)) for name in _OF_CLIENTS))
    return levels


def _plain(value: Any) -> Any:
    """A list with one item as that item; conditions, such as a slowed node, in words."""
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    if isinstance(value, Mapping):
        more = ", ".join(f"{k} {v}" for k, v in value.items() if v not in (None, [], ()))
        return f"({more})"
    return value


def within(levels: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether levels match `wanted`: a value, one of a list, or {from:, to:} (both included)."""
    return all(name in levels and _as(levels[name], want) for name, want in wanted.items())


def _as(level: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        low, high = wanted.get("from", -math.inf), wanted.get("to", math.inf)
        return isinstance(level, int | float) and bool(low <= level <= high)
    if isinstance(wanted, list):
        return any(_as(level, one) for one in wanted)
    try:
        return math.isclose(float(level), float(wanted), rel_tol=1e-9)
    except (TypeError, ValueError):
        return str(level) == str(wanted)


def geometric(values: Iterable[float]) -> float:
    """Geometric mean of positive values, as in the tables over repeats; else arithmetic mean."""
    numbers = list(values)
    if all(v > 0 for v in numbers):
        return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))
    return math.fsum(numbers) / len(numbers)
