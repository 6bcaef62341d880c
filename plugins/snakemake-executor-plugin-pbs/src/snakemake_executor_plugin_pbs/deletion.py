"""Deletes jobs in a process of its own, which goes on until they are gone.

The process outlives Snakemake and its terminal: a server that is down for minutes loses no
deletion. Its input is a JSON file, which it removes after it has called qdel for the first time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from snakemake_executor_plugin_pbs.commands import SUBMIT_TIMEOUT, NoAnswer, NoProgram
from snakemake_executor_plugin_pbs.qstat import number_of
from snakemake_executor_plugin_pbs.server import Server

#: Errors of the process, in the directory of the run.
LOG = "cancel.log"
#: Seconds after which the process stops trying.
MAX_SECONDS = 1800.0
#: Seconds after the first qdel before a job is deleted by force.
FORCE_AFTER = 60.0
#: Seconds for which to look for a job by its name: longer than a qsub may take.
FIND_SECONDS = 2 * SUBMIT_TIMEOUT
#: Calls of qdel at a time.
MAX_CALLS = 8
MAX_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Deletion:
    """A process that deletes jobs, and its input."""

    process: subprocess.Popen[bytes]
    order: Path

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def requested(self) -> bool:
        """Whether qdel was called for all of its jobs."""
        return self.ended or not self.order.exists()


def start(
    directory: Path, ids: Sequence[str], names: Sequence[str] = (), *, force: bool = False
) -> Deletion:
    """Start the process that deletes these jobs; its files are in `directory`. `names` are of jobs
    whose qsub has not answered. `force` is ``qdel -W force``: PBS forgets the jobs even if their
    host does not answer."""
    order = directory / f"cancel.{os.getpid()}.{time.monotonic_ns()}.json"
    order.write_text(json.dumps({"ids": [*ids], "names": [*names], "force": force}))
    with (directory / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __package__, str(order)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return Deletion(process, order)


def tidy(directory: Path) -> None:
    """Remove a run's directory where nothing is left in it: logs stay, and the files of a process
    that deletes jobs."""
    log = directory / LOG
    if log.exists() and not log.stat().st_size:
        log.unlink()
    with contextlib.suppress(OSError):  # not empty
        directory.rmdir()


def delete_until_gone(
    server: Server,
    ids: Sequence[str],
    names: Sequence[str],
    *,
    force: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    note: Callable[[str], object] = print,
    requested: Callable[[], object] = lambda: None,
) -> list[str]:
    """Delete jobs and wait until PBS has ended or forgotten them. Returns the ids and names left
    after `MAX_SECONDS`; `requested` is called when qdel was called for all of them. `force` uses
    ``qdel -W force`` at once, else it is used after `FORCE_AFTER` seconds."""
    began = clock()
    left, missing = list(ids), list(names)
    first_tried: dict[str, float] = {}
    accepted: set[str] = set()
    pause = 0.5
    while True:
        try:
            missing = _find(server, missing, left) if clock() - began <= FIND_SECONDS else []
            now = clock()
            wait = 0.0 if force else FORCE_AFTER
            late = {i for i in left if now - first_tried.setdefault(i, now) >= wait}
            _delete(server, left, late, accepted, note)
            requested()
            answer = server.states(left) if left else None
            if answer is not None:
                over = {job_id for job_id, state in answer.states.items() if state.over}
                left = [job_id for job_id in left if job_id not in answer.unknown | over]
        except NoAnswer as error:
            note(f"no answer: {error}")
        except NoProgram as error:
            note(str(error))
            return [*left, *missing]
        if not left and not missing:
            return []
        if clock() - began > MAX_SECONDS:
            return [*left, *missing]
        # PBS needs time to end a job, and there is no event to wait for.
        sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE)


def _find(server: Server, names: Sequence[str], left: list[str]) -> list[str]:
    """Add the jobs of these names to `left`; returns the names that PBS does not know."""
    missing = []
    for name in names:
        ids = server.find(name)
        if not ids:
            missing.append(name)
        known = {number_of(job_id) for job_id in left}
        left += [job_id for job_id in ids if number_of(job_id) not in known]
    return missing


def _delete(
    server: Server,
    ids: Sequence[str],
    late: set[str],
    accepted: set[str],
    note: Callable[[str], object],
) -> None:
    """Call qdel for the jobs whose deletion PBS has not accepted yet; with force for the `late`
    ones, because a plain qdel fails if their host does not answer."""

    def delete(job_id: str) -> tuple[str, str | None]:
        return job_id, server.delete(job_id, force=job_id in late)

    with ThreadPoolExecutor(MAX_CALLS) as pool:
        for job_id, error in pool.map(delete, [i for i in ids if i in late or i not in accepted]):
            if error is None:
                accepted.add(job_id)
            else:
                note(f"qdel {job_id}: {error}")


def main(path: Path) -> int:
    """Entry point of the process; exit status 1 if jobs are left."""
    # The parent process may have ignored this signal, and a child inherits that.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    order = json.loads(path.read_text())

    def note(text: str) -> None:
        sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")

    left = delete_until_gone(
        Server(), **order, note=note, requested=lambda: path.unlink(missing_ok=True)
    )
    path.unlink(missing_ok=True)
    tidy(path.parent)
    if left:
        note(f"given up; PBS may still have: {' '.join(left)}")
    return 1 if left else 0
