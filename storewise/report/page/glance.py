"""The first screen: the answer, one chart of stores by criteria, and what to take for which use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.remedies import Group, grouped_warnings
from storewise.analysis.common.text import number, seconds
from storewise.analysis.files.parts import host_of
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.answer import LONG, MOST, Answer
from storewise.analysis.verdict.bars import Bar, bars, ceiling_of, scale_of
from storewise.analysis.verdict.criteria import Criterion
from storewise.analysis.verdict.decision import Verdict
from storewise.analysis.verdict.scores import Counted
from storewise.analysis.verdict.standings import interval
from storewise.report.data.rows import source_label

#: Columns of the chart; what counts comes first where there are more criteria.
COLUMNS = 8
#: Criteria that are no columns where they do not count.
ASIDE = ("cost", "scaling", "setup")
#: Numbers from here on are told in thousands.
THOUSANDS = 10_000.0


@dataclass(frozen=True, slots=True)
class Column:
    """One criterion of the chart."""

    name: str
    unit: str
    about: str
    log: bool
    counts: bool
    ceiling: float


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell: the figure in words, its bar (lengths in percent, nan where there is none), and
    where it comes from. `state` is best, behind, baseline, vague or none."""

    text: str
    state: str
    title: str
    length: float
    low: float
    high: float
    source: str
    label: str


@dataclass(frozen=True, slots=True)
class Row:
    """One store with its best configuration."""

    name: str
    engine: str
    configuration: str
    cells: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Glance:
    """All of the first screen but its form."""

    answer: Answer
    facts: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]
    groups: Sequence[Group]
    doubtful: bool
    """Whether most phases were short or hosts were busy: the warning then stands above all."""

    @property
    def some_log(self) -> bool:
        """Whether a column is logarithmic."""
        return any(column.log for column in self.columns)

    @property
    def some_ceiling(self) -> bool:
        """Whether the client's ceiling is drawn."""
        return any(not math.isnan(column.ceiling) for column in self.columns)


def glance(tables: Tables, verdict: Verdict) -> Glance:
    """The first screen of a study."""
    criteria = shown_criteria(verdict.criteria)
    groups = grouped_warnings(tables.warnings)
    walls = tables.throughput.loc[tables.throughput["measure"] == "duration", "wall"]
    short = len(walls) > 0 and bool((walls < LONG).mean() > MOST)
    busy = any(warning.code == "busy_host" for warning in tables.warnings)
    return Glance(
        verdict.answer,
        _facts(tables),
        [_column(one) for one in criteria],
        rows_of(criteria, verdict),
        groups,
        short or busy,
    )


def shown_criteria(criteria: Sequence[Criterion]) -> list[Criterion]:
    """At most COLUMNS of them in their order: those that count, then the first of the others.

    What says nothing new (a cost that is the load's rate, turned over) is in the tables only.
    """
    told = [one for one in criteria if one.weight > 0 or one.name not in ASIDE]
    ordered = sorted(range(len(told)), key=lambda place: (told[place].weight == 0, place))
    return [told[place] for place in sorted(ordered[:COLUMNS])]


def rows_of(criteria: Sequence[Criterion], verdict: Verdict) -> list[Row]:
    """A row per store: the baseline first, then by score."""
    files = title(BASELINE)
    labels = dict.fromkeys(s.label for c in verdict.criteria for s in c.standings)
    places = {one.choice: place for place, one in enumerate(verdict.scores)}
    names = sorted(labels, key=lambda name: (name != files, places.get(name, len(places))))
    drawn = [(one, bars(one)) for one in criteria]
    return [
        Row(
            name,
            next(s.engine for c in verdict.criteria for s in c.standings if s.label == name),
            _configuration(verdict.criteria, name),
            [_entry(one, bars_of.get(name), name) for one, bars_of in drawn],
        )
        for name in names
    ]


