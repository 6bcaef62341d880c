"""The progress of workers and nodes of a live trial, about once a second, for `storewise watch`: a
small file each, ``live/<trial>/progress/<job>.json``, renamed into place.

Nothing depends on these files. Where one cannot be written (a full disk) its job goes on without.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from storewise.atomic import read_as, write_aside

PROGRESS = "progress"
#: Seconds from one record of a job to its next, at least.
EVERY = 1.0

State = Literal["prepares", "waits", "works", "serves"]


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The current state of a job."""

    job: str
    """``<phase>.<worker>``, or the name of a node."""
    host: str
    state: State
    """A worker's clients prepare, wait for the other workers, or work; a node serves."""
    at: float
    """Unix time of the job's host."""
    step: int = 0
    seconds: float = 0.0
    """Since the start of the step."""
    operations: int = 0
    """Operations of the step so far, failed ones included."""
    documents: int = 0
    operations_per_s: float = 0.0
    """Since the record before."""
    documents_per_s: float = 0.0
    owners: Mapping[str, float] = field(default_factory=dict)
    """Operations/s by the node that owned their documents, where clients can tell."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """The last second's samples by metric (`docs/results.md`); processes are summed."""


class ProgressFile:
    """The file of one job."""

    def __init__(
        self,
        live: Path,
        job: str,
        log: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job, self._clock = job, clock
        self._live, self._path, self._log = live, live / PROGRESS / f"{job}.json", log
        self._next = 0.0
        self._broken = False

    def due(self) -> bool:
        """Whether the last record is old enough."""
        return self._clock() >= self._next

    def put(self, progress: JobProgress) -> None:
        """Write a record, in place of the one before."""
        self._next = self._clock() + EVERY
        if self._broken:
            return
        try:
            self._path.parent.mkdir(exist_ok=True)
            write_aside(self._path, json.dumps(asdict(progress)) + "\n")
        except OSError as error:
            # The measurement counts, not who looks at it; a session that ends is no news.
            self._broken = True
            if self._live.is_dir():
                self._log.warning("`storewise watch` will not see this job: %s", error)

    def remove(self) -> None:
        """The job ends."""
        self._path.unlink(missing_ok=True)


def progress_of(live: Path) -> dict[str, tuple[JobProgress, float]]:
    """The last records of a live trial's jobs, each with the time of its file (Unix)."""
    records: dict[str, tuple[JobProgress, float]] = {}
    for path in sorted((live / PROGRESS).glob("[!.]*.json")):
        try:
            records[path.stem] = (read_as(JobProgress, path), path.stat().st_mtime)
        except (OSError, ValueError):
            continue  # the job has ended meanwhile, or is of another version
    return records
