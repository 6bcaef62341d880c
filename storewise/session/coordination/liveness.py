"""Leases, abort files and registered processes: how the jobs of a trial end together.

A *run* is one Snakemake process. It renews a lease file, ``leases/<run id>``, every few seconds.
A trial that is being measured has a *live directory*, ``live/<trial>/``, whose ``session.json``
names its run. Every job of the trial registers its process there and polls: it ends when there is
a file ``abort``, when the directory was removed, or when the run's lease has expired. So all jobs
end after a killed run, on any host with this file system, even if the hosts' clocks differ.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Gt

from storewise.atomic import holds, read_as, write_aside
from storewise.errors import Aborted
from storewise.layout import LEASES, LIVE
from storewise.session.coordination.system import SYSTEM, System
from storewise.waiting import wait_for

#: The session as an output of Snakemake, which removes it after the last job that needs it.
SESSION = "session.json"
#: A copy that stays until the run ends: it says to which run the directory belongs.
OWNER = "owner.json"
ABORT = "abort"
#: Written after a trial's last job: the next trial may start.
FINISHED = "finished"
MEMBERS = "members"
#: Seconds between two looks of a job at its trial.
POLL_SECONDS = 2.0
#: A scheduler is asked which of its jobs are still there.
Ask = Callable[[str, Sequence[str]], set[str] | None]


@dataclass(frozen=True, slots=True)
class Process:
    """A process, identified by pid and start time: a later process may get the same pid."""

    host: str
    pid: Annotated[int, Gt(0)]
    started: float
    """Start time in clock ticks since boot."""
    scheduler: str = ""
    """``pbs`` or ``slurm`` where it belongs to a job of theirs, `job`; else empty."""
    job: str = ""
    boot: str = ""
    """The boot and PID namespace in which `pid` is valid, see `System.boot`."""

    @classmethod
    def current(cls, system: System = SYSTEM) -> Process:
        pid = system.pid()
        started = system.started(pid)
        assert started is not None, "who asks is there"
        return cls(system.host(), pid, started, *scheduler_job(os.environ), system.boot())

    def is_here(self, system: System = SYSTEM) -> bool:
        """Whether the process is on this host, in the same boot and the same PID namespace: only
        then its pid is valid here."""
        return (self.host, self.boot) == (system.host(), system.boot())

    def alive(self, system: System = SYSTEM) -> bool | None:
        """Whether the process runs; None if it is not on this host (`is_here`)."""
        return system.started(self.pid) == self.started if self.is_here(system) else None


def scheduler_job(environment: Mapping[str, str]) -> tuple[str, str]:
    """The scheduler's job whose environment this is, as kind and id; both empty outside of jobs.

    Sources: qsub(1B) and sbatch(1), the variables that jobs get. A task of an array is what squeue
    calls it (``%i``), ARRAY_TASK; in PBS the id has the index already.
    """
    if job := environment.get("PBS_JOBID"):
        return "pbs", job
    if array := environment.get("SLURM_ARRAY_JOB_ID"):
        return "slurm", f"{array}_{environment.get('SLURM_ARRAY_TASK_ID', '')}"
    if job := environment.get("SLURM_JOB_ID"):
        return "slurm", job
    return "", ""


@dataclass(frozen=True, slots=True)
class Session:
    """One life of a trial: who opened it and how long its lease holds."""

    trial: str
    run: str
    lease_seconds: float
    opened: float

    def write(self, directory: Path) -> None:
        """Open the session in its live directory."""
        for name in (OWNER, SESSION):
            write_aside(directory / name, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> Session:
        return read_as(cls, path)


class LeaseWatch:
    """Polls a run's lease to tell whether the run still renews it.

    The lease has expired when this object saw it unchanged for longer than `seconds` by its own
    monotonic `clock` (s). File times are not compared with this clock: other hosts set them.
    """

    def __init__(
        self,
        results: Path,
        run: str,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = results / LEASES / run
        self._seconds = seconds
        self._first = self._seen = _version(self._lease)
        self._clock = clock
        self._since = clock()

    def reason(self) -> str | None:
        """Why the run counts as ended; None while it may still run."""
        mark, now = _version(self._lease), self._clock()
        if mark is None:
            return f"its run {self._lease.name} has ended"
        if mark != self._seen:
            self._seen, self._since = mark, now
        elif now - self._since > self._seconds:
            return (
                f"its run {self._lease.name} has not renewed its lease for {self._seconds:.0f} s: "
                "it was killed or lost the file system"
            )
        return None

    def renewed(self) -> bool:
        """Whether the run has renewed its lease since the first poll: then it is alive."""
        return self._seen not in (None, self._first)


def _version(path: Path) -> tuple[int, int] | None:
    """Modification time (ns) and inode of a file or a directory; None if it does not exist.

    Opens it, because an NFS client then asks its server (close-to-open consistency); else it may
    use attributes that it has cached for a minute.
    """
    try:
        opened = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(opened)
    finally:
        os.close(opened)
    return status.st_mtime_ns, status.st_ino


class Watch:
    """Asked by a job while it works, as often as it likes: `check` raises Aborted when the trial is
    to end.

    Hundreds of jobs ask, on the file system that is measured. So a job looks once in
    `POLL_SECONDS`, at the time of the live directory alone; at the files in it and at the lease
    when that has changed, and some times in the life of a lease.
    """

    def __init__(
        self, results: Path, session: Session, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory = results / LIVE / session.trial
        self._session = session
        self._lease = LeaseWatch(results, session.run, session.lease_seconds, clock=clock)
        self._clock = clock
        self._version: tuple[int, int] | None = None
        self._next = self._next_full = -math.inf
        self._reason: str | None = None

    def check(self) -> None:
        if (reason := self.reason()) is not None:
            raise Aborted(reason)

    def reason(self) -> str | None:
        """Why the trial is to end, None while it may go on."""
        now = self._clock()
        if self._reason is None and now >= self._next:
            each = self._session.lease_seconds / 8
            self._next = now + min(POLL_SECONDS, each)
            version = _version(self._directory)
            if version != self._version:
                # Another change at the same tick of the clock has the same time: look again.
                self._version, self._next_full = version, now
                self._reason = self._look()
            elif now >= self._next_full:
                self._next_full = now + each
                self._reason = self._look()
        return self._reason

    def _look(self) -> str | None:
        if holds(self._directory, ABORT):
            return read_abort(self._directory / ABORT).reason
        try:
            session = Session.read(self._directory / SESSION)
        except FileNotFoundError:
            return "its session was removed"
        if session != self._session:
            return "another run has taken its place"
        return self._lease.reason()


@dataclass(frozen=True, slots=True)
class Abort:
    """Why a trial ends: the first reason, and whether it is a failure of the trial."""

    reason: str
    failure: bool
    """False where the run was stopped from outside (Ctrl-C, SIGTERM): no failed attempt."""
    log: str = ""
    until: float = 0.0
    """Another attempt before this time (Unix time) may meet the same; 0: at once."""
    killed: str = ""
    """The job that a signal has ended, where that is all: its scheduler may know why."""


def abort(directory: Path, why: Abort) -> None:
    """Write the abort file of a trial, so that all its jobs end. The reason of one that is there
    stays."""
    path, text = directory / ABORT, json.dumps(asdict(why)) + "\n"
    place = directory / f".{ABORT}.{secrets.token_hex(8)}"
    try:
        place.write_text(text, encoding="utf-8")
        # Only one link to a name can be made, on NFS too: the first reason stays, and is whole.
        path.hardlink_to(place)
    except (FileExistsError, FileNotFoundError):
        pass  # it is aborted, or was removed
    except OSError:
        # A file system without hard links, or a full disk. There an empty file can mostly be made:
        # that suffices to end the jobs.
        with suppress(OSError):
            path.touch(exist_ok=False)
            path.write_text(text, encoding="utf-8")
    finally:
        with suppress(OSError):
            place.unlink()


def read_abort(path: Path) -> Abort:
    """Read an abort file; OSError if it does not exist."""
    try:
        return read_as(Abort, path)
    except ValueError:
        return Abort("aborted for a reason that could not be written (a full disk?)", failure=True)


def await_reason(
    live: Path,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until another job has aborted the trial, at most `seconds`."""

    def aborted() -> bool:
        return not live.is_dir() or (live / ABORT).exists()

    wait_for(aborted, seconds, poll=0.1, clock=clock, sleep=sleep)


