"""The search for the highest rate at which a percentile stays under its limit.

Each step of a search is an open loop at one rate. After it every worker leaves a summary of what it
measured, and when all have, each computes the next rate from all summaries by the same function,
so that no worker has to tell the others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from storewise.atomic import read_as, write_aside
from storewise.driver.results import StepDone, add_up
from storewise.errors import StorewiseError
from storewise.metrics.hdr import histogram_of, percentiles
from storewise.workloads.contract import SearchParams

#: Below a trial's live directory.
SUMMARIES = "summaries"
#: The share of the operations that were meant to begin which must have succeeded.
SERVED = 0.98
#: The search ends when the lowest rate that failed is within this factor of the highest that did
#: not: repeated measurements of one rate differ by more.
PRECISION = 1.02


@dataclass(frozen=True, slots=True)
class Summary:
    """What one worker measured in a step, warm-up left out of the histogram."""

    intended: int
    succeeded: int
    failed: int
    indexes: tuple[int, ...]
    """Of counters of the histogram of successful operations, with their `counts`."""
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
    """Share of the intended operations that succeeded."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found. `rate` is None where no rate met the limit."""

    rate: float | None
    verified: bool
    """It met the limit twice."""
    bounded: bool
    """Some rate above it did not meet the limit, so that `high` was not the end."""


def _lasting(tried: Sequence[Tried]) -> list[float]:
    """Rates that met the limit each time and lie below all that did not, rising."""
    failed = min((t.rate for t in tried if not t.met), default=math.inf)
    return sorted({t.rate for t in tried if t.met and t.rate < failed})


def next_rate(search: SearchParams, tried: Sequence[Tried]) -> float | None:
    """The rate of the next step; None where the search has ended.

    Bisection of the logarithm between the highest rate that met the limit and the lowest that did
    not (at first `low` and `high`, of which neither is measured before it matters). Its last step
    measures the best rate again; where that fails, the next best is measured again as long as
    there are steps. Where nothing met the limit the last step measures `low` itself.
    """
    left = search.steps - len(tried)
    if left <= 0:
        return None
    lasting = _lasting(tried)
    failed = min((t.rate for t in tried if not t.met), default=None)
    best = lasting[-1] if lasting else None
    if best is not None and sum(t.rate == best for t in tried) > 1:
        return None
    below, above = best or search.low, failed or search.high
    again = any(not t.met and u.met and t.rate == u.rate for t in tried for u in tried)
    if left == 1 or above / below <= PRECISION or again:
        if best is not None:
            return best
        return None if any(t.rate <= search.low for t in tried) else search.low
    return math.sqrt(below * above)


def answer(tried: Sequence[Tried]) -> Answer:
    """What the steps of a search, at whatever rates, have shown."""
    lasting = _lasting(tried)
    bounded = any(not t.met for t in tried)
    if not lasting:
        return Answer(None, verified=False, bounded=bounded)
    best = lasting[-1]
    return Answer(best, verified=sum(t.rate == best for t in tried) > 1, bounded=bounded)


def summary_of(measured: StepDone, search: SearchParams) -> Summary:
    """What a worker measured in a step of a search."""
    counters = [c for done in measured.done for c in done.recorded.counters.values()]
    indexes, counts = add_up(
        (one.indexes, one.counts)
        for done in measured.done
        for one in done.recorded.histograms
        if not one.failed
        and one.time == f"{search.time}_time"
        and not measured.is_warmup(one.second)
    )
    return Summary(
        sum(done.paced.intended for done in measured.done if done.paced is not None),
        sum(counter.operations for counter in counters),
        sum(counter.errors for counter in counters),
        tuple(indexes.tolist()),
        tuple(counts.tolist()),
    )


def judge(search: SearchParams, rate: float, summaries: Sequence[Summary]) -> Tried:
    """Whether a step at `rate` met the limit, from the summaries of all workers."""
    total = add_up((np.array(s.indexes, int), np.array(s.counts, int)) for s in summaries)
    reached = percentiles(histogram_of(*total), [search.percentile])
    intended = sum(one.intended for one in summaries)
    served = sum(one.succeeded for one in summaries) / intended if intended else 0.0
    if not reached:
        return Tried(rate, met=False, served=served)
    reached_ms = reached[search.percentile] / 1e6
    met = reached_ms <= search.limit_ms and served >= SERVED
    return Tried(rate, met, reached_ms, served)


def leave(live: Path, name: str, worker: int, summary: Summary) -> None:
    """Put a worker's summary of a step where the others see it, whole or not at all."""
    directory = live / SUMMARIES / name
    directory.mkdir(parents=True, exist_ok=True)
    write_aside(directory / f"{worker}.json", json.dumps(asdict(summary)))


def summaries(live: Path, name: str, workers: int) -> list[Summary]:
    """The summaries that all workers have left, in worker order."""
    paths = [live / SUMMARIES / name / f"{worker}.json" for worker in range(workers)]
    try:
        return [read_as(Summary, path) for path in paths]
    except OSError as error:
        raise StorewiseError(
            f"{error.filename}: a worker's summary of a step cannot be read: {error.strerror}"
        ) from error
