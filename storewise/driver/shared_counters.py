"""What a worker and its client processes see of each other without a message."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence


class Shared:
    """Memory that parent and clients share: a stop flag, and each thread's progress.

    `owners` are the nodes whose operations are counted apart.
    """

    def __init__(self, processes: int, threads: int, owners: Sequence[str] = ()) -> None:
        self._threads = threads
        self._owners = {name: place for place, name in enumerate(owners)}
        self._width = 2 + len(self._owners)
        self._map = mmap.mmap(-1, 8 * (1 + self._width * processes * threads))
        self._words = memoryview(self._map).cast("q")

    def stop(self) -> None:
        self._words[0] = 1

    def stopped(self) -> bool:
        return bool(self._words[0])

    def report(
        self,
        process: int,
        thread: int,
        operations: int,
        documents: int,
        owned: Mapping[str, int],
    ) -> None:
        at = 1 + self._width * (process * self._threads + thread)
        self._words[at] = operations
        self._words[at + 1] = documents
        for name, count in owned.items():
            place = self._owners.get(name)
            if place is not None:
                self._words[at + 2 + place] = count

    def progress(self) -> tuple[int, int]:
        """(operations, documents) of all threads in the running step."""
        return self._sum(0), self._sum(1)

    def owned(self) -> dict[str, int]:
        """Operations of all threads in the running step by owner; those that have any."""
        counts = {name: self._sum(2 + place) for name, place in self._owners.items()}
        return {name: count for name, count in counts.items() if count}

    def _sum(self, column: int) -> int:
        return sum(self._words[1 + column :: self._width])

    def clear(self) -> None:
        for at in range(1, len(self._words)):
            self._words[at] = 0
