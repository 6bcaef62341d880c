"""The record of a run in ``results/<study>/run.json``: which trials it was to measure, and how it
ended (a killed run records no end). Also: whether another run measures the study already."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from storewise.atomic import read_as, write_aside
from storewise.layout import RECORD
from storewise.session.coordination.lease import Lease, lease_files
from storewise.session.coordination.liveness import Process
from storewise.session.coordination.system import SYSTEM, System


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
    ended: float | None = None
    """Unix time; None too between two passes of one process (`storewise.run.retries`)."""
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
    record = RunRecord(run, process, time.time(), trials, measuring, live_sessions)
    record.write(results)


def end(results: Path, reason: str | None) -> None:
    """This process's run has ended; does nothing where another one is recorded."""
    record = read_record(results)
    if record is not None and record.process == Process.current():
        replace(record, ended=time.time(), reason=reason).write(results)


def read_record(results: Path) -> RunRecord | None:
    """The last run's record; None where there is none, or it is of another version."""
    try:
        return read_as(RunRecord, results / RECORD)
    except (OSError, ValueError):
        return None


def measuring_run(results: Path, run: str | None = None, *, system: System = SYSTEM) -> str | None:
    """A sentence about a run other than `run` that measures this study now; None if there is none.

    Two runs would remove each other's trials. A run is recognised by its lease, between two passes
    by its process. Call `remove_dead_runs` first: the lease of a killed run counts here.
    """
    record = read_record(results)
    for path in lease_files(results):
        if path.name == run:
            continue
        try:
            process = Lease.read(path).process
        except FileNotFoundError:  # it ended meanwhile
            continue
        except (OSError, ValueError):
            return (
                f"study {results.name} is measured here already by run {path.name}, whose lease "
                f"{path} cannot be read: is it of another version of Storewise? Wait for its end, "
                "or stop it and start again"
            )
        return _sentence(results, process, record if record and record.run == path.name else None)
    if record is None or record.ended is not None or record.process == Process.current(system):
        return None
    return _sentence(results, record.process, record) if record.process.alive(system) else None


def _sentence(results: Path, process: Process, record: RunRecord | None) -> str:
    since = ""
    if record is not None:
        since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(record.started))
    return (
        f"study {results.name} is measured here already, by process {process.pid} on host "
        f"{process.host}{since}. It goes on undisturbed; wait for its end (`storewise watch "
        f"{results.name}` shows it), or stop that process and start again"
    )
