"""Steps of a phase: number of clients, target rate, number of operations.

A step is identified by its parameters, not by its number, which differs between repeats of a
search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.files.parts import Part, steps_of
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.model.columns import OTHER, PARAMETERS


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


#: Parameters with a column of their own, which OTHER leaves out.
_IN_COLUMNS = ("clients", "threads", "rate", "operations", "search")


def _others(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """OTHER of each step of a phase: the parameters that vary, except PARAMETERS, in words."""
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
