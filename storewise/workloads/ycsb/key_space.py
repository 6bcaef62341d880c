"""Which records exist: those of the load and all that clients inserted since, without talking.

Records have numbers. The load makes those from ``insertstart`` on. A phase that inserts takes
numbers above all that were ever tried before it, and its clients share them by stride. Each client
notes how many of its numbers it has tried and which of these failed; with the notes of all earlier
phases every client knows the same records. A record whose insert failed may be in the store or
not: it is never read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from storewise.workloads.contract import ClientContext
from storewise.workloads.ycsb.keys import Numbers, of_store
from storewise.workloads.ycsb.params import LoadParams

#: Numbers that are looked at together where only those of one store count.
_BLOCK = 8192
_NONE = np.empty(0, dtype=np.int64)


class Numbering:
    """The numbers start, start + stride, ... of one client, below `end`; with a `shard`, only
    those whose keys this one of several stores holds.

    A block that is ever looked at begins at a multiple of the block's length, so that the same
    numbers come out whatever the sizes in which they are taken.
    """

    def __init__(
        self,
        start: int,
        stride: int,
        load: LoadParams,
        *,
        end: int | None = None,
        shard: int = 0,
        stores: int = 0,
    ) -> None:
        self._next, self._stride, self._end = start, stride, end
        self._load, self._shard, self._stores = load, shard, stores
        self._left = _NONE

    def take(self, count: int) -> Numbers:
        """The next `count` numbers; fewer where there are no more."""
        if self._stores <= 1:
            return self._walk(count)
        while len(self._left) < count:
            block = self._walk(_BLOCK)
            if not len(block):
                break
            mine = of_store(self._load.keys(block), self._shard, self._stores)
            self._left = np.concatenate((self._left, block[mine]))
        numbers, self._left = self._left[:count], self._left[count:]
        return numbers

    def _walk(self, count: int) -> Numbers:
        if self._end is not None:
            count = min(count, max(0, -(-(self._end - self._next) // self._stride)))
        numbers = self._next + self._stride * np.arange(count, dtype=np.int64)
        self._next += self._stride * count
        return numbers


class Inserts:
    """The numbers that one client of a phase inserts, and the note on them for later phases."""

    def __init__(
        self,
        context: ClientContext,
        load: LoadParams,
        start: int,
        stride: int,
        end: int | None = None,
    ) -> None:
        stores = context.stores if context.stores > 1 else 0
        numbers = Numbering(start, stride, load, end=end, shard=context.shard, stores=stores)
        self.take = numbers.take
        self.note: dict[str, Any] = {
            "ycsb": context.phase,
            "step": context.step,
            "process": context.shard,
            "start": start,
            "stride": stride,
            "tried": 0,
            "failed": [],
            "stores": stores,
        }
        # The driver sends the note when the step has ended, however that came.
        context.notes.append(self.note)

    def failed(self, first: int, count: int = 1) -> None:
        """The numbers from the `first`-th that this client tried have failed."""
        runs = self.note["failed"]
        if runs and runs[-1][0] + runs[-1][1] == first:
            runs[-1][1] += count
        else:
            runs.append([first, count])


def tried(note: Mapping[str, Any], load: LoadParams, *, loading: bool) -> Numbers:
    """All numbers that a note says were tried, in their order."""
    numbering = Numbering(
        note["start"],
        note["stride"],
        load,
        end=load.end if loading else None,
        shard=note["process"],
        stores=note["stores"],
    )
    return numbering.take(note["tried"])


def _failed(note: Mapping[str, Any], numbers: Numbers) -> Numbers:
    runs = [numbers[first : first + count] for first, count in note["failed"]]
    return np.concatenate(runs) if runs else _NONE


class Records:
    """The records that exist, by their place in the order of their numbers."""

    def __init__(self, load: LoadParams, notes: Iterable[Mapping[str, Any]]) -> None:
        self.load = load
        missing, extra, lost = [_NONE], [_NONE], 0
        self.top = max(load.recordcount, load.end)
        """Above every number that was ever tried."""
        self.last: list[Numbers] = []
        """What each client of a later phase inserted, in its order."""
        for note in notes:
            if "ycsb" not in note:
                continue
            in_load = note["ycsb"] == "load"
            if in_load and not note["failed"]:
                continue
            numbers = tried(note, load, loading=in_load)
            bad = _failed(note, numbers)
            lost += len(bad)
            if in_load:
                missing.append(bad)
                continue
            if len(numbers):
                self.top = max(self.top, int(numbers[-1]) + 1)
            good = np.setdiff1d(numbers, bad, assume_unique=True) if len(bad) else numbers
            extra.append(good)
            self.last.append(good)
        self._missing = np.sort(np.concatenate(missing))
        # The i-th missing number has so many existing ones below it, less the start.
        self._gaps = self._missing - load.insertstart - np.arange(len(self._missing))
        self._loaded = load.records - len(self._missing)
        self._extra = np.sort(np.concatenate(extra))
        self.failed = lost
        """Inserts that were not acknowledged."""

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


class Known(NamedTuple):
    """What a client knows of the records when a step begins."""

    records: Records
    base: int
    """The numbers from here on are the phase's own."""
    common: int
    """So many of the records, the oldest, are known to all clients."""


_lock = threading.Lock()
#: Of the step that runs: what its clients know, and of what; all threads of a process ask the same.
_latest: tuple[tuple[Any, ...], Known] | None = None


def records_before(context: ClientContext) -> Known:
    """What a client knows when a step begins: all inserts of earlier phases, and those of earlier
    steps of this phase by this process."""
    global _latest
    key = (context.before, context.load, context.phase)
    with _lock:
        if _latest is None or any(a is not b for a, b in zip(_latest[0], key, strict=True)):
            _latest = key, _known(*key)
        return _latest[1]


def _known(before: Sequence[Mapping[str, Any]], load: LoadParams, phase: str) -> Known:
    # What this phase has inserted so far differs between processes; what they share must not.
    earlier = [note for note in before if note.get("ycsb") != phase]
    common = Records(load, earlier)
    records = Records(load, before) if len(earlier) < len(before) else common
    return Known(records, common.top, len(common))


def next_inserts(context: ClientContext, base: int) -> Inserts:
    """What a client of a changing phase inserts.

    Processes share the numbers from `base` on by stride, each its threads likewise, and each step
    begins above those before it. Processes with stores of their own share them by the stores that
    the keys belong to.
    """
    load: LoadParams = context.load
    processes = 1 if context.one_store else context.workers * context.processes
    offset = 0 if context.one_store else context.shard
    first = 0
    for note in context.before:
        if note.get("ycsb") == context.phase and note["process"] == context.shard:
            numbers = tried(note, load, loading=False)
            if len(numbers):
                first = max(first, (int(numbers[-1]) - base - offset) // processes + 1)
    start = base + offset + processes * (first + context.thread)
    return Inserts(context, load, start, processes * context.threads)


def load_inserts(context: ClientContext) -> Inserts:
    """What a client of the load inserts."""
    load: LoadParams = context.params
    if context.stores > 1:
        place, stride = context.thread, context.threads
    else:
        place, stride = context.client, context.clients
    return Inserts(context, load, load.insertstart + place, stride, load.end)
