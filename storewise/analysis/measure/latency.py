"""Latency percentiles from merged Hdr logs.

Percentiles cannot be averaged, so histograms are added (Tene's HdrHistogram) over workers,
processes and threads, and for the table over repeats over these too; then percentiles are read
from the sum. *Service time* runs from the actual start of an operation, *response time* from
its intended start, so that only the latter tells what a client at a fixed rate waits. Failed and
warm-up operations are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from storewise.analysis.common.frames import key_of, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import HdrLog, Part, whole_phases
from storewise.analysis.measure.latency_intervals import INTERVAL, figures, over_trials
from storewise.analysis.model.results import Key, OwnerKey, Results
from storewise.errors import ResultError
from storewise.metrics.hdr import Counted, Tag, decoded, merge_all

PERCENTILES: Mapping[str, float | None] = {
    **{f"p{percentile:g}": percentile for percentile in (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)},
    "max": 100.0,
}
#: Operations that must lie above a percentile for it to be told.
_ABOVE = 10
_KEYS = ["phase", "step", "operation", "time"]


def histograms(
    parts: Sequence[Part],
    logs: Sequence[HdrLog],
    totals: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
) -> tuple[dict[Key, Counted], dict[OwnerKey, Counted], list[StudyWarning]]:
    """Merged histograms by trial, phase, step, operation and time ("service", "response"), and
    those of operations whose owner is known by its name too.

    `totals` are the sums of the logs of a trial and phase where they are known: payloads by tag.
    A log that cannot be read leaves its whole phase out, with a warning.
    """
    whole = whole_phases(parts)
    of_all: dict[Key, Counted] = {}
    of_owners: dict[OwnerKey, Counted] = {}
    warnings: list[StudyWarning] = []
    by_phase: dict[tuple[str, str], dict[int, HdrLog]] = {}
    for log in logs:
        by_phase.setdefault((log.trial, log.phase), {})[log.worker] = log
    workers: dict[tuple[str, str], set[int | None]] = {}
    for part in parts:
        workers.setdefault((part.trial, part.phase), set()).add(part.worker)
    for (trial, phase), of_phase in sorted(by_phase.items()):
        if (trial, phase) not in whole or workers[trial, phase] - of_phase.keys():
            continue
        try:
            sums = (totals or {}).get((trial, phase))
            if sums is None:
                merged = merge_all([log.path for log in of_phase.values()], counted_tag)
            else:
                merged = decoded({tag: sums[tag] for tag in sums if counted_tag(tag)})
        except ResultError as error:
            remedy = "delete the trial and measure again"
            warnings.append(StudyWarning("unreadable_log", trial, str(error), remedy))
            continue
        for text, histogram in merged.items():
            tag = Tag.parse(text)
            time = tag.time.removesuffix("_time")
            if tag.owner is None:
                of_all[trial, phase, tag.step, tag.operation, time] = histogram
            else:
                of_owners[trial, phase, tag.step, tag.operation, tag.owner, time] = histogram
    return of_all, of_owners, warnings


def supported(percentiles: pd.Series, counts: pd.Series) -> pd.Series:
    """Whether a sample of so many operations tells these percentiles: about ten operations must
    lie above one (1,000 for p99), else it is no more than one of the slowest. A maximum always is.
    """
    above = percentiles.map({name: 1 - (p or 0) / 100 for name, p in PERCENTILES.items()})
    # What rounding leaves of 1 - 0.999 must not refuse exactly ten.
    return (counts * above >= _ABOVE - 1e-6) | percentiles.eq("max")


def counted_tag(text: str) -> bool:
    """Whether a tag is of operations that count; raises ValueError for a foreign one."""
    tag = Tag.parse(text)
    return not (tag.failed or tag.warmup)


def latency(histograms: Mapping[Key, Counted]) -> pd.DataFrame:
    """Percentiles per trial in s: trial, phase, step, operation, time, percentile, value, unit,
    count (operations behind it)."""
    rows = [
        (*key, percentile, value, "s", histogram.get_total_count())
        for key, histogram in histograms.items()
        for percentile, value in figures(histogram, PERCENTILES).items()
    ]
    return pd.DataFrame(rows, columns=["trial", *_KEYS, "percentile", "value", "unit", "count"])


def merged_latency(histograms: Mapping[Key, Counted], results: Results) -> pd.DataFrame:
    """Percentiles over all repeats of the same factors' levels, in s, with their intervals.

    Columns: factors, phase, step, operation, time, n, percentile, value, low, high, resampled,
    error, freedom, unit, count.
    """
    levels = {row["trial"]: key_of(row, results.factors) for row in records(results.trials)}
    every = (((*levels[key[0]], *key[1:]), key[0], one) for key, one in histograms.items())
    names = [*results.factors, *_KEYS]
    table = pd.DataFrame(over_trials(every, names, PERCENTILES, results))
    table = table.rename(columns={"figure": "percentile"}).assign(unit="s")
    return table.reindex(columns=[*names, "n", "percentile", "value", *INTERVAL, "unit", "count"])