def _configuration(criteria: Sequence[Criterion], name: str) -> str:
    """The best configuration: what a store had in every criterion in which that is told."""
    told = [s.configuration for c in criteria for s in c.standings if s.label == name]
    parts = [set(text.split(", ")) for text in told if text]
    if not parts:
        return ""
    common = set.intersection(*parts)
    return ", ".join(word for word in told[0].split(", ") if word in common) if told[0] else ""


def _column(criterion: Criterion) -> Column:
    scale = scale_of(criterion)
    unit = {"1": "", "s": ""}.get(criterion.unit, criterion.unit.replace("10^6", "million"))
    return Column(
        criterion.short,
        unit,
        criterion.heading,
        scale is not None and scale.log,
        criterion.weight > 0,
        100 * ceiling_of(criterion),
    )


def short_number(value: float, unit: str) -> str:
    """A figure in at most six signs: ``2,560``, ``168k``, ``1.9M``, ``0.63 ms``."""
    if unit == "s" and value > 0:
        return seconds(value)
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= (THOUSANDS if letter == "k" else size):
            return f"{number(value / size)}{letter}"
    return number(value)


def _entry(criterion: Criterion, bar: Bar | None, name: str) -> Entry:
    if bar is None:
        nothing = name == title(BASELINE) and criterion.name == "load"
        text = "nothing to load" if nothing else "–"
        return Entry(text, "none", "" if nothing else "not measured", *[math.nan] * 3, "", "")
    standing = bar.standing
    source = f"{criterion.table}:{standing.source_row}" if standing.source_row else ""
    label = source_label(source) if source else ""
    told = [interval(standing.estimate, criterion.unit), standing.configuration, standing.note]
    if standing.vague:
        state, text = "vague", "not measured well enough"
    else:
        state = "baseline" if standing.baseline else "best" if standing.leads else "behind"
        text = short_number(standing.estimate.mean, criterion.unit)
    rank = f"rank {standing.rank}" if standing.rank else ""
    lengths = [100 * one for one in (bar.length, bar.low, bar.high)]
    return Entry(text, state, "; ".join(filter(None, [rank, *told])), *lengths, source, label)


def _facts(tables: Tables) -> list[str]:
    """When, where and how often, in few words."""
    parts = tables.results.parts
    opened = [float(part.conditions["opened"]) for part in parts if part.conditions.get("opened")]
    hosts = sorted({host_of(part.conditions)[0] for part in parts} - {"", "unknown"})
    repeats = tables.results.study.get("repeats")
    day = datetime.fromtimestamp(max(opened), UTC) if opened else None
    where = f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts)} hosts" if hosts else ""
    return [
        text
        for text in (
            f"{day.day} {day:%B %Y}" if day else "",
            where,
            f"{repeats} repeat{'s' if repeats != 1 else ''}" if repeats else "",
            f"{len(tables.trials)} trials",
        )
        if text
    ]


def weights_payload(verdict: Verdict) -> dict[str, Any]:
    """What the page needs to score the stores by other weights: see ``js/weights.js``."""
    several = {c.name for c in verdict.criteria if len(c.stores) > 1}
    return {
        "criteria": [_figures(one) for one in verdict.counted if one.name in several],
        "titles": {c.name: c.short for c in verdict.criteria},
        "choice": verdict.recommendation.choice,
        "uses": [dict(one.shares) for one in verdict.answer.uses],
    }


def _figures(one: Counted) -> Mapping[str, Any]:
    return {
        "name": one.name,
        "weight": one.weight,
        "more": one.more,
        "least": one.least,
        "figures": {
            choice: {
                "n": figure.n,
                "mean": figure.mean,
                "resampled": figure.resampled,
                "log": figure.log,
                "error": None if math.isnan(figure.error) else figure.error,
                "freedom": None if math.isnan(figure.freedom) else figure.freedom,
            }
            for choice, figure in one.figures.items()
        },
    }
