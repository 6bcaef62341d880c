"""The cluster jobs of a run that have not ended.

Snakemake's executors cancel a run's jobs. The run's lease names them, so that the next run cancels
what a killed one has left; and jobs of an aborted trial that still wait in the queue, or whose host
no longer answers, are cancelled here: the run would wait for them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from storewise.schedulers.queue import SLURM_RUN, cancel, present

#: For the jobs of an aborted trial to end by themselves, s. A server that ends in order takes less.
OVERDUE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A job that was submitted; `kind` as in `storewise.schedulers.queue`."""

    id: str
    kind: str
    trial: str = ""
    """Empty where it belongs to none."""


@dataclass
class RunJobs:
    """The jobs of one run, by Snakemake's id of each (a group's, for those in it)."""

    clock: Callable[[], float] = time.monotonic
    _jobs: dict[str, ClusterJob] = field(default_factory=dict)
    _aborted: dict[str, float] = field(default_factory=dict)
    """When `cancel_overdue` first heard of an aborted trial."""
    _said: set[str] = field(default_factory=set)
    """Sentences of `cancel_overdue`."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submitted(self, jobid: str, job: ClusterJob) -> None:
        with self._lock:
            self._jobs[jobid] = job

    def ended(self, jobid: str) -> None:
        with self._lock:
            self._jobs.pop(jobid, None)

    def unfinished(self) -> list[ClusterJob]:
        with self._lock:
            return list(self._jobs.values())

    def ids(self) -> dict[str, tuple[str, ...]]:
        """Ids of unfinished jobs by kind, for the lease."""
        jobs = self.unfinished()
        kinds = sorted({job.kind for job in jobs})
        return {kind: tuple(job.id for job in jobs if job.kind == kind) for kind in kinds}

    def cancel_overdue(self, aborted: Iterable[str]) -> list[str]:
        """Cancel by force the jobs left of trials that were aborted `OVERDUE_SECONDS` ago.

        To be called every few seconds with the aborted trials: what the scheduler refuses is tried
        again. Returns a sentence for each job, and for each refusal, once.
        """
        now = self.clock()
        self._aborted = {trial: self._aborted.get(trial, now) for trial in aborted}
        late = {t for t, since in self._aborted.items() if now - since >= OVERDUE_SECONDS}
        jobs = {
            job.id: job for job in self.unfinished() if job.trial in late and job.kind != SLURM_RUN
        }
        sentences = []
        for kind in sorted({job.kind for job in jobs.values()}):
            ids = [job.id for job in jobs.values() if job.kind == kind]
            left = sorted(present(kind, ids) or ())
            sentences += [
                f"job {job_id} is still there {OVERDUE_SECONDS:.0f} s after its trial "
                f"{jobs[job_id].trial} ended: it is cancelled"
                for job_id in left
            ]
            sentences += cancel(kind, left, force=True)
        new = [sentence for sentence in sentences if sentence not in self._said]
        self._said |= {*new}
        return new


def cancel_jobs(ids: Mapping[str, Iterable[str]]) -> list[str]:
    """Cancel the jobs that a lease names; a sentence for each command that was not accepted."""
    return [sentence for kind, some in ids.items() for sentence in cancel(kind, list(some))]
