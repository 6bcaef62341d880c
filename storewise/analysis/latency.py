"""Latency percentiles from merged Hdr logs.

Percentiles cannot be averaged, so histograms are added (Tene's HdrHistogram) over workers,
processes and threads, and for the table over repeats over these too; then percentiles are read
from the sum. *Service time* runs from the actual start of an operation, *response time* from
its intended start, so that only the latter tells what a client at a fixed rate waits. Failed and
warm-up operations are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from storewise.analysis.frames import missing, records
from storewise.analysis.latencyintervals import INTERVAL, about, of_operations, of_repeats
from storewise.analysis.load import Results
from storewise.analysis.parts import HdrLog, whole_phases
from storewise.analysis.warning import StudyWarning
from storewise.errors import ResultError
from storewise.metrics.hdr import Tag, merge_logs, new_histogram, percentiles, tags

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
NS = 1e9

Key = tuple[str, str, int, str, str]
"""Trial, phase, step, operation, time."""


def histograms(results: Results) -> tuple[dict[Key, Any], list[StudyWarning]]:
    """Merged histograms by trial, phase, step, operation and time ("service", "response").

    A log that cannot be read leaves its whole phase out, with a warning.
    """
    whole = whole_phases(results.parts)
    found: dict[Key, Any] = {}
    warnings: list[StudyWarning] = []
    by_phase: dict[tuple[str, str], list[HdrLog]] = {}
    for log in results.logs:
        by_phase.setdefault((log.trial, log.phase), []).append(log)
    for (trial, phase), logs in sorted(by_phase.items()):
        workers = {p.worker for p in results.parts if (p.trial, p.phase) == (trial, phase)}
        if (trial, phase) not in whole or workers - {log.worker for log in logs}:
            continue
        try:
            merged = merge_tags([log.path for log in logs])
        except ResultError as error:
            warnings.append(
                StudyWarning(
                    "unreadable_log", trial, str(error), "delete the trial and measure again"
                )
            )
            continue
        found |= {(trial, phase, *key): histogram for key, histogram in merged.items()}
    return found, warnings


def merge_tags(paths: Sequence[Path]) -> dict[tuple[int, str, str], Any]:
    """Histograms of these logs by step, operation and time."""
    wanted: dict[str, tuple[int, str, str]] = {}
    for path in paths:
        for text in tags(path):
            try:
                tag = Tag.parse(text)
            except ValueError as error:
                raise ResultError(f"{path}: {error}") from error
            # What has an owner is in its operation's own intervals too.
            if not (tag.failed or tag.warmup or tag.owner is not None):
                wanted[text] = (tag.step, tag.operation, tag.time.removesuffix("_time"))
    merged: dict[tuple[int, str, str], Any] = {}
    for text, key in wanted.items():
        merged[key] = merge_logs(paths, text)
    return merged


def latency(found: Mapping[Key, Any]) -> pd.DataFrame:
    """Percentiles per trial in s: trial, phase, step, operation, time, percentile, value, unit,
    count (operations behind it)."""
    rows = [
        {**dict(zip(_KEYS, key, strict=True)), **row}
        for key, histogram in found.items()
        for row in _rows(histogram)
    ]
    return pd.DataFrame(rows, columns=[*_KEYS, "percentile", "value", "unit", "count"])


def merged_latency(found: Mapping[Key, Any], results: Results) -> pd.DataFrame:
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
    merged: dict[tuple[Any, ...], Any] = {}
    repeats: dict[tuple[Any, ...], int] = {}
    for (trial, *rest), histogram in found.items():
        key = (*levels[trial], *rest)
        merged.setdefault(key, new_histogram()).add(histogram)
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
