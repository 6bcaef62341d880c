"""A short test of a host before it works: is it as fast today as it was in the other trials?

The figures are not a benchmark of the machine. They are kept with a trial so that a slow trial on
a disturbed host can be told from a slow store.
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
    share = seconds / 3
    data = os.urandom(4096)
    count = 0
    start = clock()
    while (took := clock() - start) < share:
        hashlib.sha256(data).digest()
        count += 1
    cpu = count / took

    path = directory / f".canary.{os.getpid()}"
    block = os.urandom(_BLOCK)
    try:
        written = 0
        start = clock()
        with path.open("wb", buffering=0) as file:
            # Half of the share for the writes, for the fsync that follows takes its time too.
            while clock() - start < share / 2:
                written += file.write(block)
            os.fsync(file.fileno())
            write = written / (clock() - start)
        read_bytes = 0
        with path.open("rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            start = clock()
            while got := file.read(_BLOCK):
                read_bytes += len(got)
                if clock() - start > share:
                    break
            read = read_bytes / (clock() - start)
    except OSError as error:
        raise StorewiseError(
            f"{directory}: cannot be used for a store: {error.strerror}; "
            "check its rights and its free space"
        ) from error
    finally:
        path.unlink(missing_ok=True)
    return [
        Sample(phase, "canary_cpu", cpu, "1/s"),
        Sample(phase, "canary_disk_write", write, "B/s"),
        Sample(phase, "canary_disk_read", read, "B/s"),
    ]
