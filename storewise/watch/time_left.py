"""How long a run will still take, from the trials that it has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storewise.errors import ResultError
from storewise.metrics.schema import read_conditions

#: Draws, and what share of them the range holds.
DRAWS = 500
RANGE = (0.05, 0.95)
SEED = 20190601


@dataclass(frozen=True, slots=True)
class Left:
    """Seconds to the end of the last trial; None where that cannot be told, with the reason.

    `low` and `high` are None where only one trial was measured.
    """

    seconds: float | None
    low: float | None
    high: float | None
    reason: str


def duration_of(verified: Path, at: float) -> float | None:
    """Seconds from the opening of a trial's session to its end, written `at` (Unix time).

    None where the part of its verification does not tell when it was opened.
    """
    try:
        opened = read_conditions(verified).get("opened")
    except ResultError:
        return None
    if not isinstance(opened, int | float) or at < opened:
        return None
    return at - opened


def time_left(
    durations: Mapping[str, float],
    engines: Mapping[str, str],
    waiting: Sequence[str],
    running: Mapping[str, float],
    live_sessions: int,
) -> Left:
    """The time that trials still take, `live_sessions` at a time.

    `durations` are those of measured trials, in s; `engines` names the engine of each trial;
    `running` has the age of each trial that is being measured. Each trial is expected to take as
    long as those of its engine, or as all where none of its engine was measured. The range is the
    bootstrap's: what was measured is drawn anew, then a duration for each trial (Efron and
    Tibshirani 1993, chapter 25). It knows nothing of what differs between the settings of an
    engine that were not measured yet.
    """
    todo = [*waiting, *running]
    if not todo:
        return Left(0.0, 0.0, 0.0, "")
    if not durations:
        return Left(None, None, None, "no trial has been measured yet")
    every = np.array(list(durations.values()))
    rng = np.random.default_rng(SEED)
    expected, drawn = 0.0, np.zeros(DRAWS)
    others = []
    for engine in dict.fromkeys(engines.get(name, "") for name in todo):
        same = [d for name, d in durations.items() if engines.get(name, "") == engine]
        known = np.array(same) if same else every
        if not same:
            others.append(engine or "an unknown engine")
        ages = np.array([running.get(n, 0.0) for n in todo if engines.get(n, "") == engine])
        expected += float(np.maximum(known.mean() - ages, 0.0).sum())
        again = known[rng.integers(0, len(known), (DRAWS, len(known)))]
        places = rng.integers(0, len(known), (DRAWS, len(ages)))
        each = np.take_along_axis(again, places, axis=1) - ages
        drawn += np.maximum(each, 0.0).sum(axis=1)
    at_once = max(1, live_sessions)
    count = "one trial" if len(every) == 1 else f"{len(every)} trials"
    source = f"from {count}" + (f", none of {' or '.join(others)}" if others else "")
    if expected == 0:
        return Left(None, None, None, "what runs takes longer than trials did before")
    if len(every) < 2:
        return Left(expected / at_once, None, None, source)
    low, high = np.quantile(drawn / at_once, RANGE)
    return Left(expected / at_once, float(low), float(high), source)
