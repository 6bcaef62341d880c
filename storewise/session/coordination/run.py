"""A run's side of its live trials: lease, abort, failures, and removing what killed runs left.

The caller (``rules/control.smk``) brings Snakemake's events; nothing here knows Snakemake.
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from storewise.atomic import listed, read_as, write_aside
from storewise.errors import Aborted, ConfigError
from storewise.layout import FAILURES, LEASES, LIVE, TRIALS, VERIFIED
from storewise.processes import library_environment
from storewise.session.coordination.cluster import make_credentials, started_nodes
from storewise.session.coordination.ending import NO_SPACE
from storewise.session.coordination.liveness import (
    ABORT,
    FINISHED,
    OWNER,
    Abort,
    Ask,
    LeaseWatch,
    Process,
    Session,
    abort,
    members,
    read_abort,
    remove_tree,
    unfinished_elsewhere,
)
from storewise.session.coordination.private import check_private, made_by_run, make_private
from storewise.session.coordination.system import SYSTEM, System
from storewise.waiting import wait_for

_log = logging.getLogger(__name__)

#: Seconds after which an unchanged lease is stale.
LOCAL_LEASE = 25.0
CLUSTER_LEASE = 90.0
SMALLEST_LEASE = 2.0
#: Seconds from the end of a host until the scheduler knows of it: ParallelCluster's daemon looks at
#: EC2 each minute, and what it finds takes effect with its next look.
NOTICED_SECONDS = 120.0
POLL = 0.1
#: Seconds between two questions about jobs on other hosts.
ASK_EVERY = 1.0
#: Between two looks of a trial that waits for others, s.
OPEN_POLL = 0.25
#: Environment variable that sets another lease.
LEASE_VARIABLE = "STOREWISE_LEASE_SECONDS"
#: Environment variable through which a run tells its local jobs its id.
RUN_VARIABLE = "STOREWISE_RUN"
#: ... and how many trials may be measured at a time.
LIVE_VARIABLE = "STOREWISE_LIVE_SESSIONS"


def lease_seconds(*, on_cluster: bool) -> float:
    """How long a lease holds; ConfigError for a setting that is no time."""
    text = os.environ.get(LEASE_VARIABLE)
    if text is None:
        return CLUSTER_LEASE if on_cluster else LOCAL_LEASE
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not SMALLEST_LEASE <= seconds < math.inf:
        raise ConfigError(
            f"{LEASE_VARIABLE}={text}: expected seconds, at least {SMALLEST_LEASE:.0f}"
        )
    return seconds


def renew_every(lease: float) -> float:
    """Seconds from one renewal of a lease to the next: some may come late, and it still holds."""
    return min(3.0, lease / 4)


#: Seconds in which a scheduler that refuses to cancel a killed run's jobs is asked again.
CANCEL_SECONDS = 30.0
#: Ids of cluster jobs by kind (`storewise.schedulers.queue`).
ClusterJobs = Mapping[str, tuple[str, ...]]
#: Returns a sentence for each command that the scheduler did not accept.
CancelJobs = Callable[[ClusterJobs], list[str]]


@dataclass(frozen=True, slots=True)
class Lease:
    """What a lease file says about its run."""

    run: str
    process: Process
    seconds: float
    locks: tuple[str, ...] = ()
    """Snakemake lock files that the run holds, to be removed with it."""
    jobs: ClusterJobs = field(default_factory=dict)
    """Its cluster jobs that have not ended: the next run cancels those of a killed one."""

    def write(self, directory: Path) -> None:
        write_aside(directory / self.run, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> Lease:
        return read_as(cls, path)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt at a trial."""

    trial: str
    reason: str
    log_tail: str
    run: str
    at: float
    until: float = 0.0
    """See `Abort`."""


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
        watch: Callable[[], str | None] | None = None,
        *,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        """Take the lease and keep it renewed in a daemon thread.

        `watch` is asked at each renewal for a reason to end all live trials. `pause` lets the
        seconds to the next renewal pass, and is true when there is to be none (default: when the
        run has ended).
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
                if watch is not None and (reason := watch()):
                    self.abort_live(Abort(reason, failure=False))

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
        """What to tell where somebody removed the results below this run; None where nobody did."""
        started = self._thread is not None and not self._stopping.is_set()
        if not started or (self.results / LEASES / self.id).exists():
            return None
        return (
            f"{self.results} was removed or moved while this run used it: the trials that were "
            "being measured have ended, and are measured anew by the next run"
        )

    def live(self) -> list[Path]:
        """Live directories of this run's trials."""
        return _live_of(self.results, self.id)

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
        if not attempts or attempts[-1].run != self.id:
            return
        attempts[-1] = replace(attempts[-1], reason=_with(attempts[-1].reason, words))
        text = "".join(f"{json.dumps(asdict(attempt))}\n" for attempt in attempts)
        write_aside(self.results / FAILURES / f"{trial}.jsonl", text)

    def aborted(self) -> list[Path]:
        """Live directories of this run's trials that are aborted."""
        return [live for live in self.live() if (live / ABORT).exists()]

    def _record(self, directory: Path, scheduler: str = "", log: str = "") -> Failure | None:
        first, trial = read_abort(directory / ABORT), directory.name
        mark = directory / "failure-recorded"
        if not first.failure or mark.exists():
            return None
        mark.touch()
        tail = _tail(first.log or log)
        reason = _with(first.reason, scheduler) if scheduler else first.reason
        failure = Failure(trial, reason, tail, self.id, self.system.time(), first.until)
        path = self.results / FAILURES / f"{trial}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(failure)) + "\n")
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
                    _remove_if_empty(directory)
        finally:
            (self.results / LEASES / self.id).unlink(missing_ok=True)
        _remove_if_empty(self.results / LEASES, self.results / LIVE)
        return left


