"""Outages: periods without a successful operation in a step in which a server was killed.

Each client marks the bins of time (5 ms) in which one of its operations succeeded, by the owner of
the document where that is known. An outage lasts from the last success of all clients before it to
the first one after it. Only steps with a crash pay for the marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from storewise.metrics.recorder import NS

BIN = 5_000_000
#: Seconds; shorter outages are left out: one operation may take as long.
MIN_OUTAGE = 0.05

Marks = dict[str, set[int]]
"""Bins (of perf_counter_ns) with a success, by owner; "" for all operations."""


def merged(clients: Iterable[Mapping[str, set[int]]]) -> Marks:
    """The union of the marks of several clients."""
    result: Marks = {}
    for marks in clients:
        for owner, bins in marks.items():
            result.setdefault(owner, set()).update(bins)
    return result


def outages(
    marks: Mapping[str, set[int]], zero: int, end: int
) -> dict[str, list[tuple[float, float]]]:
    """Outages between `zero` and `end` (ns of perf_counter) by owner, as (begin, end) in s from
    `zero`."""
    length = (end - zero) / NS
    result: dict[str, list[tuple[float, float]]] = {}
    for owner in sorted({"", *marks}):
        times = [max(0.0, (one * BIN - zero) / NS) for one in sorted(marks.get(owner, ()))]
        starts = [0.0, *(at + BIN / NS for at in times)]
        ends = [*times, length]
        result[owner] = [
            (start, stop)
            for start, stop in zip(starts, ends, strict=True)
            if stop - start >= MIN_OUTAGE
        ]
    return result


def longest(times: Sequence[tuple[float, float]], after: float = 0.0) -> float:
    """The longest outage, in s, of those that ended later than `after`; 0 without any."""
    return max((stop - start for start, stop in times if stop > after), default=0.0)


def common(workers: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The intervals in which all of several workers had an outage."""
    if not workers:
        return []
    shared = list(workers[0])
    for times in workers[1:]:
        shared = [
            (max(a, c), min(b, d)) for a, b in shared for c, d in times if min(b, d) > max(a, c)
        ]
    return shared
