"""Latency histograms of a phase, merged from the Hdr logs of its workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import HdrLog, Part, whole_phases
from storewise.analysis.model.results import Key
from storewise.errors import ResultError
from storewise.metrics.hdr import SparseHistogram, Tag, decoded, merge_all, percentiles

#: Nanoseconds in a second.
NS = 1e9


def histograms(
    parts: Sequence[Part],
    logs: Sequence[HdrLog],
    totals: Mapping[tuple[str, str], Mapping[str, str]] | None = None,
) -> tuple[dict[Key, SparseHistogram], list[StudyWarning]]:
    """Merged histograms of each operation, and of each operation and named node.

    `totals` maps (trial, phase) to the stored sums of its logs (payloads by tag). A phase with an
    unreadable log is left out, with a warning; so is one with a missing log (`parts.missing_parts`
    warns).
    """
    whole = whole_phases(parts)
    workers = Counter((part.trial, part.phase) for part in parts)
    by_phase: dict[tuple[str, str], list[Path]] = {}
    for log in logs:
        by_phase.setdefault((log.trial, log.phase), []).append(log.path)
    found: dict[Key, SparseHistogram] = {}
    warnings: list[StudyWarning] = []
    for place, paths in sorted(by_phase.items()):
        if place not in whole or len(paths) < workers[place]:
            continue
        try:
            sums = (totals or {}).get(place)
            if sums is None:
                merged = merge_all(paths, counted_tag)
            else:
                merged = decoded({tag: sums[tag] for tag in sums if counted_tag(tag)})
        except ResultError as error:
            remedy = "delete the trial and measure again"
            warnings.append(StudyWarning("unreadable_log", place[0], str(error), remedy))
            continue
        for text, histogram in merged.items():
            tag = Tag.parse(text)
            time = tag.time.removesuffix("_time")
            found[(*place, tag.step, tag.operation, tag.owner or "", time)] = histogram
    return found, warnings


def counted_tag(text: str) -> bool:
    """Whether a tag is of operations that count; raises ValueError for an unknown tag."""
    tag = Tag.parse(text)
    return not (tag.failed or tag.warmup)


def figures(histogram: SparseHistogram, wanted: Mapping[str, float | None]) -> dict[str, float]:
    """Name -> percentile in s (the mean if the wanted percentile is None); empty for an empty
    histogram."""
    if not histogram.get_total_count():
        return {}
    values = percentiles(histogram, [p for p in wanted.values() if p is not None])
    return {
        name: (histogram.get_mean_value() if p is None else values[p]) / NS
        for name, p in wanted.items()
    }