def open_session(
    results: Path,
    trial: str,
    run: str,
    live_sessions: int,
    log: logging.Logger,
    *,
    servers: bool = False,
    ask: Ask | None = None,
    system: System = SYSTEM,
) -> None:
    """Wait until fewer than `live_sessions` trials of the run are being measured, then open this
    trial's session.

    What is left of trials that failed is ended and removed first, and no session is opened on hosts
    that EC2 takes back at this moment. A trial with `servers` gets new credentials. `ask` as for
    `unfinished_elsewhere`. Raises Aborted if the run ends, or a trial of it ended so that no other
    one is to be opened (`ends_run`).
    """
    lease = Lease.read(results / LEASES / run)
    watch = LeaseWatch(results, run, lease.seconds, clock=system.clock)
    told, finished = "", {trial}
    while True:
        # A trial is being measured on this file system: look at few files.
        for name in listed(results / LIVE) - finished:
            if (results / LIVE / name / FINISHED).exists():
                finished.add(name)
        others = _live_of(results, run, finished)
        if reason := watch.reason():
            raise Aborted(f"trial {trial} was not opened: {reason}")
        until = 0.0
        for directory in others:
            if not (directory / ABORT).exists():
                continue
            why = read_abort(directory / ABORT)
            if ends_run(why):
                raise Aborted(f"trial {trial} was not opened: {directory.name} ended: {why.reason}")
            until = max(until, why.until + NOTICED_SECONDS if why.until else 0.0)
            remove_session(results, directory, ask=ask, system=system, keep_record=True)
        if until > system.time():
            log.info("waiting %.0f s, until a host is gone", until - system.time())
            while until > system.time() and watch.reason() is None:
                system.sleep(1.0)
        elif len(others) < live_sessions:
            break
        names = ", ".join(d.name for d in others)
        if names != told:
            log.info("waiting for %s", names)
            told = names
        system.sleep(OPEN_POLL)
    live = results / LIVE / trial
    # Remove what an earlier attempt has left: results of two attempts must not mix.
    remove_tree(results / TRIALS / trial)
    remove_tree(live)
    make_private(live.parent)
    live.mkdir(mode=0o700)
    if servers:
        make_credentials(live)
    Session(trial, run, lease.seconds, system.time()).write(live)
    log.info("opened")


def ends_run(why: Abort) -> bool:
    """Whether no other trial is to be opened after one that ended for this reason: each would meet
    the same full disk, or the user has ended it."""
    return not why.failure or bool(NO_SPACE.search(why.reason))


def _remove_if_empty(*directories: Path) -> None:
    for directory in directories:
        with suppress(OSError):  # something is in it, or another run has removed it
            directory.rmdir()


def _with(reason: str, words: str) -> str:
    """A reason, and what else is known of it."""
    return f"{reason} {words}" if reason.endswith("?") else f"{reason.removesuffix('.')}; {words}"


