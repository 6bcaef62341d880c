"""A clock and a sleep to hand in, so that what waits is tested exactly and at once."""

from __future__ import annotations

from collections.abc import Callable

NS = 1_000_000_000


class FakeTime:
    """Time that passes only when somebody sleeps or works, by exactly what they ask for.

    Hand in `clock` (s) or `clock_ns` for a clock and `sleep` for ``time.sleep``. Code that waits by
    reading its clock again and again needs a `tick`: ns that each reading takes.
    """

    def __init__(self, *, start: float = 1000.0, tick: int = 0) -> None:
        self.ns = round(start * NS)
        """What time it is; a test may set it."""
        self.sleeps: list[float] = []
        """Seconds of each sleep, in order."""
        self.readings = 0
        """How often the clock was read."""
        self._tick = tick
        self._due: list[tuple[int, Callable[[], object]]] = []

    @property
    def now(self) -> float:
        """What time it is in s; looking costs nothing."""
        return self.ns / NS

    def clock_ns(self) -> int:
        """The clock in ns: a reading takes its tick, and gives the time at its end."""
        self.readings += 1
        self._pass(self._tick)
        return self.ns

    def clock(self) -> float:
        """The same in s."""
        return self.clock_ns() / NS

    def sleep(self, seconds: float) -> None:
        """Let time pass, as ``time.sleep``."""
        self.sleeps.append(seconds)
        self._pass(round(seconds * NS))

    def spend(self, seconds: float) -> None:
        """Let time pass, as an operation that lasts so long."""
        self._pass(round(seconds * NS))

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Do something as soon as so many seconds have passed from now."""
        self._due.append((self.ns + round(seconds * NS), do))

    def _pass(self, ns: int) -> None:
        self.ns += ns
        for entry in sorted(self._due, key=lambda entry: entry[0]):
            if entry[0] <= self.ns:
                self._due.remove(entry)
                entry[1]()
