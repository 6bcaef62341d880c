"""Convert the recordings of a step's clients to rows of the result and intervals of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from numpy.typing import NDArray

from storewise.driver.arrivals import Pace
from storewise.driver.worker_job import Step
from storewise.metrics.hdr import Interval, Tag, add_up, histogram_of
from storewise.metrics.outages import Marks
from storewise.metrics.recorder import NS, Counter, OperationKey, Recorded
from storewise.metrics.schema import METRICS, Sample
from storewise.workloads.contract import LoadedFile, RefusedFile


@dataclass(slots=True)
class ProcessResult:
    """Everything that a client process recorded in a step."""

    recorded: Recorded = field(default_factory=Recorded)
    end: int = 0
    """When its last client ended, in ns of perf_counter."""
    disk_bytes: int | None = None
    """After a load: the size of its store; None if another process reports it."""
    loaded: list[LoadedFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    pace: Pace | None = None
    """How its clients kept their pace; None in a closed loop, and without clients."""
    marks: Marks = field(default_factory=dict)
    """When operations succeeded, in a step in which nodes are killed."""

    def add_client(self, recorded: Recorded, pace: Pace | None, marks: Marks) -> None:
        """Add the recordings of one client thread."""
        self.recorded.merge(recorded)
        if pace is not None:
            self.pace = self.pace or Pace()
            self.pace.merge(pace)
        for owner, bins in marks.items():
            self.marks.setdefault(owner, set()).update(bins)

    def add_finish(self, finish: ProcessResult) -> None:
        """Add the time and counts of a load's end."""
        self.recorded.merge(finish.recorded)
        self.end, self.disk_bytes = finish.end, finish.disk_bytes


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step of one worker: `zero` (ns of perf_counter) and `started_at` (Unix time, s) are the
    same moment; `processes` has one entry per client process."""

    step: Step
    zero: int
    started_at: float
    processes: Sequence[ProcessResult]

    @property
    def end(self) -> int:
        """The end of the last process's work, in ns of perf_counter."""
        return max(process.end for process in self.processes)

    @property
    def duration(self) -> float:
        """Seconds from the step's start to `end`."""
        return (self.end - self.zero) / NS

    @property
    def pace(self) -> Pace | None:
        """The delays of this worker's clients in an open loop; None in a closed one."""
        if self.step.params.rate is None:
            return None
        total = Pace()
        for process in self.processes:
            if process.pace is not None:
                total.merge(process.pace)
        return total

    def counters(self) -> Iterator[tuple[OperationKey, Counter]]:
        """(operation, second) -> counts of all processes."""
        for process in self.processes:
            for (key, _), counter in process.recorded.counters.items():
                yield key, counter

    def is_warmup(self, second: int) -> bool:
        """Whether a second lies, wholly or in part, within the warm-up."""
        return second < self.step.params.warmup


def step_samples(
    result: StepResult, phase: str, worker: int, workers: int, *, loads: bool
) -> list[Sample]:
    """Rows of one step of one worker: per process and second, totals, and the step's figures."""

    def row(metric: str, value: float, **place: Any) -> Sample:
        return Sample(
            phase, metric, value, METRICS[metric], result.step.number, worker=worker, **place
        )

    samples = [row("started_at", result.started_at)]
    clients, processes = result.step.clients, len(result.processes)
    here = [clients.here(worker, workers, n, processes)[1] for n in range(processes)]
    if any(here):
        # A worker without clients in this step ends at once, which is nobody's run time.
        samples.append(row("duration", result.duration))
    pace, rate = result.pace, result.step.params.rate
    if pace is not None and rate is not None:
        samples += [
            row("target_rate", rate * (sum(here) / clients.all(workers, processes))),
            row("intended_operations", pace.intended),
            row("unserved_operations", pace.unserved),
        ]
    owners: dict[tuple[str, str], Counter] = {}
    acknowledged = 0
    for number, process in enumerate(result.processes):
        seconds: dict[tuple[str, int], Counter] = {}
        totals: dict[str, Counter] = {}
        for (key, second), counter in process.recorded.counters.items():
            name = key.operation
            seconds.setdefault((name, second), Counter()).add(counter)
            totals.setdefault(name, Counter()).add(counter)
            if key.owner is not None:
                owners.setdefault((name, key.owner), Counter()).add(counter)
        acknowledged += sum(counter.documents for counter in totals.values())
        of_process = partial(row, process=number)
        for (name, second), counter in sorted(seconds.items()):
            place: dict[str, Any] = {"second": second, "warmup": result.is_warmup(second)}
            samples += [of_process(*sum_, operation=name, **place) for sum_ in _sums(counter)]
        for name, total in totals.items():
            samples += [of_process(*sum_, operation=name) for sum_ in _sums(total)]
        if here[number]:
            samples.append(of_process("duration", (process.end - result.zero) / NS))
        if process.disk_bytes is not None:
            samples.append(of_process("store_bytes", float(process.disk_bytes)))
    for (name, node), counter in sorted(owners.items()):
        samples.append(row("owner_operations", counter.operations, operation=name, node=node))
        samples.append(row("owner_errors", counter.errors, operation=name, node=node))
    if loads:
        samples.append(row("acknowledged", acknowledged))
    return samples


def _sums(counter: Counter) -> tuple[tuple[str, float], ...]:
    """The values of a counter, by metric."""
    return (
        ("operations", counter.operations),
        ("documents", counter.documents),
        ("bytes", counter.bytes),
        ("errors", counter.errors),
        ("service_time_sum", counter.service_ns / NS),
        ("prepare_time_sum", counter.prepare_ns / NS),
    )


def step_intervals(result: StepResult, base_time: float) -> Iterator[Interval]:
    """Intervals of one step of one worker, its processes and threads added up, in time order.

    An operation with an owner is in the operation's own interval and in its owner's.
    """
    parts: dict[tuple[int, Tag], list[tuple[NDArray[Any], NDArray[Any]]]] = {}
    for process in result.processes:
        for counts in process.recorded.histograms:
            name, owner = counts.key.operation, counts.key.owner
            warmup = result.is_warmup(counts.second)
            for node in {None, owner}:
                tag = Tag(name, counts.time, result.step.number, node, counts.failed, warmup)
                pairs = parts.setdefault((counts.second, tag), [])
                pairs.append((counts.indexes, counts.counts))
    offset = result.started_at - base_time
    for (second, tag), pairs in sorted(parts.items(), key=lambda item: (item[0][0], str(item[0]))):
        length = max(0.001, min(1.0, result.duration - second))
        yield Interval(tag, offset + second, length, histogram_of(*add_up(pairs)))
