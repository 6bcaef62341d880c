"""Retries: the failed trials that are measured again, and those that are given up.

One command, `snakemake` or `storewise run`, measures in *passes*: a pass measures each planned
trial once, and the trials that failed are planned again in the next one. A trial that has failed
`retries` + 1 times gets the file `failed.json`, which takes it out of each later plan
(``rules/plan.smk``) until that file is removed. If its store is not to blame, the file counts only
until the next command.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storewise.atomic import write_aside
from storewise.layout import FAILED, FAILURES, LOGS, TRIALS, VERIFIED
from storewise.session.coordination.ending import NO_SPACE, host_fault
from storewise.session.coordination.failure import Failure, failures
from storewise.session.coordination.opening import NOTICED_SECONDS
from storewise.study.study import Study

#: Environment variable with the Unix time at which the command started, for its later passes.
SINCE_VARIABLE = "STOREWISE_SINCE"


def command_start() -> float:
    """The start of the command, Unix time: now, unless this process is a later pass of it."""
    return float(os.environ.get(SINCE_VARIABLE) or time.time())


def next_pass_command(program: str, arguments: Sequence[str]) -> list[str] | None:
    """The command of this process (`sys.argv[0]`, `sys.orig_argv`) to start it once more; None
    where it is not Snakemake's own command, but a program that uses it."""
    path = Path(program)
    if path.name != "snakemake" and path.parts[-2:] != ("snakemake", "__main__.py"):
        return None
    return [sys.executable, *arguments[1:]]


@dataclass(frozen=True, slots=True)
class PassEnd:
    """The next action after a pass that ended with an error."""

    again: bool
    """Whether another pass follows: trials are to be tried again, or the report is to be made of
    the others."""
    sentences: Sequence[str]
    host_gone: float = 0.0
    """Unix time from which a host that EC2 takes back gets no more jobs; 0 if there is none."""


def end_pass(
    study: Study, results: Path, run: str, since: float, *, on_cluster: bool = False
) -> PassEnd:
    """Decide what follows after run `run`, the pass of a command that started at `since` (Unix
    time); give up the trials that have failed often enough."""
    tried = attempts(study, results, since)
    new = {trial: of for trial, of in tried.items() if of[-1].run == run}
    full = [trial for trial, of in new.items() if NO_SPACE.search(of[-1].reason)]
    if full:
        return PassEnd(
            again=False,
            sentences=[
                f"a disk is full, and the run has stopped: {kept(study, results)}. Make room and "
                f"run again to go on; logs: {results / LOGS / full[0]}"
            ],
        )
    sentences, retried = [], False
    for trial, of in new.items():
        logs = results / LOGS / trial
        if len(of) <= study.retries:
            retried = True
            sentences.append(f"trial {trial} is tried again; its logs: {logs}")
            continue
        give_up(study, results, trial, of)
        times = "once" if len(of) == 1 else f"{len(of)} times"
        until = " until the next run" if host_fault(of[-1].reason) else ""
        sentences.append(f"trial {trial} failed {times} and is left out{until}; its logs: {logs}")
    again = retried or (bool(new) and _measured(study, results) > 0)
    if not again and (nothing := nothing_measured(study, results, since)):
        sentences.append(nothing)
    gone = max((of[-1].until for of in new.values()), default=0.0)
    gone += NOTICED_SECONDS if gone and on_cluster else 0.0
    return PassEnd(again=again, sentences=sentences, host_gone=gone)


def kept(study: Study, results: Path) -> str:
    """The number of trials that need not be measured again, in words."""
    return f"{_measured(study, results)} of {len(study.trials())} trials kept"


def _measured(study: Study, results: Path) -> int:
    return sum((results / TRIALS / trial.id / VERIFIED).exists() for trial in study.trials())


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
        "at": last.at,
        "study": _digest(study),
    }
    path = results / TRIALS / trial_id / FAILED
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, json.dumps(mark, indent=1) + "\n")


def read_mark(results: Path, trial_id: str) -> dict[str, Any]:
    """The record of `give_up` about a trial; empty if it is not given up."""
    path = results / TRIALS / trial_id / FAILED
    mark: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return mark


def _digest(study: Study) -> str:
    return hashlib.blake2b(study.model_dump_json().encode(), digest_size=8).hexdigest()


def is_given_up(study: Study, results: Path, trial_id: str, since: float) -> bool:
    """Whether a trial is out of the plan of a command that started at `since` (Unix time).

    It comes in again if its host was to blame, or if the study has changed: its user may have
    mended the reason.
    """
    mark = read_mark(results, trial_id)
    if not mark:
        return False
    if mark.get("at", 0.0) >= since:
        return True
    return not mark["host_fault"] and mark.get("study") in (None, _digest(study))


def given_up(study: Study, results: Path, since: float) -> list[str]:
    """The trials that are out of the plan of a command that started at `since` (Unix time)."""
    return [trial.id for trial in study.trials() if is_given_up(study, results, trial.id, since)]


def lost_trials(study: Study, results: Path, since: float) -> str | None:
    """A sentence that names the trials that were given up; None where there are none."""
    if not (lost := given_up(study, results, since)):
        return None
    return (
        f"{len(lost)} of {len(study.trials())} trials failed: {', '.join(lost)}; the report has "
        "their reasons, `storewise run --retry-failed` tries them again"
    )


def nothing_measured(study: Study, results: Path, since: float) -> str | None:
    """A sentence that says why there can be no report: all trials were given up, and none was ever
    measured; None where there can be one."""
    trials = study.trials()
    if _measured(study, results) or len(given_up(study, results, since)) < len(trials):
        return None
    reasons = (f"{trial.id}: {read_mark(results, trial.id)['reason']}" for trial in trials)
    return (
        f"no trial of study {study.name} was measured, so there is no report. All of them failed: "
        f"{'; '.join(reasons)}. `storewise run --retry-failed` tries them again"
    )


def forget(study: Study, results: Path) -> None:
    """Plan again what was given up."""
    for trial in study.trials():
        (results / TRIALS / trial.id / FAILED).unlink(missing_ok=True)
