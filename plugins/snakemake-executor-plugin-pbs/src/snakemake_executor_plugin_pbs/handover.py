"""Hands jobs over to a process of its own, which deletes them (`cancel`).

It is not in that module, so that Python can start it as a program after this package was loaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: Ending of the file that says what is left.
LEFT = ".left"
#: What the process could not do, in the directory of the run.
LOG = "cancel.log"


@dataclass(frozen=True, slots=True)
class Handover:
    """The process that deletes jobs, and the file in which it lists the jobs that are left."""

    process: subprocess.Popen[bytes]
    left: Path
    names: Sequence[str] = ()
    """Names of jobs whose qsub has not answered."""

    def remaining(self) -> set[str] | None:
        """Ids and names that PBS had not ended at the last poll; None before the first poll."""
        if self.process.poll() is not None:
            return set() if self.process.returncode == 0 else None
        try:
            return set(json.loads(self.left.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None


def start(
    directory: Path, dialect: str, ids: Sequence[str], names: Sequence[str], *, force: bool = False
) -> Handover:
    """Start the process that deletes jobs; its input and its log (`LOG`) are files in `directory`.
    `force` is ``qdel -W force``: PBS forgets the jobs even if their host does not answer."""
    order = directory / f"cancel.{os.getpid()}.{time.monotonic_ns()}.json"
    what = {"dialect": dialect, "ids": list(ids), "names": list(names), "force": force}
    order.write_text(json.dumps(what), encoding="utf-8")
    with (directory / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "snakemake_executor_plugin_pbs.cancel", str(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Handover(process, order.with_suffix(LEFT), tuple(names))


def tidy(directory: Path) -> None:
    """Remove a run's directory where nothing is left in it: logs stay, and what a process that
    deletes jobs still needs."""
    log = directory / LOG
    busy = any(path != log for path in directory.glob("cancel.*"))
    if not busy and log.exists() and not log.stat().st_size:
        log.unlink()
    with contextlib.suppress(OSError):  # something is in it
        directory.rmdir()
