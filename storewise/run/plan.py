"""What a run would measure, and about how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storewise.errors import ResultError
from storewise.estimate.work import Rates, documents_of, work_of
from storewise.study.study import Study
from storewise.study.trial import Trial, node_jobs
from storewise.watch.render import duration
from storewise.watch.snapshot import Seen, look
from storewise.watch.time_left import time_left
from storewise.workloads.registry import workload

#: Seconds that a job takes beside its work, on a laptop, and that servers take to start and end.
_JOB, _SERVERS = 3.0, 30.0


def plan_line(study: Study, trials: Sequence[Trial], results: Path) -> str:
    """``16 trials, about 20 min``: the trials that are planned and the time that they take."""
    kept = len(study.trials()) - len(trials)
    there = f" ({kept} measured already)" if kept else ""
    if not trials:
        return f"nothing to measure{there}"
    number = "1 trial" if len(trials) == 1 else f"{len(trials)} trials"
    return f"{number}, about {duration(_seconds(study, trials, results))}{there}"


def _seconds(study: Study, trials: Sequence[Trial], results: Path) -> float:
    """By the trials that were measured, else by what the phases say and default rates."""
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
    if left.seconds is not None:
        return left.seconds
    documents = documents_of(study, results) if workload(study.workload).reads_inputs else None
    rates = Rates(results, sorted({name for trial in trials for name in trial.factors}))
    works = (work_of(trial, documents, rates).seconds.mean + _beside(trial) for trial in trials)
    return sum(works) / study.live_sessions


def _beside(trial: Trial) -> float:
    """Seconds of a trial beside its phases: jobs follow each other, servers start and end."""
    return _JOB * (2 + len(trial.phases)) + (_SERVERS if node_jobs(trial) else 0.0)
