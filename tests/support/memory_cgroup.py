"""A cgroup that allows no memory: the kernel kills who is put there as soon as he needs some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.needs import unavailable
from support.waiting import wait_until


@contextmanager
def without_memory(pid: int) -> Iterator[None]:
    """Put a process there; the process must have ended when the block ends, or within a minute."""
    top, limit = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
    if not (top / limit).exists():  # version 2 of cgroups
        top, limit = Path("/sys/fs/cgroup"), "memory.max"
    group = top / f"storewise-test-{pid}"
    try:
        group.mkdir()
    except OSError as error:
        unavailable(f"no cgroup can be made here: {error}")
    try:
        (group / limit).write_text("0")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), 60, "the kernel's kill")
        group.rmdir()