@contextmanager
def membership(directory: Path, name: str, *, system: System = SYSTEM) -> Iterator[None]:
    """Register this process as a job of a trial while the block runs.

    Raises Aborted if the live directory was removed.
    """
    path = directory / MEMBERS / f"{name}.json"
    try:
        path.parent.mkdir(exist_ok=True)
    except FileNotFoundError as error:  # not to be made again: nobody would remove it
        raise Aborted("its session was removed") from error
    write_aside(path, json.dumps(asdict(Process.current(system))))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def members(directory: Path) -> dict[str, Process]:
    """The processes registered in a live directory, by job name."""
    jobs = {}
    for path in sorted((directory / MEMBERS).glob("*.json")):
        try:
            jobs[path.stem] = read_as(Process, path)
        except (FileNotFoundError, ValueError):
            # The job ended meanwhile, or its host crashed before the file was on disk.
            continue
    return jobs


def unfinished_elsewhere(directory: Path, ask: Ask | None, system: System = SYSTEM) -> list[str]:
    """Names of a live directory's jobs on other hosts that their scheduler does not call ended.

    `ask` returns which of a scheduler's jobs (kind, ids) are still queued or running; None if the
    scheduler does not answer.
    """
    there = {n: p for n, p in members(directory).items() if not p.is_here(system)}
    ended: set[tuple[str, str]] = set()
    for kind in sorted({process.scheduler for process in there.values()} - {""}):
        ids = sorted({p.job for p in there.values() if p.scheduler == kind})
        present = ask(kind, ids) if ask is not None else None
        if present is not None:
            ended |= {(kind, job) for job in ids if job not in present}
    return [
        f"{name} (process {process.pid} on {process.host})"
        for name, process in there.items()
        if (process.scheduler, process.job) not in ended
    ]


def remove_tree(
    path: Path,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Remove a directory tree, if it is there, although others may still write or delete in it.

    On NFS a file that somebody has open stays under another name until it is closed: OSError only
    when a directory has not become empty after 10 s.
    """
    until = clock() + 10.0
    while path.exists():
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EBUSY) or clock() > until:
                raise
            sleep(0.1)
