"""The jobs that workers of a phase share, and the files of each.

With `workers_per_job` above 1 a job of the workflow runs that many workers of one phase, each on a
host of its own where the job has several. A job is named by the number of its first worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storewise.layout import TRIALS
from storewise.study.trial import Trial


@dataclass(frozen=True, slots=True)
class Share:
    """The workers of a phase and their jobs; `directory` is the trial's, with its results."""

    directory: Path
    workers: int
    per_job: int = 1

    @classmethod
    def of(cls, trial: Trial, directory: Path, per_job: int) -> Share:
        return cls(directory, trial.workers, per_job)

    @property
    def firsts(self) -> range:
        """The first workers of all jobs of a phase."""
        return range(0, self.workers, self.per_job)

    def members(self, first: int) -> range:
        """The workers of the job whose first worker this is."""
        return range(first, min(first + self.per_job, self.workers))

    def result(self, phase: str, worker: int) -> Path:
        """A worker's result part."""
        return self.directory / f"{phase}.{worker}.parquet"

    def hdr_log(self, phase: str, worker: int) -> Path:
        """Its Hdr interval log."""
        return self.directory / f"{phase}.{worker}.hlog"

    def written(self, worker: int) -> Path:
        """The list of the files that a loading worker stored."""
        return self.directory / f"written.{worker}.parquet"

    def store(self, worker: int) -> Path:
        """A loading worker's directory of stores; workers of one job have theirs together."""
        place = self.directory / f"store.{worker - worker % self.per_job}"
        return place if self.per_job == 1 else place / f"{worker}"

    def index(self, phase: str, first: int) -> Path:
        """The file that a job of several workers writes at its end: the names of their files."""
        return self.directory / f"{phase}.{first}.workers"

    def outputs(self, phase: str) -> Iterator[Path]:
        """The outputs of a phase in the workflow: its parts, or the indexes of shared jobs."""
        for first in self.firsts:
            yield self.result(phase, first) if self.per_job == 1 else self.index(phase, first)

    def results(self, *phases: str) -> tuple[Path, ...]:
        """The parts of all workers of some phases, in this order."""
        return tuple(self.result(phase, k) for phase in phases for k in range(self.workers))

    def all_written(self) -> tuple[Path, ...]:
        return tuple(self.written(worker) for worker in range(self.workers))

    def stores(self) -> tuple[Path, ...]:
        return tuple(self.store(worker) for worker in range(self.workers))


def lost_indexes(results: Path) -> list[Path]:
    """Indexes in a directory of results that name a file which is not there (any more)."""
    return [
        index
        for index in sorted(results.glob(f"{TRIALS}/*/*.workers"))
        if not all((index.parent / name).exists() for name in index.read_text().split())
    ]
