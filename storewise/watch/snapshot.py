"""The current state of a study's run, read from its directory of results without any lock.

`look` returns one frame. It reads small files of the run and its jobs (`docs/sessions.md`): leases,
live sessions, failures, logs, the record of the run, and the progress of workers and nodes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from storewise.errors import ResultError
from storewise.layout import (
    FAILED,
    FAILURES,
    LEASES,
    LIVE,
    RUN_LOG,
    SESSION_PART,
    TRIALS,
    VERIFIED,
    study_name,
)
from storewise.session.coordination.failure import Failure, failures
from storewise.session.coordination.lease import looks_stale
from storewise.session.coordination.listing import LiveSession, sessions_of
from storewise.session.coordination.progress import JobProgress, progress_of
from storewise.session.coordination.run_record import RunRecord, read_record
from storewise.watch.time_left import duration_of, time_left

#: Age in s from which on the progress of a worker or node is stale. NFS caches attributes.
STALE = 10.0
#: Lines of the newest log that are shown.
LINES = 3
_TAIL = 4096
_MARKED = re.compile(r"\S+ \S+ (WARNING|ERROR) ")

State = Literal["runs", "between", "ended", "killed", "unknown"]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A worker or a node of a live trial, and its last record."""

    trial: str
    progress: JobProgress
    age: float
    """Seconds since that."""

    @property
    def fresh(self) -> bool:
        return self.age <= STALE


@dataclass(frozen=True, slots=True)
class Frame:
    """The state of a run at one moment."""

    study: str
    directory: Path
    at: float
    """Unix time."""
    state: State
    """``runs``; ``between`` two passes of a run; ``ended``; ``killed``; ``unknown``:
    nothing runs, and no run has left a record."""
    record: RunRecord | None
    done: int
    failed: Sequence[str]
    """Trials that failed for good."""
    running: Sequence[str]
    total: int | None
    """Trials in all; None where that is not known."""
    seconds_left: float | None
    sessions: Sequence[LiveSession]
    jobs: Sequence[JobStatus]
    """Workers, then nodes."""
    failures: Sequence[Failure]
    """The last attempts of this run that failed, oldest first."""
    warnings: Sequence[str]
    """Last warnings and errors in the logs of running trials, each with its log's name."""
    log: Path | None
    lines: Sequence[str]

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.state not in ("runs", "between")


#: By trial: time of the file it is from, and the duration in s where that can be told.
Durations = dict[str, tuple[float, float | None]]


@dataclass
class Seen:
    """Cache between frames: the durations of measured trials."""

    durations: Durations = field(default_factory=dict)


def look(directory: Path, seen: Seen | None = None) -> Frame:
    """The current frame; raises ResultError if no study has run in the directory."""
    seen = seen if seen is not None else Seen()
    record = read_record(directory)
    if record is None and not any((directory / name).is_dir() for name in (TRIALS, LIVE, LEASES)):
        raise ResultError(
            f"{directory}: no study has run here; start one with `storewise run STUDY`"
        )
    now = time.time()
    seen.durations = _durations(directory, seen.durations)
    live = sessions_of(directory)
    running = [trial_of(session) for session in live]
    # A trial that is planned again counts as done only with its new results.
    again = set(record.measuring) if record is not None and record.ended is None else set()
    done = {
        name
        for name, (at, _) in seen.durations.items()
        if name not in running and not (record and name in again and at < record.started)
    }
    failed = sorted(path.parent.name for path in directory.glob(f"{TRIALS}/*/{FAILED}"))
    trials: Mapping[str, str] = record.trials if record is not None else {}
    counted = {*done, *failed, *running}
    waiting = [name for name in trials if name not in counted]
    log, lines = _newest(directory, running)
    leases = (directory / LEASES).glob("[!.]*")
    state = _state(record, leased=not all(map(looks_stale, leases)))
    return Frame(
        study=study_name(directory),
        directory=directory,
        at=now,
        state=state,
        record=record,
        done=len(done),
        failed=failed,
        running=running,
        total=len(counted) + len(waiting) if record is not None else None,
        seconds_left=time_left(
            {n: d for n, (_, d) in seen.durations.items() if d is not None and n in done},
            trials,
            waiting,
            {trial_of(session): session.age for session in live},
            record.live_sessions if record is not None else 1,
        ),
        sessions=live,
        jobs=_jobs(directory, running, now),
        failures=_failures(directory, record),
        warnings=_warnings(directory, running),
        log=log,
        lines=lines,
    )


def trial_of(session: LiveSession) -> str:
    """The id of the trial that a session belongs to."""
    return session.id.rsplit("/", 1)[1]


def _modified(paths: Iterable[Path]) -> dict[Path, float]:
    """The modification times of these files; missing files are left out."""
    times = {}
    for path in paths:
        try:
            times[path] = path.stat().st_mtime
        except OSError:
            continue
    return times


def _state(record: RunRecord | None, *, leased: bool) -> State:
    if leased:
        return "runs"
    if record is None:
        return "unknown"
    if record.ended is not None:
        return "ended"
    # After a pass with failed trials another one follows.
    return "between" if record.process.alive() else "killed"


def _durations(directory: Path, known: Durations) -> Durations:
    """Durations of the measured trials; files that have not changed since `known` are not read."""
    durations = {}
    for path in sorted(directory.glob(f"{TRIALS}/*/{VERIFIED}")):
        # The session of a trial with servers is written when they have ended.
        times = _modified([path, path.with_name(SESSION_PART)])
        if path in times:  # else it is being measured again
            trial, at = path.parent.name, max(times.values())
            last, seconds = known.get(trial, (0.0, None))
            durations[trial] = (at, seconds if last == at else duration_of(path, at))
    return durations


def _jobs(directory: Path, trials: Sequence[str], now: float) -> list[JobStatus]:
    jobs = [
        JobStatus(trial, progress, max(0.0, now - at))
        for trial in trials
        for progress, at in progress_of(directory / LIVE / trial).values()
    ]
    return sorted(jobs, key=lambda one: one.progress.state == "serves")


def _failures(directory: Path, record: RunRecord | None) -> list[Failure]:
    since = record.started if record is not None else 0.0
    names = [path.stem for path in (directory / FAILURES).glob("*.jsonl")]
    of_run = [one for name in names for one in failures(directory, name) if one.at >= since]
    return sorted(of_run, key=lambda one: one.at)[-LINES:]


def _newest(directory: Path, trials: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The most recently written log of these trials (else of all jobs), and its last lines."""
    logs = directory / "logs"
    paths = [path for trial in trials for path in (logs / trial).glob("*.log")]
    jobs = (path for path in logs.rglob("*.log") if path != directory / RUN_LOG)
    times = _modified(paths or jobs)
    if not times:
        return None, []
    newest = max(times, key=lambda path: times[path])
    return newest, _tail(newest)[-LINES:]


def _warnings(directory: Path, trials: Sequence[str]) -> list[str]:
    """Warnings and errors in the format of job logs; output of servers is ignored."""
    marked = [
        f"{path.stem}: {text}"
        for trial in trials
        for path in sorted((directory / "logs" / trial).glob("*.log"))
        if not path.name.endswith(".server.log")
        for text in _tail(path)
        if _MARKED.match(text)
    ]
    return sorted(marked, key=lambda text: text.partition(": ")[2])[-LINES:]


def _tail(path: Path) -> list[str]:
    """The last lines of a log that are not empty."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()]
