"""Whether the PBS server answers, and when it is queried next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from snakemake_executor_plugin_pbs import events

#: Most seconds between two queries of a server that does not answer.
MAX_PAUSE = 120.0


class ServerStatus:
    """The server is queried every `interval` seconds, with doubling pauses while it does not
    answer. The user is told once when it stops answering, and when it answers again.

    `info` and `warn` print a line. Safe to use from several threads. Times of `clock`.
    """

    def __init__(
        self,
        interval: float,
        info: Callable[[str], object],
        warn: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = interval
        self._info, self._warn, self._clock = info, warn, clock
        self._lock = threading.Lock()
        self._pause = interval
        self._silent = False
        self._next = float("-inf")

    def due(self) -> bool:
        return self._clock() >= self._next

    def hurry(self) -> None:
        """Make a query due now, unless the server does not answer."""
        if not self._silent:
            self._next = float("-inf")

    def answered(self) -> None:
        with self._lock:
            was_silent, self._silent = self._silent, False
            self._pause = self._interval
            self._next = self._clock() + self._interval
        if was_silent:
            self._info(events.ANSWERS_AGAIN)

    def unanswered(self, error: str) -> None:
        with self._lock:
            first, self._silent = not self._silent, True
            self._pause = min(max(self._pause, 1.0) * 2, max(MAX_PAUSE, self._interval))
            self._next = self._clock() + self._pause
            pause = self._pause
        if first:
            self._warn(events.no_answer(error, pause))
