"""The time left of a run, from the trials that it has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from storewise.errors import ResultError
from storewise.metrics.schema import read_conditions


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
) -> float | None:
    """Seconds until all trials are measured, `live_sessions` at a time; None if unknown.

    `durations` are those of measured trials, in s; `engines` maps trials to engines; `running` maps
    each running trial to its age in s. A trial is expected to take as long as those of its engine,
    or of all engines if none of its own was measured.
    """
    if not durations and (waiting or running):
        return None
    measured: dict[str, list[float]] = {}
    for name, seconds in durations.items():
        measured.setdefault(engines.get(name, ""), []).append(seconds)
    means = {name: fmean(seconds) for name, seconds in measured.items()}
    every = fmean(durations.values()) if durations else 0.0
    ages = {**dict.fromkeys(waiting, 0.0), **running}
    left = sum(max(0.0, means.get(engines.get(n, ""), every) - age) for n, age in ages.items())
    # What runs may take longer than trials did before.
    return left / max(1, min(live_sessions, len(ages))) if left or not ages else None
