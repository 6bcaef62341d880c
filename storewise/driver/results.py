"""From what the clients of a step recorded to rows of the result and intervals of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storewise.driver.arrivals import Paced
from storewise.driver.worker_job import Step
from storewise.metrics.hdr import COUNTERS, Integers, Interval, Tag, histogram_of
from storewise.metrics.outages import Marks
from storewise.metrics.recorder import NS, Counter, Recorded
from storewise.metrics.schema import METRICS, Sample
from storewise.workloads.contract import LoadedFile, RefusedFile


@dataclass(slots=True)
class Done:
    """What a process did in a step; times in perf_counter_ns."""

    recorded: Recorded
    end: int
    disk_bytes: int | None
    loaded: list[LoadedFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    paced: Paced | None = None
    """Of an open loop."""
    marks: Marks = field(default_factory=dict)
    """When operations succeeded, in a step with a crash."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step of one worker: `zero` in perf_counter_ns and `started_at` (Unix time, s) are the same
    moment; `done` has one entry per process."""

    step: Step
    zero: int
    started_at: float
    done: Sequence[Done]

    @property
    def end(self) -> int:
        """When the last process had nothing more to do, in perf_counter_ns."""
        return max(done.end for done in self.done)

    @property
    def duration(self) -> float:
        """Seconds until then."""
        return (self.end - self.zero) / NS

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

    def busy(self, worker: int, workers: int) -> list[int]:
        """Clients of each of this worker's processes."""
        processes = len(self.done)
        here = self.step.clients.here
        return [here(worker, workers, process, processes)[1] for process in range(processes)]

    def is_warmup(self, second: int) -> bool:
        """Whether a second lies, wholly or in part, within the warm-up."""
        return second < self.step.params.warmup


def add_up(parts: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> tuple[Integers, Integers]:
    """The sum of sparse histograms, given and returned as (indexes of counters, their counts)."""
    dense = np.zeros(COUNTERS, dtype=np.int64)
    for indexes, counts in parts:
        dense[indexes] += counts
    where = np.flatnonzero(dense)
    return where, dense[where]


def step_samples(
    measured: StepDone, phase: str, worker: int, workers: int, *, loads: bool
) -> list[Sample]:
    """Rows of one step of one worker: per process and second, totals, and the step's figures."""

    def row(metric: str, value: float, **place: Any) -> Sample:
        return Sample(
            phase, metric, value, METRICS[metric], measured.step.number, worker=worker, **place
        )

    samples = [row("started_at", measured.started_at)]
    busy = measured.busy(worker, workers)
    if any(busy):
        # A worker without clients in this step ends at once, which is nobody's run time.
        samples.append(row("duration", measured.duration))
    paced, rate = measured.paced, measured.step.params.rate
    if paced is not None and rate is not None:
        share = sum(busy) / measured.step.clients.all(workers, len(measured.done))
        samples += [
            row("target_rate", rate * share),
            row("intended_operations", paced.intended),
            row("unserved_operations", paced.unserved),
        ]
    owners: dict[tuple[str, str], Counter] = {}
    acknowledged = 0
    for process, done in enumerate(measured.done):
        seconds: dict[tuple[str, int], Counter] = {}
        totals: dict[str, Counter] = {}
        for (series, second), counter in done.recorded.counters.items():
            name = series.operation
            seconds.setdefault((name, second), Counter()).add(counter)
            totals.setdefault(name, Counter()).add(counter)
            if series.owner is not None:
                owners.setdefault((name, series.owner), Counter()).add(counter)
        acknowledged += sum(counter.documents for counter in totals.values())
        mine = partial(row, process=process)
        for (name, second), counter in sorted(seconds.items()):
            place: dict[str, Any] = {"second": second, "warmup": measured.is_warmup(second)}
            samples += [mine(*one, operation=name, **place) for one in _sums(counter)]
        for name, total in totals.items():
            samples += [mine(*one, operation=name) for one in _sums(total)]
        if busy[process]:
            samples.append(mine("duration", (done.end - measured.zero) / NS))
        if done.disk_bytes is not None:
            samples.append(mine("store_bytes", float(done.disk_bytes)))
    for (name, node), counter in sorted(owners.items()):
        owned = partial(row, operation=name, node=node)
        samples.append(owned("owner_operations", counter.operations))
        samples.append(owned("owner_errors", counter.errors))
    if loads:
        samples.append(row("acknowledged", acknowledged))
    return samples


def _sums(counter: Counter) -> tuple[tuple[str, float], ...]:
    """What a counter holds, by metric."""
    return (
        ("operations", counter.operations),
        ("documents", counter.documents),
        ("bytes", counter.bytes),
        ("errors", counter.errors),
        ("service_time_sum", counter.service_ns / NS),
        ("prepare_time_sum", counter.prepare_ns / NS),
    )


def step_intervals(measured: StepDone, base_time: float) -> Iterator[Interval]:
    """Intervals of one step of one worker, its processes and threads added up, in time order.

    An operation with an owner is in the operation's own interval and in its owner's.
    """
    parts: dict[tuple[int, Tag], list[tuple[NDArray[Any], NDArray[Any]]]] = {}
    for done in measured.done:
        for counts in done.recorded.histograms:
            name, owner = counts.series.operation, counts.series.owner
            warmup = measured.is_warmup(counts.second)
            for node in {None, owner}:
                tag = Tag(name, counts.time, measured.step.number, node, counts.failed, warmup)
                pairs = parts.setdefault((counts.second, tag), [])
                pairs.append((counts.indexes, counts.counts))
    offset = measured.started_at - base_time
    for (second, tag), pairs in sorted(parts.items(), key=lambda item: (item[0][0], str(item[0]))):
        length = max(0.001, min(1.0, measured.duration - second))
        yield Interval(tag, offset + second, length, histogram_of(*add_up(pairs)))
