"""The record of a run in ``results/<study>/run.json``: which trials it was to measure, and how it
ended (a killed run records no end). Also: whether another run measures the study already."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from storewise.atomic import read_as, write_aside
from storewise.layout import RECORD
from storewise.session.coordination.liveness import Process
from storewise.session.coordination.run import Lease, lease_files
from storewise.session.coordination.system import SYSTEM, System

#: Environment variable in which `storewise run`, which calls Snakemake again after a failed
#: trial, names its own process.
RUNNER_VARIABLE = "STOREWISE_RUNNER"


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
    record = RunRecord(run, process, time.time(), trials, measuring, live_sessions, _runner())
    record.write(results)


def _runner() -> Process | None:
    """The `storewise run` that has called this process, if one has."""
    text = os.environ.get(RUNNER_VARIABLE)
    return Process(**json.loads(text)) if text else None


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


def measuring_run(results: Path, run: str | None = None, *, system: System = SYSTEM) -> str | None:
    """A sentence about a run other than `run` that measures this study now; None if there is none.

    Two runs would remove each other's trials. A run is recognised by its lease, and a `storewise
    run` also by its process, between two calls of Snakemake. Call `remove_dead_runs` first: the
    lease of a killed run counts here.
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
    if record is None or record.door is None or record.door == _runner():
        return None
    return _sentence(results, record.door, record) if record.door.alive(system) else None


def lock_holder(directory: Path) -> str:
    """A sentence that names the Snakemake process that holds the lock of a directory. Used if no
    run is recorded: its results were removed, or it measures nothing."""
    ours = {os.getpid(), *(p.pid for p in psutil.Process().parents())}
    found = {
        p.pid: p.info["ppid"] for p in psutil.process_iter(["ppid"]) if _works_in(p, directory)
    }
    # Leave out this process's parents, and the jobs of other Snakemakes.
    pids = [pid for pid, parent in found.items() if pid not in ours and parent not in found]
    if not pids:
        return (
            f"a Snakemake has locked {directory.resolve()}, and none runs there on this host: it "
            "runs on another host, or was killed. If none runs any more, `snakemake --unlock` "
            "removes the lock"
        )
    return (
        f"another Snakemake has locked {directory.resolve()}: process "
        f"{', '.join(map(str, pids))} on host {Process.current().host}. If results were removed "
        "while it measured them, it ends by itself; wait for its end, or stop that process, and "
        "start again"
    )


def _works_in(process: psutil.Process, directory: Path) -> bool:
    try:
        called = any(Path(word).name == "snakemake" for word in process.cmdline())
        return called and Path(process.cwd()) == directory.resolve()
    except psutil.Error:
        return False


def _sentence(results: Path, process: Process, record: RunRecord | None) -> str:
    since = ""
    if record is not None:
        since = time.strftime(" since %Y-%m-%d %H:%M:%S", time.localtime(record.started))
    return (
        f"study {results.name} is measured here already, by process {process.pid} on host "
        f"{process.host}{since}. It goes on undisturbed; wait for its end (`storewise watch "
        f"{results.name}` shows it), or stop that process and start again"
    )