def _tail(log: str) -> str:
    if not log or not Path(log).is_file():
        return ""
    text = Path(log).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-30:])


def sessions(results: Path, without: Collection[str] = ()) -> list[tuple[Path, Session | None]]:
    """Live directories and their sessions (None where it has none or cannot be read)."""
    found: list[tuple[Path, Session | None]] = []
    for directory in sorted((results / LIVE).glob("*/")):
        if directory.name in without:
            continue
        try:
            found.append((directory, Session.read(directory / OWNER)))
        except (OSError, ValueError):
            found.append((directory, None))
    return found


def _live_of(results: Path, run: str, without: Collection[str] = ()) -> list[Path]:
    there = sessions(results, without)
    return [d for d, session in there if session is not None and session.run == run]


def lease_files(results: Path) -> list[Path]:
    """The leases of all runs; the name of each is its run's id."""
    return sorted((results / LEASES).glob("[!.]*"))


def dead_leases(
    results: Path, say: Callable[[str], None] = _log.info, system: System = SYSTEM
) -> list[tuple[Path, Lease | None]]:
    """The leases of runs that have certainly ended, as (path, lease); None for an unreadable lease.

    Polls each lease until it is renewed or has expired (`LeaseWatch`): up to 90 s on a cluster. A
    run whose process runs on this host is alive.
    """
    watched: dict[Path, tuple[Lease | None, LeaseWatch]] = {}
    for path in lease_files(results):
        lease, seconds = None, CLUSTER_LEASE
        try:
            lease = Lease.read(path)
            seconds = lease.seconds
        except FileNotFoundError:
            continue
        except ValueError:
            say(f"{path} is damaged: a host has crashed, or its disk was full")
        if lease is None or not lease.process.alive(system):
            watch = LeaseWatch(results, path.name, seconds, clock=system.clock)
            watched[path] = lease, watch
            say(f"is run {path.name} still alive? It has {seconds:.0f} s to renew its lease")
    dead: list[tuple[Path, Lease | None]] = []
    while watched:
        for path, (lease, watch) in list(watched.items()):
            ended = watch.reason() is not None
            if ended or watch.renewed():
                del watched[path]
            if ended and path.exists():
                dead.append((path, lease))
        if watched:
            system.sleep(POLL)
    return dead


def live_leases(
    results: Path, say: Callable[[str], None] = _log.info, system: System = SYSTEM
) -> list[Path]:
    """The leases of runs that may be alive; waits until all others have expired (`dead_leases`)."""
    dead = {path for path, _ in dead_leases(results, say, system)}
    return [path for path in lease_files(results) if path not in dead]


def looks_stale(path: Path, system: System = SYSTEM) -> bool:
    """Guess without waiting whether the run of a lease has ended. For display only: it compares
    the lease file's time with this host's clock."""
    try:
        lease = Lease.read(path)
        alive = lease.process.alive(system)
        return alive is False or (
            alive is None and system.time() - path.stat().st_mtime > 2 * lease.seconds
        )
    except (OSError, ValueError):
        return True


def remove_dead_runs(
    results: Path,
    say: Callable[[str], None],
    ask: Ask | None = None,
    cancel: CancelJobs = lambda jobs: [],
    *,
    system: System = SYSTEM,
) -> list[str]:
    """Cancel the cluster jobs of runs that were killed, and remove their leases, Snakemake locks,
    sessions and stores.

    Returns the ids of these runs. Waits until each run is alive or certainly dead (`dead_leases`),
    and leaves live runs alone. `ask` as for `unfinished_elsewhere`. ConfigError if another user
    owns the directory of the leases or of the sessions.
    """
    for name in (LEASES, LIVE):
        check_private(results / name)
    dead = dead_leases(results, say, system)
    for path, lease in dead:
        if lease is None:
            continue
        if lease.jobs:
            _cancel_all(lease, say, cancel, system)
        for lock in lease.locks:
            if _is_lock_of(Path(lock), path):
                Path(lock).unlink(missing_ok=True)
                say(f"removed the lock {lock} of run {path.name}, which was killed")
    ended = sorted(path.name for path, _ in dead)
    known = {path.name for path in lease_files(results)} - {*ended}
    for directory, session in sessions(results):
        # Snakemake makes the directory of a trial that a live run has yet to open.
        if session is None and known:
            continue
        if session is None or session.run not in known:
            left = remove_session(results, directory, say=say, ask=ask, system=system)
            say(f"removed what was left of trial {directory.name}, whose run has ended")
            for name in left:
                say(f"could not end {name}; it ends by itself when it sees that its run is gone")
    # Only now: if this process is interrupted before, the next one goes on.
    for path, _ in dead:
        path.unlink(missing_ok=True)
    _remove_if_empty(results / LEASES, results / LIVE)
    return ended


