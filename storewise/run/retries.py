"""Which failed trials are planned again, and which are given up.

A trial that failed is planned again until it has failed `retries` times more than once. Then it has
a file that takes it out of each later plan (`rules/plan.smk`), until ``--retry-failed``; where its
store is not to blame, until the next run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from storewise.atomic import write_aside
from storewise.layout import FAILED, FAILURES
from storewise.session.coordination.ending import host_fault
from storewise.session.coordination.run import Failure, failures
from storewise.study.study import Study


def attempts(study: Study, results: Path, since: float) -> dict[str, list[Failure]]:
    """Failed attempts of each trial after a time (Unix, s); trials without one are not in it."""
    if not (results / FAILURES).is_dir():
        return {}
    failed = {
        trial.id: [f for f in failures(results, trial.id) if f.at >= since]
        for trial in study.trials()
    }
    return {trial: tried for trial, tried in failed.items() if tried}


def give_up(study: Study, results: Path, trial_id: str, tried: Sequence[Failure]) -> None:
    """Take a trial out of the plan; the report tells the reason of its last attempt."""
    trial = next(t for t in study.trials() if t.id == trial_id)
    last = tried[-1]
    mark = {
        "trial": trial_id,
        "factors": trial.factors,
        "repeat": trial.repeat,
        "attempts": len(tried),
        "reason": last.reason,
        "log_tail": last.log_tail,
        "host_fault": host_fault(last.reason),
    }
    path = _mark(results, trial_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, json.dumps(mark, indent=1) + "\n")


def given_up(study: Study, results: Path) -> list[str]:
    """The trials that are out of the plan."""
    return [trial.id for trial in study.trials() if _mark(results, trial.id).exists()]


def forget(study: Study, results: Path, *, every: bool) -> None:
    """Plan again what was given up: `every` trial, or those whose store is not to blame."""
    for trial in study.trials():
        mark = _mark(results, trial.id)
        if every or (mark.exists() and '"host_fault": true' in mark.read_text(encoding="utf-8")):
            mark.unlink(missing_ok=True)


def _mark(results: Path, trial_id: str) -> Path:
    return results / "trials" / trial_id / FAILED
