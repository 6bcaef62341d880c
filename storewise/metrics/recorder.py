"""The recorder of one client thread: counts and latencies of its operations.

While an operation is timed nothing is done but appending a row to a flat list. Rows are summarised
with numpy, some thousand at a time, between two operations and outside every recorded time, into
counters per second and HdrHistogram counters.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from storewise.metrics.hdr import COUNTERS, Integers, Time, add_up, bucket_indexes

NS = 1_000_000_000
#: Operations that are summarised at once: about 1 ms of work.
SLICE = 4096
#: ns after which rows are summarised at the latest, so that progress can be seen from outside.
FLUSH_EVERY = NS // 4
#: Flushes a second, at most, of all threads of a process: a short one costs as much as a long one.
_MAX_FLUSHES = 16
_WIDTH = 6
#: Length of `Recorder.rows` at which `flush` is due.
ROOM = SLICE * _WIDTH


@dataclass(slots=True)
class Counter:
    """Sums over one kind of operations and second. Times in ns.

    `service_ns` and the operations are those that succeeded; `prepare_ns` is the client's own
    work (parsing, drawing ids) before each of them, failed ones included.
    """

    operations: int = 0
    documents: int = 0
    bytes: int = 0
    errors: int = 0
    service_ns: int = 0
    prepare_ns: int = 0

    def add(self, other: Counter) -> None:
        self.operations += other.operations
        self.documents += other.documents
        self.bytes += other.bytes
        self.errors += other.errors
        self.service_ns += other.service_ns
        self.prepare_ns += other.prepare_ns


@dataclass(frozen=True, slots=True)
class OperationKey:
    """The key of counters: an operation, and the document's owner if the client knows it."""

    operation: str
    owner: str | None = None


@dataclass(slots=True)
class Counts:
    """One second's histogram, sparse: the `counts` of the counters at `indexes`, which rise."""

    key: OperationKey
    failed: bool
    time: Time
    second: int
    indexes: NDArray[np.int32]
    counts: NDArray[np.uint32]


@dataclass(slots=True)
class Recorded:
    """All that one or several client threads recorded in one step."""

    counters: dict[tuple[OperationKey, int], Counter] = field(default_factory=dict)
    """(operation, second) -> counter."""
    histograms: list[Counts] = field(default_factory=list)
    first_error: str | None = None

    def merge(self, other: Recorded) -> None:
        for key, counter in other.counters.items():
            self.counters.setdefault(key, Counter()).add(counter)
        self.histograms.extend(other.histograms)
        self.first_error = self.first_error or other.first_error

    def compact(self) -> None:
        """Add up the histograms of several clients: one is left of each kind and second."""
        groups: dict[tuple[OperationKey, bool, Time, int], list[Counts]] = {}
        for one in self.histograms:
            groups.setdefault((one.key, one.failed, one.time, one.second), []).append(one)
        self.histograms = []
        for group, parts in groups.items():
            if len(parts) > 1:
                indexes, counts = add_up((part.indexes, part.counts) for part in parts)
                parts = [Counts(*group, indexes.astype(np.int32), counts.astype(np.uint32))]
            self.histograms += parts


class _Dense:
    """The histograms of one kind of operations in the current second."""

    __slots__ = ("response", "second", "service")

    def __init__(self) -> None:
        self.second = -1
        self.service: Integers = np.zeros(COUNTERS, dtype=np.int64)
        # None while every operation began when it was meant to: both times are then the same.
        self.response: Integers | None = None


def _count(counters: Integers, indexes: Integers) -> None:
    """Add one to the counter of each index.

    Times of a slice lie near each other: counting within their range costs a fraction of what
    ``np.add.at`` does.
    """
    first = int(indexes.min())
    counts = np.bincount(indexes - first)
    counters[first : first + len(counts)] += counts


