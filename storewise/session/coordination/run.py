"""A run: its lease, the end of its trials, and their failed attempts.

`storewise.run.job_events` brings Snakemake's events; nothing here knows Snakemake.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from storewise.layout import LEASES, LIVE
from storewise.processes import library_environment
from storewise.session.coordination.cleanup import remove_session
from storewise.session.coordination.failure import (
    Failure,
    add_detail,
    failures,
    last_lines,
    record_failure,
    replace_failures,
)
from storewise.session.coordination.lease import (
    LOCAL_LEASE,
    ClusterJobs,
    Lease,
    lease_files,
    renew_every,
)
from storewise.session.coordination.live_directory import live_of, remove_if_empty, sessions
from storewise.session.coordination.liveness import (
    ABORT,
    OWNER,
    Abort,
    Ask,
    Process,
    abort,
    read_abort,
)
from storewise.session.coordination.private import make_private
from storewise.session.coordination.system import SYSTEM, System

_log = logging.getLogger(__name__)

#: Environment variable through which a run tells its local jobs its id.
RUN_VARIABLE = "STOREWISE_RUN"
#: ... and how many trials may be measured at a time.
LIVE_VARIABLE = "STOREWISE_LIVE_SESSIONS"


@dataclass
class Run:
    """One Snakemake process and the live trials that are its own."""

    results: Path
    lease_seconds: float = LOCAL_LEASE
    ask: Ask | None = None
    """See `unfinished_elsewhere`."""
    jobs: Callable[[], ClusterJobs] = dict
    """Asked at each renewal for the cluster jobs that have not ended."""
    id: str = field(
        default_factory=lambda: (
            f"{socket.gethostname()}.{os.getpid()}.{time.time_ns():x}{secrets.token_hex(2)}"
        )
    )
    system: System = SYSTEM
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _renewing: threading.Lock = field(default_factory=threading.Lock)
    _locks: tuple[str, ...] = ()

    def tell_jobs(self, live_sessions: int) -> None:
        """Set what jobs on this host read from their environment.

        What changes with each run must not be a parameter of a rule. A job's Python may be that of
        an environment that does not have this package: it is told where that is.
        """
        os.environ |= {
            **library_environment(),
            RUN_VARIABLE: self.id,
            LIVE_VARIABLE: str(live_sessions),
        }

    def start(
        self,
        locks: Iterable[str] = (),
        *,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        """Take the lease and keep it renewed in a daemon thread.

        `pause` lets the seconds to the next renewal pass, and is true when there is to be none
        (default: when the run has ended).
        """
        pause = pause or self._stopping.wait
        self._locks = tuple(locks)
        self.results.mkdir(parents=True, exist_ok=True)
        for name in (LEASES, LIVE):
            make_private(self.results / name)
        self.renew()

        def beat() -> None:
            while not pause(renew_every(self.lease_seconds)):
                try:
                    self.renew()
                except OSError as error:
                    if not (self.results / LEASES).is_dir():
                        continue  # `lost` tells it at the end
                    # The jobs end when it stays so for longer than the lease holds.
                    _log.warning("storewise: the lease is not renewed: %s", error)

        self._thread = threading.Thread(target=beat, name="storewise-lease", daemon=True)
        self._thread.start()

    def renew(self) -> None:
        """Give the lease a new time; OSError where that cannot be written."""
        process = Process.current(self.system)
        with self._renewing:
            lease = Lease(self.id, process, self.lease_seconds, self._locks, self.jobs())
            try:
                lease.write(self.results / LEASES)
            except OSError:
                # A new time needs no space on a full disk; this fails where there is no lease yet.
                os.utime(self.results / LEASES / self.id)

    def record_jobs(self) -> None:
        """Write the lease now, with a job that was just submitted; nothing before `start`."""
        if self._thread is not None and not self._stopping.is_set():
            with suppress(OSError):  # the next renewal says it
                self.renew()

    def lost(self) -> str | None:
        """The error if somebody removed the results during this run; None if nobody did."""
        started = self._thread is not None and not self._stopping.is_set()
        if not started or (self.results / LEASES / self.id).exists():
            return None
        return (
            f"{self.results} was removed or moved while this run used it: the trials that were "
            "being measured have ended, and are measured anew by the next run"
        )

    def live(self) -> list[Path]:
        """Live directories of this run's trials."""
        return live_of(self.results, self.id)

    def abort_live(self, why: Abort) -> None:
        """End all live trials of this run; those that have a reason already keep it."""
        for directory in self.live():
            abort(directory, why)

    def job_failed(
        self, trial: str, why: Abort, *, job: str = "", scheduler: str = ""
    ) -> Failure | None:
        """A job of a trial failed: end the trial and record the attempt, once per session.

        `scheduler` is what the job's scheduler says of its end. Where the first reason is only that
        a signal has ended a job, the attempt is recorded when that job is reported, with it.
        Nothing is recorded where the run itself was being stopped.
        """
        directory = self.results / LIVE / trial
        if not (directory / OWNER).exists():
            return None  # the session was never opened: the failed job is another one
        abort(directory, why)
        first = read_abort(directory / ABORT)
        if first.killed and job and first.killed != job:
            return None
        return self._record(directory, scheduler if first.killed else "", why.log)

    def unrecorded(self) -> list[Failure]:
        """Record the failed attempts of which nobody has reported the job that a signal ended."""
        return [
            failure
            for live in self.aborted()
            if read_abort(live / ABORT).killed and (failure := self._record(live)) is not None
        ]

    def explain(self, trial: str, words: str) -> None:
        """Add what was learned later to the reason of a trial's last failed attempt, if this run
        has recorded one."""
        attempts = failures(self.results, trial)
        if attempts and attempts[-1].run == self.id:
            attempts[-1] = replace(attempts[-1], reason=add_detail(attempts[-1].reason, words))
            replace_failures(self.results, trial, attempts)

    def aborted(self) -> list[Path]:
        """Live directories of this run's trials that are aborted."""
        return [live for live in self.live() if (live / ABORT).exists()]

    def _record(self, directory: Path, scheduler: str = "", log: str = "") -> Failure | None:
        first, trial = read_abort(directory / ABORT), directory.name
        mark = directory / "failure-recorded"
        if not first.failure or mark.exists():
            return None
        mark.touch()
        tail = last_lines(first.log or log)
        reason = add_detail(first.reason, scheduler) if scheduler else first.reason
        failure = Failure(trial, reason, tail, self.id, self.system.time(), first.until)
        record_failure(self.results, failure)
        return failure

    def end(self, reason: str | None = None) -> list[str]:
        """Give the lease back and remove what is left of this run's trials.

        Returns names of processes that could not be ended (on other hosts).
        """
        if reason is not None:
            self.abort_live(Abort(reason, failure=False))
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=6.0)
        try:
            left = [
                name
                for directory in self.live()
                for name in remove_session(
                    self.results, directory, ask=self.ask, system=self.system
                )
            ]
            alone = all(path.name == self.id for path in lease_files(self.results))
            # Snakemake makes the directory before a trial is opened; jobs may write to one that
            # somebody is removing.
            for directory in [d for d, session in sessions(self.results) if session is None]:
                if alone:
                    left += remove_session(
                        self.results, directory, ask=self.ask, system=self.system
                    )
                else:
                    remove_if_empty(directory)
        finally:
            (self.results / LEASES / self.id).unlink(missing_ok=True)
        remove_if_empty(self.results / LEASES, self.results / LIVE)
        return left
