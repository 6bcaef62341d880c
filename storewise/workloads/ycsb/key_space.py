"""Existing records: those of the load and of later inserts, known without communication.

Records have numbers. The load makes those from ``insertstart`` on. A phase that inserts takes
numbers above all that were ever tried before it, and its clients share them by stride. Each client
notes how many of its numbers it has tried and which of these failed; with the notes of all earlier
phases every client knows the same records. A record whose insert failed may be in the store or
not: it is never read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from storewise.documents import Kind
from storewise.engines.contract.engine import Client
from storewise.errors import StorewiseError
from storewise.workloads.contract import ClientContext
from storewise.workloads.ycsb.keys import Numbers, of_store
from storewise.workloads.ycsb.params import LoadParams

Note = dict[str, Any]
#: Numbers that are looked at together where only those of one store count.
_BLOCK = 8192


class Inserts:
    """The numbers that one client of a phase inserts, given by its note: from `start` on by
    `stride`; with several stores only those whose keys its store holds."""

    def __init__(self, note: Note, load: LoadParams) -> None:
        self.note, self._load = note, load
        end = load.end if note["ycsb"] == "load" else 1 << 62
        self._rest = range(note["start"], end, note["stride"])
        self._left = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> Numbers:
        """The next `count` numbers; fewer where there are no more."""
        shard, stores = self.note["process"], self.note["stores"]
        if stores <= 1:
            return self._walk(count)
        while len(self._left) < count and len(block := self._walk(_BLOCK)):
            own = block[of_store(self._load.keys(block), shard, stores)]
            self._left = np.concatenate((self._left, own))
        numbers, self._left = self._left[:count], self._left[count:]
        return numbers

    def _walk(self, count: int) -> Numbers:
        part, self._rest = self._rest[:count], self._rest[count:]
        return np.arange(part.start, part.stop, part.step, dtype=np.int64)

    def insert(self, client: Client, kind: Kind, documents: Sequence[Any]) -> int:
        """Insert the documents of the numbers that are next; how many they are."""
        note, count = self.note, len(documents)
        first = note["tried"]
        note["tried"] += count
        try:
            client.insert(kind, documents)
        except StorewiseError:
            failed = note["failed"]
            if failed and sum(failed[-1]) == first:
                failed[-1][1] += count
            else:
                failed.append([first, count])
            raise
        return count


def _noted(context: ClientContext, start: int, stride: int) -> Inserts:
    note = {
        "ycsb": context.phase,
        "process": context.shard,
        "start": start,
        "stride": stride,
        "tried": 0,
        "failed": [],
        "stores": context.stores,
    }
    # The driver sends the note when the step has ended, however that came.
    context.notes.append(note)
    return Inserts(note, context.load)


def load_inserts(context: ClientContext) -> Inserts:
    """The inserts of a client of the load."""
    start = context.load.insertstart
    if context.stores > 1:
        return _noted(context, start + context.thread, context.threads)
    return _noted(context, start + context.client, context.clients)


def next_inserts(context: ClientContext, top: int) -> Inserts:
    """The inserts of a client of a later phase: numbers from `top` on.

    A process has those that leave its own number as the rest when divided by the number of
    processes, since it does not know how far the others came in earlier steps. Processes with
    stores of their own share the numbers by the stores that the keys belong to.
    """
    processes = 1 if context.one_store else context.processes
    first = top + (context.shard - top) % processes
    return _noted(context, first + processes * context.thread, processes * context.threads)


class Records:
    """The existing records, by their rank in the order of their numbers.

    The notes are those of all earlier phases, and of earlier steps of `phase` by this process.
    """

    def __init__(self, load: LoadParams, notes: Iterable[Note], phase: str = "") -> None:
        self.load = load
        self.failed = 0
        """Inserts that were not acknowledged."""
        self.top = max(load.recordcount, load.end)
        """Above every number that was ever tried."""
        self.last: list[Numbers] = []
        """Records inserted by each client of a later phase, in its order."""
        missing = [np.empty(0, dtype=np.int64)]
        own = 0
        for note in notes:
            in_load = note["ycsb"] == "load"
            if in_load and not note["failed"]:
                continue
            numbers = Inserts(note, load).take(note["tried"])
            bad = np.zeros(len(numbers), dtype=np.bool_)
            for first, count in note["failed"]:
                bad[first : first + count] = True
            self.failed += int(np.count_nonzero(bad))
            if in_load:
                missing.append(numbers[bad])
                continue
            self.top = max([self.top, *(numbers[-1:] + 1).tolist()])
            self.last.append(numbers[~bad])
            own += len(self.last[-1]) if note["ycsb"] == phase else 0
        # The i-th missing number has so many existing ones below it, less the start.
        sorted_missing = np.sort(np.concatenate(missing))
        self._gaps = sorted_missing - load.insertstart - np.arange(len(sorted_missing))
        self._loaded = load.records - len(sorted_missing)
        self._extra = np.sort(np.concatenate([sorted_missing[:0], *self.last]))
        self.common = len(self) - own
        """So many of the records are known to all clients."""

    def __len__(self) -> int:
        return self._loaded + len(self._extra)

    def numbers(self, places: Numbers) -> Numbers:
        """The numbers of records at these places, 0 <= place < len."""
        numbers = places + self.load.insertstart
        if len(self._gaps):
            numbers += np.searchsorted(self._gaps, places, side="right")
        if len(self._extra):
            late = places >= self._loaded
            numbers[late] = self._extra[places[late] - self._loaded]
        return numbers


_lock = threading.Lock()
_latest: tuple[Sequence[Any], Records] | None = None


def records_before(context: ClientContext) -> Records:
    """The records known at the beginning of a step; the same for all threads of a process."""
    global _latest
    before, load = context.before, context.load
    with _lock:
        if _latest is None or _latest[0] is not before or _latest[1].load is not load:
            _latest = before, Records(load, before, context.phase)
        return _latest[1]
