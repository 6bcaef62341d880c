"""The progress of a running step, for `storewise watch`.

Clients count in memory that they share with the worker; once a second the worker, which waits for
them, writes its record.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from storewise.metrics.hdr import Integers
from storewise.metrics.host import host_name
from storewise.session.coordination.progress import JobProgress, ProgressFile, State


class SharedCounters:
    """Memory that a worker and its clients share: a stop flag, and each thread's counts in the
    running step.

    `owners` are the nodes whose operations are counted apart.
    """

    def __init__(self, processes: int, threads: int, owners: Sequence[str] = ()) -> None:
        self.columns = {name: column for column, name in enumerate(owners, 2)}
        """Owner -> column of its operations in `totals`, after all operations and documents."""
        shape = (processes, threads, 2 + len(owners))
        memory = np.frombuffer(mmap.mmap(-1, 8 * (1 + int(np.prod(shape)))), dtype=np.int64)
        self._flag, self._counts = memory[:1], memory[1:].reshape(shape)

    def stop(self) -> None:
        self._flag[0] = 1

    def stopped(self) -> bool:
        return bool(self._flag[0])

    def report(
        self,
        process: int,
        thread: int,
        operations: int,
        documents: int,
        owned: Mapping[str, int],
    ) -> None:
        """Set a thread's counts; `owned` are its operations by owner."""
        counts = self._counts[process, thread]
        counts[:2] = operations, documents
        for name, count in owned.items():
            if name in self.columns:
                counts[self.columns[name]] = count

    def totals(self) -> Integers:
        """Operations, documents and each owner's operations, of all threads."""
        return np.asarray(self._counts.sum(axis=(0, 1)))

    def clear(self) -> None:
        self._counts[:] = 0


class StepProgress(ProgressFile):
    """The progress of one worker in one phase; to be called about twice a second in a step."""

    def state(self, state: State, step: int) -> None:
        """Record that the clients prepare for a step, or are ready."""
        self.put(JobProgress(self.job, host_name(), state, time.time(), step))

    def begin(
        self, counters: SharedCounters, step: int, figures: Callable[[], Mapping[str, float]]
    ) -> None:
        """A step begins, its counts at zero; `figures` returns the last samples."""
        self._counters, self._step, self._figures = counters, step, figures
        self._start = self._written_at = self._clock()
        self._totals = counters.totals()
        self._write()

    def __call__(self) -> None:
        if self.due():
            self._write()

    def _write(self) -> None:
        now, totals = self._clock(), self._counters.totals()
        # At the step's start there are no rates yet.
        rates = (totals - self._totals) / ((now - self._written_at) or 1.0)
        columns = self._counters.columns.items()
        self.put(
            JobProgress(
                self.job,
                host_name(),
                "works",
                time.time(),
                self._step,
                now - self._start,
                int(totals[0]),
                int(totals[1]),
                float(rates[0]),
                float(rates[1]),
                owners={name: float(rates[column]) for name, column in columns if totals[column]},
                figures=self._figures(),
            )
        )
        self._written_at, self._totals = now, totals