def _cancel_all(
    lease: Lease, say: Callable[[str], None], cancel: CancelJobs, system: System
) -> None:
    """Cancel the cluster jobs of a killed run, again while the scheduler does not accept it."""
    say(f"cancelling the cluster jobs of run {lease.run} that may be left")
    refused: list[str] = []

    def accepted() -> bool:
        refused[:] = cancel(lease.jobs)
        return not refused

    if wait_for(accepted, CANCEL_SECONDS, poll=5.0, clock=system.clock, sleep=system.sleep):
        return
    for sentence in refused:
        say(f"{sentence}; cancel what is left of run {lease.run} yourself")


def _is_lock_of(lock: Path, lease: Path) -> bool:
    """Whether a path is a Snakemake lock of the current directory, and not younger than the last
    renewal of the lease: after `snakemake --unlock` another run's locks have the same names."""
    try:
        own = lock.absolute().parent == Path(".snakemake", "locks").absolute()
        return own and lock.is_file() and lock.stat().st_mtime_ns <= lease.stat().st_mtime_ns
    except FileNotFoundError:
        return False


def remove_session(
    results: Path,
    directory: Path,
    patience: float | None = None,
    *,
    say: Callable[[str], None] = _log.warning,
    ask: Ask | None = None,
    system: System = SYSTEM,
    keep_record: bool = False,
) -> list[str]:
    """Abort a trial's jobs, then remove its live directory and the stores of an unfinished trial.

    With `keep_record` the live directory stays, marked as finished: it says why the trial failed.

    A node's directory is removed only if the session's run has made it (`made_by_run`).

    Jobs get `patience` seconds to end (by default 10, or 45 if nodes have servers to stop). Then
    those on this host are killed. Returns the names of those on other hosts that may still run;
    jobs that their scheduler reports as ended are left out (`ask`, see `unfinished_elsewhere`).
    """
    run = _run_of(directory)
    started = started_nodes(directory)
    if patience is None:
        patience = 45.0 if started else 10.0
    abort(directory, Abort("its run has ended", failure=False))
    deadline = system.clock() + patience
    jobs = [job for job in members(directory).values() if job.pid != system.pid()]
    while (running := [job for job in jobs if job.alive(system)]) and system.clock() < deadline:
        system.sleep(POLL)
    for job in running:
        system.kill(job.pid)
    # Jobs on other hosts read of it there, and their servers may still have files open here.
    while (left := unfinished_elsewhere(directory, ask, system)) and system.clock() < deadline:
        system.sleep(ASK_EVERY)
    if not directory.is_dir() or _run_of(directory) != run:
        return []  # another process has removed it meanwhile, and a new run may have opened it
    trial = results / TRIALS / directory.name
    finished = (trial / VERIFIED).exists()
    if not finished:
        for pattern in ("store.*", "data.*"):
            for store in trial.glob(pattern):
                remove_tree(store)
    for node in started.values():
        place = Path(node.directory)
        if node.host != system.host() or (node.keep and finished) or not place.exists():
            continue
        if made_by_run(place, run):
            remove_tree(place)
        else:
            say(f"not removed: {place}, which {directory} names; run {run} has not made it")
    if keep_record:
        (directory / FINISHED).touch()
    else:
        remove_tree(directory)
    return left


def _run_of(directory: Path) -> str:
    """The run that has opened a live directory; empty if it cannot be read."""
    try:
        return Session.read(directory / OWNER).run
    except (OSError, ValueError):
        return ""


def failures(results: Path, trial: str) -> list[Failure]:
    """Failed attempts at a trial, oldest first."""
    path = results / FAILURES / f"{trial}.jsonl"
    if not path.is_file():
        return []
    attempts = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, TypeError):  # the disk was full, or a host crashed
            attempts.append(Failure(**json.loads(line)))
    return attempts
