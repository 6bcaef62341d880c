"""The jobs that PBS has queued and that are not known to have ended.

Snakemake's own list of active jobs is empty while it asks for their states, and a user often ends
a run then. This table always has all jobs.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_pbs.qstat import JobState, array_of


@dataclass(slots=True, eq=False)
class PbsJob:
    """A submitted job. Times in seconds of `time.monotonic`.

    `info` is what Snakemake is told of it. `key` names its marks, `host` is the one that it was
    sent to, if any.
    """

    info: Any
    id: str
    name: str
    key: str
    log: Path
    submitted: float
    host: str | None = None
    announced: bool = False
    """Whether Snakemake knows that it was submitted: its end must not be told before."""
    state: JobState | None = None
    """What the server said last."""
    began: bool = False
    """Whether it has made its start mark."""
    unknown_since: float | None = None
    failed_since: float | None = None
    """Since when it is known to have failed, while PBS is asked for the reason."""
    exit_mark: int | None = None
    never: int = 0
    """How many times in a row the server has said that it can never run."""
    told: str = ""
    """The essence of the last comment that the user was told."""


class JobTable:
    """All jobs that may still wait or run in PBS; safe to use from several threads.

    `unconfirmed` are names of jobs whose qsub has not answered (yet): PBS may have queued them.
    `handed_over` are unconfirmed names whose jobs a deletion process deletes. `unneeded` are ids of
    jobs to be deleted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, PbsJob] = {}
        self._arrays: dict[str, int] = {}
        self._unconfirmed: set[str] = set()
        self._handed_over: set[str] = set()
        self._unneeded: set[str] = set()

    def add(self, jobs: Iterable[PbsJob]) -> None:
        with self._lock:
            for job in jobs:
                self._jobs[job.id] = job
                array = array_of(job.id)
                if array is not None:
                    self._arrays[array] = self._arrays.get(array, 0) + 1

    def remove(self, job: PbsJob) -> None:
        with self._lock:
            self._jobs.pop(job.id, None)

    def all(self) -> list[PbsJob]:
        with self._lock:
            return list(self._jobs.values())

    def announced(self) -> list[PbsJob]:
        with self._lock:
            return [job for job in self._jobs.values() if job.announced]

    def holds(self, job_id: str | None) -> bool:
        with self._lock:
            return job_id in self._jobs

    def add_unconfirmed(self, name: str) -> None:
        with self._lock:
            self._unconfirmed.add(name)

    def confirm(self, name: str) -> None:
        """Note that PBS has queued a job of this name, or certainly has not."""
        with self._lock:
            self._unconfirmed.discard(name)
            self._handed_over.discard(name)

    def unconfirmed_names(self) -> set[str]:
        with self._lock:
            return self._unconfirmed | self._handed_over

    def add_unneeded(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._unneeded.update(ids)

    def to_delete(self) -> tuple[list[str], list[str]]:
        """Ids and names of all jobs that PBS may still have, without those handed over."""
        with self._lock:
            return [*self._jobs, *sorted(self._unneeded)], sorted(self._unconfirmed)

    def mark_handed_over(self, ids: Iterable[str], names: Iterable[str]) -> None:
        """Note that a deletion process deletes these jobs."""
        with self._lock:
            for job_id in ids:
                self._jobs.pop(job_id, None)
                self._unneeded.discard(job_id)
            for name in set(names) & self._unconfirmed:
                self._unconfirmed.discard(name)
                self._handed_over.add(name)

    def whole_arrays(self, ids: Sequence[str]) -> list[str]:
        """Replace the ids of an array's jobs by the array's id if all its jobs are given."""
        with self._lock:
            of = Counter(array_of(job_id) for job_id in ids)
            whole = {array for array in of if array and of[array] == self._arrays.get(array)}
        return [*(i for i in ids if array_of(i) not in whole), *sorted(whole)]
