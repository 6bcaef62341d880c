"""How long a store did not answer in a step in which a server was killed.

Each client marks the moments (in bins of 5 ms) in which one of its operations succeeded, by the
owner of the document where it is known. A time without any mark of all clients is an outage; it
begins at the last success before it and ends with the first one after it. The marks are taken
around the operations, so that a step without a crash costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from storewise.metrics.recorder import NS

BIN = 5_000_000
#: Outages shorter than this many seconds are not told: one operation may take as long.
SHORTEST = 0.05

Marks = dict[str, set[int]]
"""Bins (of perf_counter_ns) with a success, by owner; "" for all operations."""


def merged(clients: Iterable[Mapping[str, set[int]]]) -> Marks:
    """Marks of several clients as one."""
    result: Marks = {}
    for marks in clients:
        for owner, bins in marks.items():
            result.setdefault(owner, set()).update(bins)
    return result


def outages(
    marks: Mapping[str, set[int]], zero: int, end: int
) -> dict[str, list[tuple[float, float]]]:
    """Times without a success between `zero` and `end` (perf_counter_ns), in s from `zero`, by
    owner."""
    length = (end - zero) / NS
    result: dict[str, list[tuple[float, float]]] = {}
    for owner in sorted({"", *marks}):
        times = [max(0.0, (one * BIN - zero) / NS) for one in sorted(marks.get(owner, ()))]
        starts = [0.0, *(at + BIN / NS for at in times)]
        ends = [*times, length]
        result[owner] = [
            (start, stop)
            for start, stop in zip(starts, ends, strict=True)
            if stop - start >= SHORTEST
        ]
    return result


def longest(times: Sequence[tuple[float, float]], after: float = 0.0) -> float:
    """The longest outage in s of those that lasted beyond a moment; 0 without any."""
    return max((stop - start for start, stop in times if stop > after), default=0.0)


def common(
    several: Sequence[Sequence[tuple[float, float]]],
) -> list[tuple[float, float]]:
    """Times that are outages for each of several workers."""
    if not several:
        return []
    shared = list(several[0])
    for other in several[1:]:
        shared = [
            (max(a, c), min(b, d)) for a, b in shared for c, d in other if min(b, d) > max(a, c)
        ]
    return shared
