"""A short speed test of a host before a trial, to detect hosts slowed by other work.

The figures are no benchmark of the machine. They are stored with the trial, so that a disturbed
host is not mistaken for a slow store.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from storewise.errors import StorewiseError
from storewise.metrics.schema import Sample

_BLOCK = 1 << 20


def run_canary(
    directory: Path,
    *,
    seconds: float = 0.3,
    phase: str = "canary",
    clock: Callable[[], float] = perf_counter,
) -> list[Sample]:
    """Measure processor, disk write and disk read for about `seconds` (of `clock`) in all.

    - ``canary_cpu``: SHA-256 digests of 4 KiB per second by one thread.
    - ``canary_disk_write``: bytes/s written to a new file in `directory` in blocks of 1 MiB, its
      fsync included.
    - ``canary_disk_read``: bytes/s of reading it again after the kernel was asked to drop it from
      its cache (where the system has no posix_fadvise, reads may come from memory).

    The file is removed. Raises StorewiseError where `directory` cannot be written.
    """
    each = seconds / 3
    path = directory / f".canary.{os.getpid()}"
    try:
        return [
            Sample(phase, "canary_cpu", _digests_per_s(each, clock), "1/s"),
            # Half of the time for the writes: the fsync that follows takes time, too.
            Sample(phase, "canary_disk_write", _write_per_s(path, each / 2, clock), "B/s"),
            Sample(phase, "canary_disk_read", _read_per_s(path, each, clock), "B/s"),
        ]
    except OSError as error:
        raise StorewiseError(
            f"{directory}: cannot be used for a store: {error.strerror}; "
            "check its permissions and free space"
        ) from error
    finally:
        path.unlink(missing_ok=True)


def _digests_per_s(seconds: float, clock: Callable[[], float]) -> float:
    data = os.urandom(4096)
    count, start = 0, clock()
    while (elapsed := clock() - start) < seconds:
        hashlib.sha256(data).digest()
        count += 1
    return count / elapsed


def _write_per_s(path: Path, seconds: float, clock: Callable[[], float]) -> float:
    block = os.urandom(_BLOCK)
    written, start = 0, clock()
    with path.open("wb", buffering=0) as file:
        while clock() - start < seconds:
            written += file.write(block)
        os.fsync(file.fileno())
        return written / (clock() - start)


def _read_per_s(path: Path, seconds: float, clock: Callable[[], float]) -> float:
    read = 0
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start = clock()
        while block := file.read(_BLOCK):
            read += len(block)
            if clock() - start > seconds:
                break
        return read / (clock() - start)
