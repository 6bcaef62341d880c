"""The frame of every job of a live trial: its log, its watch, and the end it makes of a failure."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from storewise.errors import Aborted, StorewiseError
from storewise.metrics.instance import Interruption
from storewise.processes import ENDING
from storewise.session.live import ABORT, LIVE, Abort, Session, Watch, abort, membership

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class Signalled(Aborted):
    """This one job was told to end by a signal."""

    def __init__(self, name: str, number: int) -> None:
        self.number = signal.Signals(number)
        super().__init__(f"{name} was ended by signal {self.number.name}")


class TakenBack(Aborted):
    """EC2 takes back the host of this job: a failed attempt, to be made on another host.

    `at` is when the host goes, as Unix time: until then the next attempt may come to it again.
    """

    def __init__(self, reason: str, at: float) -> None:
        super().__init__(reason)
        self.at = at


@dataclass(frozen=True, slots=True)
class Job:
    """What a job may use: `check` raises Aborted when the trial is to end."""

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
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logger.addHandler(handler)
    return logger


def progress_to(log: logging.Logger, every: float = 10.0) -> Callable[[int, int, int, int], None]:
    """A progress callback for files and bytes that writes a line every `every` seconds."""
    last = time.monotonic()

    def progress(files: int, all_files: int, size: int, all_size: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= every or files == all_files:
            last = now
            share = f", {size / all_size:.0%} of the bytes" if all_size else ""
            log.info("%d of %d files%s", files, all_files, share)

    return progress


@contextmanager
def plain_job(log_path: Path | str) -> Iterator[logging.Logger]:
    """A job outside of trials: an expected error is one message and exit status 1."""
    log = job_log(log_path)
    try:
        yield log
    except StorewiseError as error:
        log.error("%s", error)
        sys.exit(f"storewise: {error}")
    except OSError as error:
        log.error("%s\n%s", error, traceback.format_exc())
        sys.exit(f"storewise: {error}")
    except BaseException:
        log.error("unexpected error\n%s", traceback.format_exc())
        raise


def _reason(name: str, error: BaseException, log: str) -> Abort:
    """What an error that ends a job says to the other jobs of its trial."""
    if isinstance(error, Aborted):
        # A terminal's Ctrl-C reaches every process of the run: not this trial's failure.
        own = isinstance(error, TakenBack) or (
            isinstance(error, Signalled) and error.number != signal.SIGINT
        )
        until = error.at if isinstance(error, TakenBack) else 0.0
        return Abort(str(error), own=own, log=log, until=until)
    kind = type(error).__name__
    if isinstance(error, StorewiseError | MemoryError | OSError):
        return Abort(f"{name}: {error or kind}", own=True, log=log)
    return Abort(f"{name}: {kind}: {error}", own=True, log=log)


def _await_reason(live: Path, seconds: float) -> None:
    """Return when another job has given a reason, or after some seconds."""
    until = time.monotonic() + seconds
    while not (live / ABORT).exists() and time.monotonic() < until:
        time.sleep(0.1)


@contextmanager
def trial_job(
    results: Path, session_file: Path, name: str, log_path: Path | str, *, defer: float = 0.0
) -> Iterator[Job]:
    """A job of a live trial.

    While the block runs, the process is registered in the trial's live directory. If it raises,
    the trial is aborted with that as its reason (unless it has one already) and the process
    exits with status 1; expected errors are one message, others keep their traceback in the log.
    A client's error may only be what a server's end looks like from outside: before its own reason
    it gives the server's node `defer` seconds to say more.
    """
    log = job_log(log_path)
    try:
        session = Session.read(session_file)
    except FileNotFoundError:
        sys.exit(f"storewise: {name}: its session was removed before it started")
    live = results / LIVE / session.trial
    log.info("trial %s, %s, process %d", session.trial, name, os.getpid())

    def ended(number: int, frame: FrameType | None) -> None:
        raise Signalled(name, number)

    watch, interruption = Watch(results, session), Interruption()

    def check() -> None:
        watch.check()
        reason = interruption.reason()
        if reason is not None:
            raise TakenBack(reason, interruption.at)

    def tell(error: BaseException) -> None:
        if not isinstance(error, Aborted):
            _await_reason(live, defer)
        abort(live, _reason(name, error, str(log_path)))

    before = {number: signal.signal(number, ended) for number in ENDING}
    try:
        with membership(live, name):
            yield Job(check, log, live, session, tell)
        log.info("done")
    except Aborted as error:
        tell(error)
        log.error("%s", error)
        sys.exit(f"storewise: {name} ended: {error}")
    except (StorewiseError, MemoryError, OSError) as error:
        if isinstance(error, FileNotFoundError) and not live.is_dir():
            log.error("its session was removed (%s)", error)
            sys.exit(f"storewise: {name} ended: its session was removed")
        reason = _reason(name, error, str(log_path)).reason
        log.error("%s", reason)
        if not isinstance(error, StorewiseError):
            log.error("%s", traceback.format_exc())
        tell(error)
        sys.exit(f"storewise: {reason}")
    except BaseException as error:
        log.error("unexpected error\n%s", traceback.format_exc())
        tell(error)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
