"""What a run of the tests has left on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from multiprocessing import resource_tracker
from pathlib import Path

import psutil


def open_temporary_directory() -> Path:
    """Make this run's own directory for temporary files, which other users may write, too.

    It becomes TMPDIR of this process and of all that it starts, so what is found in it afterwards
    is of this run, whatever else works on this machine. pytest's directories stay where they are.
    """
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    directory = Path(tempfile.mkdtemp(prefix="tests-"))
    directory.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(directory)
    return directory


def close_temporary_directory(directory: Path) -> None:
    """Remove it with what is left in it."""
    shutil.rmtree(directory, ignore_errors=True)
    os.environ["TMPDIR"] = tempfile.tempdir = os.environ["PYTEST_DEBUG_TEMPROOT"]


def traces(since: float, directory: Path, temporary: Path) -> list[str]:
    """What this run of the tests left behind.

    That is: Storewise's files in `temporary`, shared memory of PostgreSQL that was made after
    `since` (Unix time) and that no process uses, and processes that work below `directory`.
    """
    result = sorted(map(str, temporary.glob("storewise*")))
    used = "".join(_mapped())
    for path in sorted(Path("/dev/shm").glob("PostgreSQL.*")):
        with contextlib.suppress(FileNotFoundError):
            stat = path.lstat()
            ours = stat.st_ctime >= since and stat.st_uid == os.getuid()
            if ours and str(path) not in used:
                result.append(str(path))
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            # A test whose working directory was below may have started multiprocessing's helper,
            # which lives as long as this process.
            below = Path(process.cwd()).is_relative_to(directory) and process.pid != tracker
            if below and process.status() != psutil.STATUS_ZOMBIE:
                result.append(f"process {process.pid}: {' '.join(process.cmdline())[:200]}")
    return result


def _mapped() -> list[str]:
    texts = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            texts.append(maps.read_text())
    return texts
