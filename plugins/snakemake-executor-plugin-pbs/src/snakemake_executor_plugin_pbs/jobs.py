"""The jobs that PBS may have and that are not known to have ended.

Snakemake's own list of active jobs is empty while it asks for their states, and a user often ends
a run then. This table always has all jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_pbs.qstat import JobState


@dataclass(slots=True, eq=False)
class PbsJob:
    """A submitted job. Times in seconds of `time.monotonic`. `info` is Snakemake's description of
    it; `name` is also that of its marks."""

    info: Any
    id: str
    name: str
    log: Path
    submitted: float
    announced: bool = False
    """Whether Snakemake knows that it was submitted: its end must not be reported before."""
    state: JobState | None = None
    """The last one that the server reported."""
    began: bool = False
    """Whether it has made its start mark."""
    exit_mark: int | None = None
    failed_since: float | None = None
    """When its exit mark showed a failure, while PBS is asked for the reason."""
    unknown_since: float | None = None
    """Since when PBS has not known it, or not how it ended."""
    never: int = 0
    """How many times in a row the server has said that it can never run."""
    told: str = ""
    """The last reason for waiting that the user was told, without its numbers."""


class JobTable:
    """All jobs that may still wait or run in PBS; safe to use from several threads.

    A name is unconfirmed from before its qsub until its answer: PBS may have such a job. Unneeded
    are ids of jobs that are to be deleted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, PbsJob] = {}
        self._unconfirmed: set[str] = set()
        self._unneeded: set[str] = set()

    def add(self, job: PbsJob) -> None:
        with self._lock:
            self._jobs[job.id] = job

    def remove(self, job: PbsJob) -> None:
        with self._lock:
            self._jobs.pop(job.id, None)

    def all(self) -> list[PbsJob]:
        with self._lock:
            return list(self._jobs.values())

    def announced(self) -> list[PbsJob]:
        return [job for job in self.all() if job.announced]

    def holds(self, job_id: str | None) -> bool:
        with self._lock:
            return job_id in self._jobs

    def add_unconfirmed(self, name: str) -> None:
        with self._lock:
            self._unconfirmed.add(name)

    def confirm(self, name: str) -> None:
        """Note that the job of this name is in the table, or that PBS certainly has none."""
        with self._lock:
            self._unconfirmed.discard(name)

    def add_unneeded(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._unneeded.update(ids)

    def to_delete(self) -> tuple[list[str], list[str]]:
        """Ids and unconfirmed names of all jobs that PBS may still have."""
        with self._lock:
            return [*self._jobs, *sorted(self._unneeded)], sorted(self._unconfirmed)

    def hand_over(self, ids: Iterable[str], names: Iterable[str] = ()) -> None:
        """Forget jobs that a deletion process deletes."""
        with self._lock:
            for job_id in ids:
                self._jobs.pop(job_id, None)
                self._unneeded.discard(job_id)
            self._unconfirmed.difference_update(names)
