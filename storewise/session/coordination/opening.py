"""Opening a trial's session when it is its turn."""

from __future__ import annotations

import logging
from pathlib import Path

from storewise.atomic import listed
from storewise.errors import Aborted
from storewise.layout import LEASES, LIVE, TRIALS
from storewise.session.coordination.cleanup import remove_session
from storewise.session.coordination.cluster import make_credentials
from storewise.session.coordination.ending import NO_SPACE
from storewise.session.coordination.lease import Lease
from storewise.session.coordination.live_directory import live_of
from storewise.session.coordination.liveness import (
    ABORT,
    FINISHED,
    Abort,
    Ask,
    LeaseWatch,
    Session,
    read_abort,
    remove_tree,
)
from storewise.session.coordination.private import make_private
from storewise.session.coordination.system import SYSTEM, System

#: Seconds from the end of a host until the scheduler knows of it: ParallelCluster's daemon looks at
#: EC2 each minute, and what it finds takes effect with its next look.
NOTICED_SECONDS = 120.0
#: Between two looks of a trial that waits for others, s.
OPEN_POLL = 0.25


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
        others = live_of(results, run, finished)
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
    """Whether the reason of a trial's end ends the whole run: a disk that is full for every trial,
    or the user's wish."""
    return not why.failure or bool(NO_SPACE.search(why.reason))
