"""The search for the highest rate at which a percentile stays under its limit.

Each step of a search is an open loop at one rate. After it every worker publishes a summary of what
it measured; when all have, each computes the next rate from all summaries by the same function, so
that no worker has to tell the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from storewise.atomic import read_as, write_aside
from storewise.driver.results import StepResult
from storewise.driver.worker_job import Step, WorkerJob
from storewise.metrics.hdr import SparseHistogram, add_up, percentiles
from storewise.metrics.schema import Sample
from storewise.workloads.contract import SearchParams

#: Directory of the summaries, below a trial's live directory.
SUMMARIES = "summaries"
#: Fraction of the intended operations that must have succeeded.
MIN_SERVED = 0.98
#: The search ends when the lowest rate that failed is within this factor of the highest that did
#: not: repeated measurements of one rate differ by more.
PRECISION = 1.02


@dataclass(frozen=True, slots=True)
class Summary:
    """One worker's measurements of a step; the histogram excludes the warm-up."""

    intended: int
    succeeded: int
    failed: int
    indexes: tuple[int, ...]
    """Indexes of counters of the histogram of successful operations; `counts` are their values."""
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """One step of a search."""

    rate: float
    """Target, operations/s over all clients."""
    met: bool
    """The percentile was under the limit and the rate was served."""
    percentile_ms: float | None = None
    """None where no operation succeeded."""
    served: float = 0.0
    """Fraction of the intended operations that succeeded."""


@dataclass(frozen=True, slots=True)
class HighestRate:
    """The result of a search."""

    rate: float | None
    """Operations/s; None where no rate met the limit."""
    verified: bool
    """It met the limit twice."""
    bounded: bool
    """Some rate above it did not meet the limit, so that `high` was not the end."""


class RateSearch:
    """The steps of one planned step of a phase whose rate is searched for.

    `first` is the number of its first step, among all steps of the phase.
    """

    def __init__(self, job: WorkerJob, planned: Step, search: SearchParams, first: int) -> None:
        self._job, self._planned, self._search, self._first = job, planned, search, first
        self._tried: list[Tried] = []

    def next_step(self) -> Step | None:
        """The next step to run; None when the search has ended."""
        rate = next_rate(self._search, self._tried)
        if rate is None:
            return None
        params = self._planned.params.model_copy(update={"rate": rate})
        return replace(self._planned, params=params, number=self._first + len(self._tried))

    def record(self, result: StepResult, meet: Callable[[str], None]) -> Tried:
        """Judge the step that was run by the summaries of all workers; `meet` waits for them."""
        job = self._job
        name = f"{job.phase}-{result.step.number}"
        directory = job.live / SUMMARIES / name
        directory.mkdir(parents=True, exist_ok=True)
        summary = json.dumps(asdict(summary_of(result, self._search)))
        write_aside(directory / f"{job.worker}.json", summary)
        meet(f"{name}-summary")
        summaries = [
            read_as(Summary, directory / f"{worker}.json") for worker in range(job.trial.workers)
        ]
        rate = result.step.params.rate or 0.0
        self._tried.append(judge(self._search, rate, summaries))
        return self._tried[-1]

    def conditions(self) -> dict[str, Any]:
        """The search and its result, for the conditions of the result part."""
        return {
            **self._search.model_dump(mode="json"),
            "first_step": self._first,
            "tried": [asdict(tried) for tried in self._tried],
            **asdict(highest_rate(self._tried)),
        }

    def samples(self) -> list[Sample]:
        """The highest rate, at the step that measured it last."""
        rate = highest_rate(self._tried).rate
        if rate is None or self._job.worker != 0:
            return []
        step = self._first + max(n for n, tried in enumerate(self._tried) if tried.rate == rate)
        return [Sample(self._job.phase, "highest_rate", rate, "1/s", step)]

    def warnings(self) -> list[str]:
        """Warnings if the highest rate is unknown or uncertain."""
        search, found = self._search, highest_rate(self._tried)
        limit = f"percentile {search.percentile:g} of {search.limit_ms:g} ms"
        texts = []
        if found.rate is None:
            texts.append(f"no rate that was tried stays within {limit}; search from a lower `low`")
        elif not found.bounded:
            texts.append(
                f"every rate that was tried stays within {limit}; the highest may lie above `high` "
                f"({search.high:g}/s)"
            )
        if found.rate is not None and not found.verified:
            texts.append("the highest rate was met once only; give the search more steps")
        last = self._first + len(self._tried) - 1
        return [f"{self._job.phase}, steps {self._first} to {last}: {text}" for text in texts]


def _reliable(tried: Sequence[Tried]) -> list[float]:
    """The rates that always met the limit, below the lowest that missed it; ascending."""
    failed = min((t.rate for t in tried if not t.met), default=math.inf)
    return sorted({t.rate for t in tried if t.met and t.rate < failed})


def next_rate(search: SearchParams, tried: Sequence[Tried]) -> float | None:
    """The rate of the next step; None where the search has ended.

    Bisection of the logarithm between the highest rate that met the limit and the lowest that did
    not (at first `low` and `high`, which are measured only when needed). Its last step
    measures the best rate again; where that fails, the next best is measured again as long as
    there are steps. Where nothing met the limit the last step measures `low` itself.
    """
    left = search.steps - len(tried)
    if left <= 0:
        return None
    reliable = _reliable(tried)
    failed = min((t.rate for t in tried if not t.met), default=None)
    best = reliable[-1] if reliable else None
    if best is not None and sum(t.rate == best for t in tried) > 1:
        return None
    below, above = best or search.low, failed or search.high
    again = any(not t.met and u.met and t.rate == u.rate for t in tried for u in tried)
    if left == 1 or above / below <= PRECISION or again:
        if best is not None:
            return best
        return None if any(t.rate <= search.low for t in tried) else search.low
    return math.sqrt(below * above)


def highest_rate(tried: Sequence[Tried]) -> HighestRate:
    """The result of a search from its steps."""
    best = max(_reliable(tried), default=None)
    return HighestRate(
        best,
        verified=best is not None and sum(t.rate == best for t in tried) > 1,
        bounded=any(not t.met for t in tried),
    )


def summary_of(result: StepResult, search: SearchParams) -> Summary:
    """Measurements of one worker in a step of a search."""
    counters = [counter for _, counter in result.counters()]
    indexes, counts = add_up(
        (one.indexes, one.counts)
        for process in result.processes
        for one in process.recorded.histograms
        if not one.failed and one.time == f"{search.time}_time" and not result.is_warmup(one.second)
    )
    return Summary(
        result.pace.intended if result.pace is not None else 0,
        sum(counter.operations for counter in counters),
        sum(counter.errors for counter in counters),
        tuple(indexes.tolist()),
        tuple(counts.tolist()),
    )


def judge(search: SearchParams, rate: float, summaries: Sequence[Summary]) -> Tried:
    """Whether a step at `rate` met the limit, from the summaries of all workers."""
    total = add_up((np.array(s.indexes, int), np.array(s.counts, int)) for s in summaries)
    reached = percentiles(SparseHistogram(*total), [search.percentile])
    intended = sum(summary.intended for summary in summaries)
    served = sum(summary.succeeded for summary in summaries) / intended if intended else 0.0
    if not reached:
        return Tried(rate, met=False, served=served)
    reached_ms = reached[search.percentile] / 1e6
    met = reached_ms <= search.limit_ms and served >= MIN_SERVED
    return Tried(rate, met, reached_ms, served)
