"""Removing what trials and killed runs have left."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from storewise.layout import LEASES, LIVE, TRIALS, VERIFIED
from storewise.session.coordination.cluster import started_nodes
from storewise.session.coordination.lease import ClusterJobs, Lease, dead_leases, lease_files
from storewise.session.coordination.live_directory import remove_if_empty, run_of, sessions
from storewise.session.coordination.liveness import (
    FINISHED,
    Abort,
    Ask,
    abort,
    members,
    remove_tree,
    unfinished_elsewhere,
)
from storewise.session.coordination.private import check_private, made_by_run
from storewise.session.coordination.system import SYSTEM, System
from storewise.waiting import wait_for

_log = logging.getLogger(__name__)

#: Seconds in which a scheduler that refuses to cancel a killed run's jobs is asked again.
CANCEL_SECONDS = 30.0
#: Returns a sentence for each command that the scheduler did not accept.
CancelJobs = Callable[[ClusterJobs], list[str]]
#: Seconds between two questions about jobs on other hosts.
ASK_EVERY = 1.0
POLL = 0.1


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
    remove_if_empty(results / LEASES, results / LIVE)
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
    run = run_of(directory)
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
    if not directory.is_dir() or run_of(directory) != run:
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