def flush_every(threads: int) -> int:
    """ns between two flushes of each of so many threads of a process: a quarter of a second, and
    with many threads up to a second."""
    return min(NS, max(FLUSH_EVERY, threads * NS // _MAX_FLUSHES))


class Recorder:
    """Records the operations of one client thread from `zero` (of `clock`, in ns) on.

    The client was ready for its first operation, or began to prepare it, at `ready` (default:
    `zero`). Rows are summarised at least once in `every` ns.

    Operations must be recorded in the order in which they end. An operation belongs to the second
    in which it ended.
    """

    def __init__(
        self,
        zero: int,
        ready: int | None = None,
        *,
        every: int = FLUSH_EVERY,
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.zero = zero
        self._every = every
        self._clock = clock
        self.operations = 0
        """Recorded until the last `flush`, failed ones included."""
        self.documents = 0
        self.owned: dict[str, int] = {}
        """Operations by owner; empty where the client does not know it."""
        self._keys: list[OperationKey] = []
        self._codes: dict[tuple[str, str | None], int] = {}
        self.rows: list[int] = []
        """Six values an operation, as `record` appends them; a tight loop may do it itself."""
        self.wake = zero + every
        """When (of `clock`) `flush` is due, regardless of the number of rows."""
        self._ready_at = zero if ready is None else ready
        self._last_code = 0
        self._dense: dict[int, _Dense] = {}
        self._counters: dict[tuple[int, int], Counter] = {}
        self._closed: list[Counts] = []
        self._first_error: str | None = None

    def code(self, operation: str, owner: str | None = None) -> int:
        """The code of an operation (and its owner) for `record`."""
        key = (operation, owner)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self._keys)
            self._keys.append(OperationKey(operation, owner))
        return code

    def record(
        self,
        code: int,
        intended: int,
        start: int,
        end: int,
        documents: int,
        nbytes: int,
        error: bool = False,
    ) -> None:
        """Record one operation; all times are those of `clock`.

        `intended` is when it should have begun (equal to `start` in a closed loop): response time
        counts from there, service time from `start`.
        """
        self.rows.extend((code << 1 | error, intended, start, end, documents, nbytes))
        if len(self.rows) >= ROOM or end >= self.wake:
            self.flush()

    def error(self, message: str) -> None:
        """Keep the text of the first failed operation."""
        self._first_error = self._first_error or message

    def flush(self) -> None:
        """Summarise the rows; the time that takes is not counted as preparation."""
        if self.rows:
            table = np.frombuffer(array("q", self.rows), dtype=np.int64).reshape(-1, _WIDTH)
            self.rows.clear()
            self._summarise(table)
        now = self._clock()
        self._ready_at = now
        self.wake = now + self._every

    def _summarise(self, table: Integers) -> None:
        codes, intended, start, end, documents, nbytes = table.T
        ready = np.empty_like(end)
        ready[0] = self._ready_at
        ready[1:] = end[:-1]
        seconds = (end - self.zero) // NS
        service = end - start
        on_time = bool((intended == start).all())
        if not on_time:
            # A paced client waits for the intended start: that is idle time, not preparation.
            ready = np.where(intended == start, ready, np.maximum(ready, intended))
        prepare = np.maximum(start - ready, 0)
        response = service if on_time else end - intended
        self.operations += len(table)
        self.documents += int(documents.sum())
        self._last_code = int(codes[-1])
        groups = seconds * (2 * len(self._keys)) + codes
        selections: list[tuple[int, slice | NDArray[np.bool_]]]
        if groups[0] == groups[-1] and (groups == groups[0]).all():
            selections = [(0, slice(None))]
        else:
            first = np.unique(groups, return_index=True)[1]
            selections = [(int(row), groups == groups[row]) for row in first]
        for row, rows in selections:
            code, second = int(codes[row]), int(seconds[row])
            counter = self._counters.setdefault((code >> 1, second), Counter())
            counter.prepare_ns += int(prepare[rows].sum())
            times = service[rows]
            owner = self._keys[code >> 1].owner
            if owner is not None:
                self.owned[owner] = self.owned.get(owner, 0) + len(times)
            if code & 1:
                counter.errors += len(times)
            else:
                counter.operations += len(times)
                counter.documents += int(documents[rows].sum())
                counter.bytes += int(nbytes[rows].sum())
                counter.service_ns += int(times.sum())
            self._add_times(code, second, times, None if on_time else response[rows])

    def _add_times(
        self, code: int, second: int, service: Integers, response: Integers | None
    ) -> None:
        dense = self._dense.get(code)
        if dense is None:
            dense = self._dense[code] = _Dense()
        if dense.second != second:
            self._close(code, dense)
            dense.second = second
        indexes = bucket_indexes(service)
        if response is not None or dense.response is not None:
            if dense.response is None:
                dense.response = dense.service.copy()
            _count(dense.response, indexes if response is None else bucket_indexes(response))
        _count(dense.service, indexes)

    def _close(self, code: int, dense: _Dense) -> None:
        """Keep the histograms of a second, sparse, and empty the counters."""
        key, failed = self._keys[code >> 1], bool(code & 1)
        service = np.flatnonzero(dense.service)
        if not len(service):
            return
        histograms: list[tuple[Time, Integers]] = [("service_time", dense.service)]
        response = dense.service if dense.response is None else dense.response
        histograms.append(("response_time", response))
        for time, counters in histograms:
            where = np.flatnonzero(counters)
            counts = counters[where].astype(np.uint32)
            self._closed.append(
                Counts(key, failed, time, dense.second, where.astype(np.int32), counts)
            )
        dense.response = None
        dense.service[service] = 0

    def result(self, end: int | None = None) -> Recorded:
        """The recordings of the thread.

        `end` (of `clock`) is when the client had nothing more to do: the time since its last
        operation counts as preparation of that operation's kind (the tail of a parse).
        """
        last = self.rows[-3] if self.rows else self._ready_at
        self.flush()
        if end is not None and end > last and self._counters:
            group = (self._last_code >> 1, max(0, (end - self.zero) // NS))
            self._counters.setdefault(group, Counter()).prepare_ns += end - last
        for code, dense in self._dense.items():
            self._close(code, dense)
        counters = {(self._keys[code], second): c for (code, second), c in self._counters.items()}
        return Recorded(counters, self._closed, self._first_error)
