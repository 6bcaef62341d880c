"""Jobs that a scheduler still shows long after their trial was aborted: they are deleted by force.

A job on a host that no longer answers counts as running for minutes (in OpenPBS 310 s,
`node_fail_requeue`), and a run waits for its jobs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from storewise.schedulers.job_registry import ClusterJob, registered
from storewise.schedulers.queue import SLURM_RUN, delete_by_force, host_of, present

#: Seconds that the jobs of an aborted trial get to end by themselves; a server that ends in order
#: takes less.
AFTER = 60.0
TITLES = {"pbs": "PBS", "slurm": "Slurm"}


@dataclass
class Overdue:
    """Looks after the aborted trials of a run."""

    root: Path
    run: str
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)
    _deleted: set[str] = field(default_factory=set)

    def end(self, aborted: Iterable[str]) -> list[str]:
        """Delete by force what is left of trials that were aborted `AFTER` seconds ago; a sentence
        for each job. To be called every few seconds with the aborted trials."""
        now = self.clock()
        self._since = {trial: self._since.get(trial, now) for trial in aborted}
        late = {trial for trial, since in self._since.items() if now - since >= AFTER}
        jobs = [
            job
            for job in (registered(self.root, self.run) if late else [])
            if job.trial in late and job.kind != SLURM_RUN and job.id not in self._deleted
        ]
        sentences = []
        for kind in sorted({job.kind for job in jobs}):
            left = present(kind, [job.id for job in jobs if job.kind == kind]) or set()
            for job in (job for job in jobs if job.id in left):
                self._deleted.add(job.id)
                sentences.append(_sentence(job, host_of(kind, job.id)))
            delete_by_force(kind, sorted(left))
        return sentences


def _sentence(job: ClusterJob, host: str) -> str:
    name = f" ({job.name})" if job.name else ""
    where = f" on host {host}" if host else ""
    return (
        f"{TITLES[job.kind]} still shows job {job.id}{name}{where} {AFTER:.0f} s after its trial "
        f"{job.trial} ended: it is deleted by force"
    )
