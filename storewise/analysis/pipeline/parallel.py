"""Trials read and reduced, in several processes where there is much to read.

Each process takes some trials at a time and hands back their figures, which are small.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.files.parts import SESSION, HdrLog, Part, TrialFiles
from storewise.analysis.files.samples import read_samples
from storewise.analysis.measure.trials import measure
from storewise.analysis.model.results import Measured
from storewise.errors import ResultError
from storewise.processes import in_processes, processors

#: Bytes of parts that a process reads at once: three million samples, about 700 MB in memory. With
#: half of that an analysis takes a tenth longer.
LOT = 64_000_000
#: Bytes of parts from which on it pays to start a child, which takes two seconds.
WORTH = 16_000_000
#: Processes at most, unless the caller says how many.
MOST = 4
#: Parameters of the C library's mallopt(3): what one lot has freed is used again for the next. By
#: default each large array is given back, and its pages are asked for anew: a sixth of a child's
#: time.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3

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
    inputs: InputTotals | None,
    *,
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[Read]:
    """Read trials, at most about LOT bytes at a time, in the order in which they are given.

    At most `processes` read at once (by default as many as there are processors, but MOST, for each
    takes memory), and only one where there is little to read. Raises ResultError where a child
    process is ended from outside.
    """
    total = sum(trial.size for trial in trials)
    processes = processes or min(MOST, processors())
    if total <= WORTH or len(trials) < 2:
        processes = 1
    # Several lots for each process, lest one has the last of them alone.
    lots = list(_lots(trials, min(LOT, total // (4 * processes)) if processes > 1 else LOT))
    processes = min(processes, len(lots))
    read: list[Read] = []
    done = 0
    works = in_processes(partial(_read, inputs), lots, processes, killed=_killed, begin=_begin)
    for lot_read, one in zip(works, lots, strict=True):
        read.append(lot_read)
        done += len(one)
        if progress is not None:
            progress(done, len(trials))
    return read


def _killed(trials: Sequence[TrialFiles]) -> ResultError:
    which = " to ".join(dict.fromkeys((trials[0].trial, trials[-1].trial)))
    return ResultError(
        f"a process that read results was killed, trials {which} are not read; nothing was "
        "written. Where it was the kernel for want of memory (see `dmesg`), give the analysis more "
        "of it and try again"
    )


def _begin() -> None:
    # Looking for cycles among a million objects takes longer than they are worth.
    gc.disable()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_M_TOP_PAD, 1 << 26)


def _lots(trials: Sequence[TrialFiles], limit: int) -> Iterator[list[TrialFiles]]:
    """Trials in their order in lots of at most about `limit` bytes."""
    lot: list[TrialFiles] = []
    size = 0
    for one in trials:
        if lot and size + one.size > limit:
            yield lot
            lot, size = [], 0
        lot.append(one)
        size += one.size
    if lot:
        yield lot


def _read(inputs: InputTotals | None, trials: Sequence[TrialFiles]) -> Read:
    if not gc.isenabled():
        gc.collect()
    samples = read_samples(trials)
    # Nodes without clients have nothing to tell; such a trial counts as not yet measured.
    known = {part.trial for part in samples.parts if part.phase != SESSION}
    parts = [part for part in samples.parts if part.trial in known]
    logs = [log for one in trials for log in one.logs]
    rows = samples.rows
    if len(parts) < len(samples.parts):
        rows = rows.filter(pc.is_in(rows["trial"].cast(pa.string()), pa.array(known, pa.string())))
    measured = measure(parts, logs, rows, inputs, samples.totals)
    return Read(parts, logs, measured, samples.warnings)
