"""The frame of every job of a live trial: its log, its watch, and its handling of failures."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from storewise.errors import Aborted, StorewiseError
from storewise.layout import LIVE
from storewise.metrics.ec2_instance import InterruptionWatch
from storewise.processes import ENDING
from storewise.session.coordination.ending import NO_MEMORY, NO_SPACE
from storewise.session.coordination.liveness import (
    Abort,
    Session,
    Watch,
    abort,
    await_reason,
    membership,
)
from storewise.waiting import wait_for

#: How long an error of a job is held until it is no sign of a removal.
_REMOVAL_SECONDS = 1.0
#: Directory of temporary files in a session's live directory.
TEMPORARY = "temporary"


class Ended(Aborted):
    """This one job is to end: a signal told it to, or EC2 takes back its host."""

    def __init__(self, why: Abort) -> None:
        self.why = why
        super().__init__(why.reason)


@dataclass(frozen=True, slots=True)
class TrialJob:
    """The context of a trial's job: `check` raises Aborted when the trial is to end."""

    check: Callable[[], None]
    log: logging.Logger
    live: Path
    session: Session
    tell: Callable[[BaseException], None]
    """Aborts the trial with an error as its reason, now: for a job that has more to end."""


def job_log(path: Path | str) -> logging.Logger:
    """A logger that writes the job's log file, one readable line per message."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger("storewise.job")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    while logger.handlers:
        logger.handlers.pop().close()
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger


def progress_to(log: logging.Logger) -> Callable[[int, int, int, int], None]:
    """A progress callback for files and bytes that writes a line every ten seconds."""
    last = time.monotonic()

    def progress(files: int, all_files: int, size: int, all_size: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 10.0 or files == all_files:
            last = now
            share = f", {size / all_size:.0%} of the bytes" if all_size else ""
            log.info("%d of %d files%s", files, all_files, share)

    return progress


@contextmanager
def plain_job(log_path: Path | str) -> Iterator[logging.Logger]:
    """Run a job outside of trials: an expected error is one message and exit status 1."""
    log = job_log(log_path)
    try:
        yield log
    except (StorewiseError, OSError) as error:
        log.error("%s", error)
        if isinstance(error, OSError):
            log.error("%s", traceback.format_exc())
        sys.exit(f"storewise: {error}")
    except BaseException:
        log.error("unexpected error\n%s", traceback.format_exc())
        raise


def _reason(name: str, error: BaseException, log: str) -> Abort:
    """The message to the other jobs of a trial for an error that ends this job."""
    if isinstance(error, Ended):
        return replace(error.why, log=log)
    if isinstance(error, Aborted):
        return Abort(str(error), failure=False, log=log)
    if isinstance(error, MemoryError):
        text = NO_MEMORY
    elif isinstance(error, StorewiseError | OSError):
        text = str(error)
        if NO_SPACE.search(text) and (host := socket.gethostname()) not in text:
            text += f" (on host {host})"
    else:
        text = f"{type(error).__name__}: {error}"
    # What a node says of its server begins with its name already.
    text = text if text.startswith(f"{name}: ") else f"{name}: {text}"
    return Abort(text, failure=True, log=log)


@contextmanager
def _private_temporaries(live: Path) -> Iterator[None]:
    """Put temporary files of this process and its clients into the live directory: no other user
    can read it, and it is removed with the session, whoever is killed."""
    directory = live.absolute() / TEMPORARY
    directory.mkdir(mode=0o700, exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _removed(
    live: Path, needs: Sequence[Path], clock: Callable[[], float], sleep: Callable[[float], None]
) -> bool:
    """Whether a job's session or inputs are being removed, which then explains the job's error.

    A tree is removed file by file, and its directories after them, so it is looked at for a while.
    """

    def removed() -> bool:
        return not all(path.exists() for path in (live, *needs))

    return wait_for(removed, _REMOVAL_SECONDS, poll=0.05, clock=clock, sleep=sleep)


@contextmanager
def trial_job(
    results: Path,
    session_file: Path,
    name: str,
    log_path: Path | str,
    *,
    needs: Iterable[Path | str] = (),
    defer: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[TrialJob]:
    """A job of a live trial.

    While the block runs, the process is registered in the trial's live directory. If it raises,
    the trial is aborted with that as its reason (unless it has one already) and the process
    exits with status 1; expected errors are one message, others keep their traceback in the log.
    An error while one of `needs`, the job's inputs, goes away is told as its removal.
    A client's error may only be what a server's end looks like from outside: before its own reason
    it gives the server's node `defer` seconds to say more. `clock` and `sleep` (s) are what the
    lease and all waiting go by.
    """
    log = job_log(log_path)
    try:
        session = Session.read(session_file)
    except FileNotFoundError:
        sys.exit(f"{name}: its session was removed before it started")
    live = results / LIVE / session.trial
    log.info("trial %s, %s, process %d", session.trial, name, os.getpid())

    def ended(number: int, frame: FrameType | None) -> None:
        # A terminal's Ctrl-C reaches every process of the run: not this trial's failure.
        sign = signal.Signals(number)
        reason = f"{name} was ended by signal {sign.name}"
        raise Ended(Abort(reason, failure=sign is not signal.SIGINT, killed=name))

    watch, interruption = Watch(results, session, clock=clock), InterruptionWatch(clock=clock)

    def check() -> None:
        watch.check()
        if (reason := interruption.reason()) is not None:
            # A failed attempt, to be made on another host: until this one has gone, the next
            # attempt may come to it again.
            raise Ended(Abort(reason, failure=True, until=interruption.at))

    def tell(error: BaseException) -> None:
        if not isinstance(error, Aborted):
            await_reason(live, defer, clock=clock, sleep=sleep)
        abort(live, _reason(name, error, str(log_path)))

    before = {number: signal.signal(number, ended) for number in ENDING}
    try:
        with membership(live, name), _private_temporaries(live):
            yield TrialJob(check, log, live, session, tell)
        log.info("done")
    except Aborted as error:
        tell(error)
        log.error("%s", error)
        sys.exit(f"{name} ended: {error}")
    except BaseException as error:
        needed = [session_file, *map(Path, needs)]
        if isinstance(error, Exception) and _removed(live, needed, clock, sleep):
            log.error("its session was removed (%s)", error)
            sys.exit(f"{name} ended: its session was removed")
        expected = isinstance(error, StorewiseError | MemoryError | OSError)
        reason = _reason(name, error, str(log_path)).reason if expected else "unexpected error"
        log.error("%s", reason)
        if not isinstance(error, StorewiseError):
            log.error("%s", traceback.format_exc())
        tell(error)
        if expected:
            sys.exit(reason)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
