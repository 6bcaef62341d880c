"""Trials read and reduced, in several processes where there is much to read.

Each process takes some trials at a time and hands back their figures, which are small. Children are
programs of their own (``python -m storewise.analysis.pipeline.parallel``), for the caller may have
threads, which a fork would not survive, and may be a script that must not be run twice. They end
with their parent, whatever ends it.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION, HdrLog, Part, TrialFiles
from storewise.analysis.files.samples import read_samples
from storewise.analysis.measure.trials import Study, measure
from storewise.analysis.model.results import Measured
from storewise.errors import ResultError, StorewiseError
from storewise.processes import dies_with_parent

#: Bytes of parts that are read at once by up to two processes each, and by more together twice
#: that: three million samples, about 700 MB in memory.
LOT = 64_000_000
#: Bytes of parts from which on it pays to start a child, which takes two seconds.
WORTH = 16_000_000
#: Processes at most, unless the caller says how many.
MOST = 4
#: Bytes that a log counts for: reading its totals takes as long as this much of parts.
_LOG_BYTES = 4_000
#: For the C library (mallopt(3)): what one lot has freed is used again for the next. By default
#: each large array is given back, and its pages are asked for anew: a sixth of a child's time.
_KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_TOP_PAD_": str(1 << 26),
}
#: Seconds that a child which was told to end may take before it is killed.
_GRACE = 5.0

#: Called with the number of trials that have been read, and of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Read:
    """Some trials as read: parts and logs of those that have figures, and the figures."""

    parts: Sequence[Part]
    logs: Sequence[HdrLog]
    measured: Measured
    warnings: Sequence[StudyWarning]


def read_trials(
    trials: Sequence[TrialFiles],
    study: Study | None = None,
    *,
    processes: int | None = None,
    lot: int | None = None,
    progress: Progress | None = None,
) -> list[Read]:
    """Read trials, at most about `lot` bytes (LOT) at a time, in the order in which they are given.

    At most `processes` read at once (by default as many as there are processors, but MOST, for each
    takes memory), and only one where there is little to read. Raises ResultError where a child
    process is ended from outside.
    """
    study = study or Study()
    total = sum(map(_size, trials))
    processes = processes or _processors()
    if total <= WORTH or len(trials) < 2:
        processes = 1
    limit = (lot or LOT) * 2 // max(2, processes)
    if processes > 1:
        # Several lots for each, lest one has the last of them alone.
        limit = min(limit, max(1, total // (4 * processes)))
    lots = list(_lots(trials, limit))
    processes = min(processes, len(lots))
    tell = progress or (lambda done, of: None)
    if processes < 2:
        found, done = [], 0
        for one in lots:
            found.append(_read(one, study))
            done += len(one)
            tell(done, len(trials))
        return found
    return _in_children(lots, study, processes, tell)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return min(MOST, len(os.sched_getaffinity(0)))
    return min(MOST, os.cpu_count() or 1)


def _size(trial: TrialFiles) -> int:
    return trial.part_bytes + (0 if trial.packed else _LOG_BYTES * len(trial.logs))


def _lots(trials: Sequence[TrialFiles], limit: int) -> Iterator[list[TrialFiles]]:
    """Trials in their order in lots of at most about `limit` bytes."""
    lot: list[TrialFiles] = []
    size = 0
    for one in trials:
        if lot and size + _size(one) > limit:
            yield lot
            lot, size = [], 0
        lot.append(one)
        size += _size(one)
    if lot:
        yield lot


def _read(trials: Sequence[TrialFiles], study: Study) -> Read:
    found = read_samples(trials)
    # Nodes without clients have nothing to tell; such a trial counts as not yet measured.
    known = {part.trial for part in found.parts if part.phase != SESSION}
    parts = [part for part in found.parts if part.trial in known]
    logs = [log for one in trials for log in one.logs]
    rows = found.rows
    if len(parts) < len(found.parts):
        rows = rows[rows["trial"].isin(known)]
    measured = measure(parts, logs, rows, study, found.totals)
    return Read(parts, logs, measured, found.warnings)


class _Child:
    """A process that reads lots of trials, one after the other."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # What we can import, it can: we may have been started from anywhere.
                env={
                    **_KEEP_MEMORY,
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                },
                preexec_fn=dies_with_parent(),
            )
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        self.lot = -1
        self.trials: Sequence[TrialFiles] = ()

    def give(self, lot: int, trials: Sequence[TrialFiles], study: Study) -> None:
        self.lot, self.trials = lot, trials
        try:
            self.connection.send((trials, study))
        except OSError as error:
            raise self.gone() from error

    def take(self) -> Read:
        try:
            found = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self.gone() from error
        if isinstance(found, Read):
            return found
        if isinstance(found, StorewiseError):
            raise found
        raise RuntimeError(f"a process that reads results failed:\n{found}")

    def gone(self) -> ResultError:
        """What to say of a child that has ended without being told to."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        status = self.process.returncode
        how = f"status {status}"
        if status is not None and status < 0:
            how = f"signal {signal.Signals(-status).name}"
        names = [one.trial for one in self.trials]
        which = f"trial {names[0]}" if len(names) == 1 else f"trials {names[0]} to {names[-1]}"
        return ResultError(
            f"a process that read {which} ended with {how}; nothing was written. Where it was the "
            "kernel for want of memory (see `dmesg`), give the analysis more of it and try again"
        )

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


def _in_children(
    lots: Sequence[Sequence[TrialFiles]],
    study: Study,
    processes: int,
    tell: Progress,
) -> list[Read]:
    found: dict[int, Read] = {}
    total, done = sum(map(len, lots)), 0
    waiting = iter(enumerate(lots))
    children: list[_Child] = []
    try:
        busy: dict[Connection, _Child] = {}
        for number, lot in (next(waiting) for _ in range(processes)):
            child = _Child()
            children.append(child)
            child.give(number, lot, study)
            busy[child.connection] = child
        while busy:
            for ready in wait(list(busy)):
                child = busy[ready]  # type: ignore[index]
                found[child.lot] = child.take()
                done += len(child.trials)
                tell(done, total)
                after = next(waiting, None)
                if after is None:
                    del busy[child.connection]
                else:
                    child.give(*after, study)
    finally:
        for child in children:
            child.end()
    return [found[number] for number in sorted(found)]


def _serve(connection: Connection) -> None:
    """Read what the parent asks for until it hangs up."""
    # Looking for cycles among a million objects takes longer than they are worth.
    gc.disable()
    while True:
        gc.collect()
        try:
            trials, study = connection.recv()
        except EOFError:
            return
        try:
            connection.send(_read(trials, study))
        except StorewiseError as error:
            connection.send(error)
        except Exception:  # noqa: BLE001 - the parent raises it
            connection.send(traceback.format_exc())


if __name__ == "__main__":
    # Ctrl-C is for the parent, which ends its children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Of objects of this very module, not of one that is called __main__.
    from storewise.analysis.pipeline import parallel as readers

    readers._serve(Connection(int(sys.argv[1])))
