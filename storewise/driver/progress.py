"""What a worker tells while a step runs: a line in its log every ten seconds, and once a second
the small file that `storewise watch` reads. Clients only count; the worker's process, which waits
for them, does the rest."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from storewise.driver.shared_counters import Shared
from storewise.metrics.host import host_name
from storewise.session.coordination.progress import Publisher, State, Told

SAY_EVERY = 10.0


class Progress:
    """The progress of one worker in one phase; to be called about twice a second in a step."""

    def __init__(
        self,
        publisher: Publisher,
        job: str,
        log: logging.Logger,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._publisher, self._job, self._log = publisher, job, log
        self._host = host_name()
        self._step = 0

    def state(self, state: State, step: int) -> None:
        """The clients are about to prepare for a step, or have."""
        self._publisher.put(Told(self._job, self._host, state, time.time(), step))

    def begin(self, shared: Shared, step: int, figures: Callable[[], Mapping[str, float]]) -> None:
        """A step begins, its counts at zero; `figures` gives the last samples."""
        self._shared, self._step, self._figures = shared, step, figures
        self._start = self._clock()
        self._said = self._told = (self._start, 0, 0)
        self._owned: Mapping[str, int] = {}
        self._tell(self._start)

    def __call__(self) -> None:
        now = self._clock()
        if self._publisher.due():
            self._tell(now)
        if now - self._said[0] >= SAY_EVERY:
            operations, documents = self._shared.progress()
            rate = (operations - self._said[1]) / (now - self._said[0])
            self._said = (now, operations, documents)
            self._log.info(
                "step %d: %d operations and %d documents so far, %.0f operations/s",
                self._step,
                operations,
                documents,
                rate,
            )

    def _tell(self, now: float) -> None:
        operations, documents = self._shared.progress()
        owned = self._shared.owned()
        before, operations_before, documents_before = self._told
        length = max(now - before, 1e-9)
        first = now == self._start
        self._publisher.put(
            Told(
                self._job,
                self._host,
                "works",
                time.time(),
                self._step,
                now - self._start,
                operations,
                documents,
                0.0 if first else (operations - operations_before) / length,
                0.0 if first else (documents - documents_before) / length,
                {n: (c - self._owned.get(n, 0)) / length for n, c in owned.items()},
                self._figures(),
            )
        )
        self._told, self._owned = (now, operations, documents), owned
