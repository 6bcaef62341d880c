"""The plan of a run: its trials, and about how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storewise.errors import ResultError
from storewise.estimate.estimate import estimate
from storewise.study.study import Study
from storewise.study.trial import Trial
from storewise.watch.render import duration
from storewise.watch.snapshot import Seen, look
from storewise.watch.time_left import time_left


def plan_line(study: Study, trials: Sequence[Trial], results: Path, *, here: bool = True) -> str:
    """``16 trials, about 20 min``: the trials that are planned and the time that they take; `here`
    is without a scheduler."""
    kept = len(study.trials()) - len(trials)
    there = f" ({kept} measured already)" if kept else ""
    if not trials:
        return f"nothing to measure{there}"
    number = "1 trial" if len(trials) == 1 else f"{len(trials)} trials"
    return f"{number}, about {duration(_seconds(study, trials, results, here=here))}{there}"


def _seconds(study: Study, trials: Sequence[Trial], results: Path, *, here: bool) -> float:
    """Seconds, estimated from the measured trials, else like `storewise cost` without a probe."""
    seen = Seen()
    try:
        look(results, seen)
    except ResultError:
        seen.durations.clear()
    left = time_left(
        {name: known for name, (_, known) in seen.durations.items() if known is not None},
        {trial.id: trial.engine for trial in study.trials()},
        [trial.id for trial in trials],
        {},
        study.live_sessions,
    )
    if left is not None:
        return left
    return estimate(study, trials, {}, results, here=here).seconds.mean
