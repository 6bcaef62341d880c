"""The cluster jobs of a run: a registry on the shared file system, and cancelling what is in it.

A run that ends by an error may leave jobs behind, and a killed run always does. So the run
registers each job here when its executor says that it was submitted, and cancels at its end what is
still registered; of a killed run, the next one does.

Layout, below the directory in which Snakemake works: ``.snakemake/storewise/jobs/<run>/<job id>``,
a `ClusterJob` as a JSON object each; ``.cancel.log`` beside them is no job.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from storewise.atomic import write_aside
from storewise.processes import library_environment
from storewise.schedulers.queue import Cancelling, note

_log = logging.getLogger(__name__)

REGISTRY = Path(".snakemake") / "storewise" / "jobs"
CANCEL_LOG = ".cancel.log"
#: Seconds for which a cancelling process goes on trying.
CANCEL_FOR = 300.0


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A registered job, and what `storewise.schedulers.queue` calls its kind."""

    id: str
    kind: str
    trial: str = ""
    """Empty where it belongs to none."""
    name: str = ""
    """What the scheduler calls it, where we know."""


def run_directory(root: Path, run: str) -> Path:
    """Where the jobs of a run are registered; `root` is the directory in which Snakemake works."""
    return root / REGISTRY / run


def register(root: Path, run: str, job: ClusterJob) -> None:
    """Register a job that was submitted. ValueError for an id that is none."""
    if not job.id or "/" in job.id or job.id.startswith("."):
        raise ValueError(f"{job.id!r} is not a job id")
    directory = run_directory(root, run)
    directory.mkdir(parents=True, exist_ok=True)
    write_aside(directory / job.id, json.dumps(asdict(job)) + "\n")


def forget(root: Path, run: str, job_ids: Iterable[str]) -> None:
    """Take jobs that have ended out of the registry."""
    for job_id in job_ids:
        (run_directory(root, run) / job_id).unlink(missing_ok=True)


def registered(root: Path, run: str) -> list[ClusterJob]:
    """The jobs of a run that are not known to have ended."""
    jobs = []
    for path in sorted(run_directory(root, run).glob("[!.]*")):
        try:
            jobs.append(ClusterJob(**json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            continue  # the job ended and was removed meanwhile
        except (ValueError, TypeError) as error:  # damaged by a crash or a full disk
            _log.warning(
                "%s cannot be read, so job %s is not cancelled: %s", path, path.name, error
            )
    return jobs


def runs(root: Path) -> list[str]:
    """Runs that have a registry here: this one, and those that ended with jobs."""
    return sorted(path.name for path in (root / REGISTRY).glob("*/"))


def cancel_all(root: Path, run: str) -> int:
    """Cancel every registered job of a run that is at its end, in a process of its own.

    Returns at once the number of jobs that are being cancelled. Call it when a run ends (it costs
    nothing where no job is left) and for killed runs when the next one starts.
    """
    jobs = registered(root, run)
    if jobs:
        _cancel_detached(root, run)
    else:
        remove_registry(root, run)
    return len(jobs)


def remove_registry(root: Path, run: str) -> None:
    """Remove the registry of a run that has no jobs any more."""
    directory = run_directory(root, run)
    for path in directory.glob("*"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        directory.rmdir()


def _cancel_detached(root: Path, run: str) -> None:
    """Start a process that cancels the registered jobs of a run and goes on until they are gone.
    It outlives the caller and its terminal."""
    command = [sys.executable, "-m", "storewise.schedulers.job_registry", str(root.resolve()), run]
    with (run_directory(root, run) / CANCEL_LOG).open("ab") as log:
        subprocess.Popen(
            command,
            cwd=root,
            env=library_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def cancel_until_gone(root: Path, run: str) -> list[str]:
    """Cancel the registered jobs of a run and wait until they are gone.

    Returns the ids that were still there after `CANCEL_FOR` seconds.
    """
    started = time.monotonic()
    cancelling = Cancelling()
    pause = 0.5
    while True:
        jobs = registered(root, run)
        for kind in sorted({job.kind for job in jobs}):
            ids = [job.id for job in jobs if job.kind == kind]
            forget(root, run, cancelling.round(kind, ids))
        left = [job.id for job in registered(root, run)]
        if not left:
            remove_registry(root, run)
            return []
        if time.monotonic() - started > CANCEL_FOR:
            return left
        # The scheduler needs time to end a job, and there is no event to wait for.
        time.sleep(pause)
        pause = min(pause * 1.5, 10.0)


def main(root: str, run: str) -> int:
    """``ROOT RUN``: what `cancel_all` starts."""
    left = cancel_until_gone(Path(root), run)
    if left:
        note(f"still there after {CANCEL_FOR:.0f} s: {' '.join(left)}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
