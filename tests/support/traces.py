"""What a run of the tests has left on this machine."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from pathlib import Path

import psutil


def traces(since: float, directory: Path) -> list[str]:
    """Files of ours in shared directories that were made after `since` (Unix time) and that no
    process uses, and processes that work below `directory`."""
    gc.collect()  # DuckDB's directories go with their clients
    used = "".join(_mapped())
    places = [
        *Path("/dev/shm").glob("PostgreSQL.*"),
        *Path(tempfile.gettempdir()).glob("storewise*"),
    ]
    result = []
    for path in sorted(places):
        with contextlib.suppress(FileNotFoundError):
            stat = path.lstat()
            ours = stat.st_ctime >= since and stat.st_uid == os.getuid()
            if ours and str(path) not in used:
                result.append(str(path))
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            below = Path(process.cwd()).is_relative_to(directory)
            if below and process.status() != psutil.STATUS_ZOMBIE:
                result.append(f"process {process.pid}: {' '.join(process.cmdline())[:200]}")
    return result


def _mapped() -> list[str]:
    texts = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            texts.append(maps.read_text())
    return texts
