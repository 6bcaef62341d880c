"""The progress of a running step. Clients only count, in memory that they share with the worker;
the worker's process, which waits for them, writes a line in its log every ten seconds, and once a
second the small file that `storewise watch` reads."""

from __future__ import annotations

import math
import mmap
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from storewise.metrics.host import host_name
from storewise.session.coordination.progress import JobProgress, ProgressFile, State

LOG_EVERY = 10.0


class SharedCounters:
    """Memory that parent and clients share: a stop flag, and each thread's counts.

    `owners` are the nodes whose operations are counted apart.
    """

    def __init__(self, processes: int, threads: int, owners: Sequence[str] = ()) -> None:
        self._places = {name: 2 + place for place, name in enumerate(owners)}
        shape = (processes, threads, 2 + len(owners))
        words = np.frombuffer(mmap.mmap(-1, 8 * (1 + int(np.prod(shape)))), dtype=np.int64)
        self._flag, self._counts = words[:1], words[1:].reshape(shape)

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
        mine = self._counts[process, thread]
        mine[:2] = operations, documents
        for name, count in owned.items():
            if name in self._places:
                mine[self._places[name]] = count

    def totals(self) -> tuple[int, int]:
        """(operations, documents) of all threads in the running step."""
        operations, documents = self._counts[..., :2].sum(axis=(0, 1)).tolist()
        return operations, documents

    def owned(self) -> dict[str, int]:
        """Operations of all threads in the running step by owner; those that have any."""
        counts = self._counts.sum(axis=(0, 1)).tolist()
        return {name: counts[place] for name, place in self._places.items() if counts[place]}

    def clear(self) -> None:
        self._counts[:] = 0


class StepProgress(ProgressFile):
    """The progress of one worker in one phase; to be called about twice a second in a step."""

    def state(self, state: State, step: int) -> None:
        """The clients are about to prepare for a step, or have."""
        self.put(JobProgress(self.job, host_name(), state, time.time(), step))

    def begin(
        self, counters: SharedCounters, step: int, figures: Callable[[], Mapping[str, float]]
    ) -> None:
        """A step begins, its counts at zero; `figures` gives the last samples."""
        self._counters, self._step, self._figures = counters, step, figures
        self._start = self._clock()
        self._logged = self._written = (self._start, 0, 0)
        self._owned: Mapping[str, int] = {}
        self._write(self._start)

    def __call__(self) -> None:
        now = self._clock()
        if self.due():
            self._write(now)
        since, before, _ = self._logged
        if now - since >= LOG_EVERY:
            operations, documents = self._counters.totals()
            self._logged = (now, operations, documents)
            self._log.info(
                "step %d: %d operations and %d documents so far, %.0f operations/s",
                self._step,
                operations,
                documents,
                (operations - before) / (now - since),
            )

    def _write(self, now: float) -> None:
        operations, documents = self._counters.totals()
        owned = self._counters.owned()
        since, operations_before, documents_before = self._written
        # At the step's start there are no rates yet.
        length = now - since or math.inf
        self.put(
            JobProgress(
                self.job,
                host_name(),
                "works",
                time.time(),
                self._step,
                now - self._start,
                operations,
                documents,
                (operations - operations_before) / length,
                (documents - documents_before) / length,
                {n: (c - self._owned.get(n, 0)) / length for n, c in owned.items()},
                self._figures(),
            )
        )
        self._written, self._owned = (now, operations, documents), owned
