"""Latency histograms of a phase, merged from the Hdr logs of its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import HdrLog, Part, whole_phases
from storewise.analysis.model.results import Key, OwnerKey
from storewise.errors import ResultError
from storewise.metrics.hdr import Counted, Tag, decoded, merge_all, percentiles

#: Nanoseconds in a second.
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


def counted_tag(text: str) -> bool:
    """Whether a tag is of operations that count; raises ValueError for a foreign one."""
    tag = Tag.parse(text)
    return not (tag.failed or tag.warmup)


def figures(histogram: Counted, wanted: Mapping[str, float | None]) -> dict[str, float]:
    """Percentiles of a histogram, and its mean where None is wanted, in s by name; none of an empty
    one."""
    if not histogram.get_total_count():
        return {}
    values = percentiles(histogram, [p for p in wanted.values() if p is not None])
    return {
        name: (histogram.get_mean_value() if p is None else values[p]) / NS
        for name, p in wanted.items()
    }
