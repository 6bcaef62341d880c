"""What a run leaves of itself in ``results/<study>/run.json``: which trials it was to measure, and
how it ended. A run that was killed leaves no end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from storewise.atomic import read_as, write_aside
from storewise.layout import RECORD
from storewise.session.coordination.liveness import Process

#: Environment variable in which `storewise run`, which calls Snakemake again after a failed
#: trial, names its own process.
DOOR_VARIABLE = "STOREWISE_DOOR"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The last run of a study that measured, or was to measure, something."""

    run: str
    process: Process
    started: float
    """Unix time."""
    trials: Mapping[str, str]
    """The engine of each trial of the study, those that were measured before included."""
    measuring: tuple[str, ...]
    """The trials that this run was to measure, in its order."""
    live_sessions: int = 1
    door: Process | None = None
    """The `storewise run` that has called it, if one has."""
    ended: float | None = None
    reason: str | None = None
    """Why it ended before it was done."""

    def write(self, results: Path) -> None:
        write_aside(results / RECORD, json.dumps(asdict(self)) + "\n")


def begin(
    results: Path,
    run: str,
    trials: Mapping[str, str],
    measuring: tuple[str, ...],
    live_sessions: int,
) -> None:
    """A run starts to measure."""
    process = Process.current()
    record = RunRecord(run, process, time.time(), trials, measuring, live_sessions, door())
    record.write(results)


def door() -> Process | None:
    """The `storewise run` that has called this process, if one has."""
    told = os.environ.get(DOOR_VARIABLE)
    return Process(**json.loads(told)) if told else None


def end(results: Path, run: str, reason: str | None) -> None:
    """A run has ended; does nothing where another one is recorded."""
    record = read_record(results)
    if record is not None and record.run == run:
        replace(record, ended=time.time(), reason=reason).write(results)


def read_record(results: Path) -> RunRecord | None:
    """The last run's record; None where there is none, or it is of another version."""
    try:
        return read_as(RunRecord, results / RECORD)
    except (OSError, ValueError):
        return None
