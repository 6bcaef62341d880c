"""Read and reduce trials, in several processes if there is much to read.

Each process takes a batch of trials and returns their figures, which are small.
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
BATCH_BYTES = 64_000_000
#: Bytes of parts from which on it pays to start a child process, which takes two seconds.
MIN_PARALLEL_BYTES = 16_000_000
#: Default of the maximum number of processes.
MAX_PROCESSES = 4
#: Parameters of the C library's mallopt(3): memory that one batch frees is reused for the next. By
#: default large arrays are returned to the kernel, and new pages take a sixth of a child's time.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3

#: Called with the number of trials that have been read, and of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Read:
    """A batch of trials: figures, and parts and logs of the trials that have figures."""

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
    """Read trials in batches of at most about BATCH_BYTES, in the given order.

    At most `processes` processes read at once (default: the number of processors, at most
    MAX_PROCESSES, because each takes memory), and only one if there is little to read. Raises
    ResultError if a child process is killed.
    """
    total = sum(trial.size for trial in trials)
    processes = processes or min(MAX_PROCESSES, processors())
    if total <= MIN_PARALLEL_BYTES or len(trials) < 2:
        processes = 1
    # Several batches for each process, so that all end at about the same time.
    size = min(BATCH_BYTES, total // (4 * processes)) if processes > 1 else BATCH_BYTES
    batches = list(_batches(trials, size))
    processes = min(processes, len(batches))
    read: list[Read] = []
    done = 0
    works = in_processes(partial(_read, inputs), batches, processes, killed=_killed, begin=_begin)
    for result, batch in zip(works, batches, strict=True):
        read.append(result)
        done += len(batch)
        if progress is not None:
            progress(done, len(trials))
    return read


def _killed(trials: Sequence[TrialFiles]) -> ResultError:
    which = " to ".join(dict.fromkeys((trials[0].trial, trials[-1].trial)))
    return ResultError(
        f"a process that read results was killed, trials {which} are not read; nothing was "
        "written. If it was the kernel for lack of memory (see `dmesg`), give the analysis more "
        "memory and try again"
    )


def _begin() -> None:
    # The garbage collector would scan a million objects without freeing much.
    gc.disable()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_M_TOP_PAD, 1 << 26)


def _batches(trials: Sequence[TrialFiles], limit: int) -> Iterator[list[TrialFiles]]:
    """Split trials, in their order, into batches of at most about `limit` bytes."""
    batch: list[TrialFiles] = []
    size = 0
    for one in trials:
        if batch and size + one.size > limit:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.size
    if batch:
        yield batch


def _read(inputs: InputTotals | None, trials: Sequence[TrialFiles]) -> Read:
    if not gc.isenabled():
        gc.collect()
    samples = read_samples(trials)
    # A trial with parts of nodes only counts as not yet measured.
    known = {part.trial for part in samples.parts if part.phase != SESSION}
    parts = [part for part in samples.parts if part.trial in known]
    logs = [log for one in trials for log in one.logs]
    rows = samples.rows
    if len(parts) < len(samples.parts):
        rows = rows.filter(pc.is_in(rows["trial"].cast(pa.string()), pa.array(known, pa.string())))
    measured = measure(parts, logs, rows, inputs, samples.totals)
    return Read(parts, logs, measured, samples.warnings)
