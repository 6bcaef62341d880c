"""From what the clients of a step recorded to rows of the result and intervals of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from storewise.driver.arrivals import Paced
from storewise.driver.messages import Done
from storewise.driver.worker_job import Step
from storewise.metrics.hdr import COUNTERS, Integers, Interval, Tag, histogram_of
from storewise.metrics.recorder import NS, Counter
from storewise.metrics.schema import Sample


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step of one worker: `zero` in perf_counter_ns and `started_at` (Unix time, s) are the same
    moment; `done` has one entry per process."""

    step: Step
    zero: int
    started_at: float
    done: Sequence[Done]

    @property
    def duration(self) -> float:
        """Seconds until the last process had nothing more to do."""
        return (max(done.end for done in self.done) - self.zero) / NS

    @property
    def paced(self) -> Paced | None:
        """How this worker's clients kept their pace in an open loop; None in a closed one."""
        if self.step.params.rate is None:
            return None
        whole = Paced()
        for done in self.done:
            if done.paced is not None:
                whole.merge(done.paced)
        return whole

    def target(self, worker: int, workers: int) -> float | None:
        """This worker's part of the target rate, operations/s."""
        if self.step.params.rate is None:
            return None
        total = self.step.clients.all(workers, len(self.done))
        return self.step.params.rate * sum(self.busy(worker, workers)) / total

    def busy(self, worker: int, workers: int) -> list[int]:
        """Clients of each of this worker's processes."""
        processes = len(self.done)
        return [
            self.step.clients.here(worker, workers, process, processes)[1]
            for process in range(processes)
        ]

    def is_warmup(self, second: int) -> bool:
        """Whether a second lies, wholly or in part, within the warm-up."""
        return second < self.step.params.warmup


def step_samples(
    found: StepDone, phase: str, worker: int, workers: int, *, loads: bool
) -> list[Sample]:
    """Rows of one step of one worker: per process and second, totals, and the step's figures."""
    step = found.step.number
    samples = [Sample(phase, "started_at", found.started_at, "s", step=step, worker=worker)]
    busy = found.busy(worker, workers)
    if any(busy):
        # A worker without clients in this step ends at once, which is nobody's run time.
        samples.append(Sample(phase, "duration", found.duration, "s", step=step, worker=worker))
    paced, target = found.paced, found.target(worker, workers)
    if paced is not None and target is not None:
        samples += [
            Sample(phase, "target_rate", target, "1/s", step=step, worker=worker),
            Sample(phase, "intended_operations", paced.intended, "1", step=step, worker=worker),
            Sample(phase, "unserved_operations", paced.unserved, "1", step=step, worker=worker),
        ]
    owners: dict[tuple[str, str], Counter] = {}
    acknowledged = 0
    for process, done in enumerate(found.done):
        seconds: dict[tuple[str, int], Counter] = {}
        totals: dict[str, Counter] = {}
        for (series, second), counter in done.recorded.counters.items():
            name = series.operation
            seconds.setdefault((name, second), Counter()).add(counter)
            totals.setdefault(name, Counter()).add(counter)
            if series.owner is not None:
                owners.setdefault((name, series.owner), Counter()).add(counter)
        acknowledged += sum(counter.documents for counter in totals.values())
        for (name, second), counter in sorted(seconds.items()):
            warmup = found.is_warmup(second)
            samples += _counter_rows(counter, phase, step, worker, process, name, second, warmup)
        for name, counter in totals.items():
            samples += _counter_rows(counter, phase, step, worker, process, name, None, False)
        took = (done.end - found.zero) / NS
        if busy[process]:
            samples.append(
                Sample(phase, "duration", took, "s", step=step, worker=worker, process=process)
            )
        samples += [
            Sample(phase, f"status.{name}", value, "1", step=step, worker=worker, process=process)
            for name, value in done.status.items()
        ]
        if done.disk_bytes is not None:
            size = float(done.disk_bytes)
            samples.append(
                Sample(phase, "store_bytes", size, "B", step=step, worker=worker, process=process)
            )
    for (name, node), counter in sorted(owners.items()):
        for metric, count in (
            ("owner_operations", counter.operations),
            ("owner_errors", counter.errors),
        ):
            samples.append(Sample(phase, metric, count, "1", step, None, name, worker, None, node))
    if loads:
        samples.append(Sample(phase, "acknowledged", acknowledged, "1", step=step, worker=worker))
    return samples


def _counter_rows(
    counter: Counter,
    phase: str,
    step: int,
    worker: int,
    process: int,
    operation: str,
    second: int | None,
    warmup: bool,
) -> list[Sample]:
    return [
        Sample(phase, metric, value, unit, step, second, operation, worker, process, None, warmup)
        for metric, value, unit in (
            ("operations", counter.operations, "1"),
            ("documents", counter.documents, "1"),
            ("bytes", counter.bytes, "B"),
            ("errors", counter.errors, "1"),
            ("service_time_sum", counter.service_ns / NS, "s"),
            ("prepare_time_sum", counter.prepare_ns / NS, "s"),
        )
    ]


def step_intervals(found: StepDone, base_time: float) -> Iterator[Interval]:
    """Intervals of one step of one worker, its processes and threads added up, in time order.

    An operation with an owner is in the operation's own interval and in its owner's.
    """
    parts: dict[tuple[int, Tag], list[tuple[Integers, Integers]]] = {}
    for done in found.done:
        for counts in done.recorded.histograms:
            name, owner = counts.series.operation, counts.series.owner
            warmup = found.is_warmup(counts.second)
            pair = (counts.indexes.astype(np.int64), counts.counts.astype(np.int64))
            for node in {None, owner}:
                tag = Tag(name, counts.time, found.step.number, node, counts.failed, warmup)
                parts.setdefault((counts.second, tag), []).append(pair)
    offset = found.started_at - base_time
    for (second, tag), pairs in sorted(parts.items(), key=lambda item: (item[0][0], str(item[0]))):
        dense = np.zeros(COUNTERS, dtype=np.int64)
        for indexes, counted in pairs:
            dense[indexes] += counted
        where = np.flatnonzero(dense)
        length = max(0.001, min(1.0, found.duration - second))
        yield Interval(tag, offset + second, length, histogram_of(where, dense[where]))
