"""When the operations of a phase succeeded, for steps in which a node is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns

from storewise.metrics.outages import BIN, Marks
from storewise.workloads.contract import Operation


def watched(operations: Iterable[Operation], marks: Marks) -> Iterator[Operation]:
    """The same operations, whose successes are marked."""
    everything = marks.setdefault("", set())
    for operation in operations:
        owner = operation.owner
        own = marks.setdefault(owner, set()) if owner is not None else everything
        yield operation._replace(call=_marking(operation.call, everything, own))


def _marking(call: Callable[[], int], everything: set[int], own: set[int]) -> Callable[[], int]:
    def run() -> int:
        documents = call()
        at = perf_counter_ns() // BIN
        everything.add(at)
        own.add(at)
        return documents

    return run
