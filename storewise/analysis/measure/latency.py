"""Latency percentiles from merged Hdr logs.

Percentiles cannot be averaged, so histograms are added (Tene's HdrHistogram) over workers,
processes and threads, and for the table over repeats over these too; then percentiles are read
from the sum. *Service time* runs from the actual start of an operation, *response time* from
its intended start, so that only the latter tells what a client at a fixed rate waits. Failed and
warm-up operations are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import HdrLog, Part, whole_phases
from storewise.analysis.measure.latency_intervals import INTERVAL, about, of_operations, of_repeats
from storewise.analysis.model.results import Key, OwnerKey, Results
from storewise.errors import ResultError
from storewise.metrics.hdr import Tag, decoded, merge_all, percentiles
from storewise.metrics.sparse_histogram import Counted

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
NS = 1e9


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
    found: dict[Key, Counted] = {}
    owned: dict[OwnerKey, Counted] = {}
    warnings: list[StudyWarning] = []
    by_phase: dict[tuple[str, str], list[HdrLog]] = {}
    for log in logs:
        by_phase.setdefault((log.trial, log.phase), []).append(log)
    workers: dict[tuple[str, str], set[int | None]] = {}
    for part in parts:
        workers.setdefault((part.trial, part.phase), set()).add(part.worker)
    for (trial, phase), own in sorted(by_phase.items()):
        if (trial, phase) not in whole or workers[trial, phase] - {log.worker for log in own}:
            continue
        try:
            known = (totals or {}).get((trial, phase))
            if known is None:
                merged = merge_all([log.path for log in own], counted_tag)
            else:
                merged = decoded({t: known[t] for t in known if counted_tag(t)})
        except ResultError as error:
            warnings.append(
                StudyWarning(
                    "unreadable_log", trial, str(error), "delete the trial and measure again"
                )
            )
            continue
        for text, histogram in merged.items():
            tag = Tag.parse(text)
            time = tag.time.removesuffix("_time")
            if tag.owner is None:
                found[trial, phase, tag.step, tag.operation, time] = histogram
            else:
                owned[trial, phase, tag.step, tag.operation, tag.owner, time] = histogram
    return found, owned, warnings


def counted_tag(text: str) -> bool:
    """Whether a tag is of operations that count; raises ValueError for a foreign one."""
    tag = Tag.parse(text)
    return not (tag.failed or tag.warmup)


def latency(found: Mapping[Key, Counted]) -> pd.DataFrame:
    """Percentiles per trial in s: trial, phase, step, operation, time, percentile, value, unit,
    count (operations behind it)."""
    rows = [
        {**dict(zip(_KEYS, key, strict=True)), **row}
        for key, histogram in found.items()
        for row in _rows(histogram)
    ]
    return pd.DataFrame(rows, columns=[*_KEYS, "percentile", "value", "unit", "count"])


def merged_latency(found: Mapping[Key, Counted], results: Results) -> pd.DataFrame:
    """Percentiles over all repeats of the same factors' levels, in s, with their intervals.

    Columns: factors, phase, step, operation, time, n, percentile, value, low, high, resampled,
    error, freedom, unit, count.
    """
    factors = list(results.factors)
    # One nan does not equal another, so that repeats would stay apart.
    levels = {
        row["trial"]: tuple(None if missing(row[name]) else row[name] for name in factors)
        for row in records(results.trials)
    }
    merged: dict[tuple[Any, ...], Counted] = {}
    repeats: dict[tuple[Any, ...], int] = {}
    for (trial, *rest), histogram in found.items():
        key = (*levels[trial], *rest)
        merged.setdefault(key, Counted()).add(histogram)
        repeats[key] = repeats.get(key, 0) + 1
    names = [*factors, *_KEYS[1:]]
    each = latency(found)
    relative = of_repeats(each[each["percentile"] != "max"], results, [*_KEYS[1:], "percentile"])
    rows = [
        {
            **dict(zip(names, key, strict=True)),
            "n": repeats[key],
            **row,
            **(
                of_operations(histogram, PERCENTILES[row["percentile"]], NS)
                if repeats[key] == 1
                else about(row["value"], relative.get((*key, row["percentile"])))
            ),
        }
        for key, histogram in merged.items()
        for row in _rows(histogram)
    ]
    columns = [*names, "n", "percentile", "value", *INTERVAL, "unit", "count"]
    return pd.DataFrame(rows, columns=columns)


_KEYS = ("trial", "phase", "step", "operation", "time")


def _rows(histogram: Any) -> Iterable[dict[str, Any]]:
    values = percentiles(histogram, list(PERCENTILES.values()))
    count = int(histogram.get_total_count())
    for name, percentile in PERCENTILES.items():
        if percentile in values:
            yield {
                "percentile": name,
                "value": values[percentile] / NS,
                "unit": "s",
                "count": count,
            }
