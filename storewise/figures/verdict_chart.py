"""The chart of a verdict as values: stores by criteria, each figure with its bar.

The page draws it as a table (``report/templates``), `storewise.figures.verdict_picture` as
a picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.text import count, number, seconds
from storewise.analysis.files.parts import host_of, part_versions
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.bars import Bar, bars, ceiling_of, scale_of
from storewise.analysis.verdict.criteria import Criterion
from storewise.analysis.verdict.decision import Verdict
from storewise.analysis.verdict.standings import interval
from storewise.study.criteria import INODES

#: Columns of the chart; what counts comes first where there are more criteria.
COLUMNS = 8
#: What Storewise measures with, of little use to who reads a slide.
LIBRARIES = ("hdrhistogram", "psutil")
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
    where it comes from. `state` is best, behind, baseline, single or none."""

    text: str
    state: str
    title: str
    length: float
    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class Row:
    """One store with its best configuration."""

    name: str
    engine: str
    configuration: str
    cells: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class VerdictChart:
    """All cells, row by row; `facts` say when, where and how often, in few words."""

    title: str
    facts: Sequence[str]
    versions: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]

    @property
    def some_log(self) -> bool:
        """Whether a column is logarithmic."""
        return any(column.log for column in self.columns)

    @property
    def some_ceiling(self) -> bool:
        """Whether the client's ceiling is drawn."""
        return any(not math.isnan(column.ceiling) for column in self.columns)

    @property
    def some_single(self) -> bool:
        """Whether a figure is of a single run."""
        return any(one.state == "single" for row in self.rows for one in row.cells)

    @property
    def key(self) -> str:
        """How to read it."""
        texts = [
            "Bar: relative to the best of its column, longer is better"
            f"{'; log: in powers of ten' if self.some_log else ''}.",
            "Dark: best, or not told apart from it. Line across: 95 % interval of the ratio to it.",
            "Hatched: single run, not judged." if self.some_single else "",
            "Thin line at the end: the client's own ceiling." if self.some_ceiling else "",
        ]
        return " ".join(filter(None, texts))


def verdict_chart(tables: Tables, verdict: Verdict) -> VerdictChart:
    """The chart of a study's verdict."""
    criteria = shown_criteria(verdict.criteria)
    study = tables.results.study
    return VerdictChart(
        str(study.get("title") or study.get("name") or tables.results.directory.name),
        _facts(tables),
        _versions(tables),
        [_column(one) for one in criteria],
        rows_of(criteria, verdict),
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
    places = {store: place for place, store in enumerate(verdict.decision.table.index)}
    names = sorted(labels, key=lambda name: (name != files, places.get(name, len(places))))
    drawn = [(one, bars(one)) for one in criteria]
    shown = {name: _configuration(verdict.criteria, name) for name in names if name != files}
    # What is the same for all tells them apart by nothing.
    same = len(shown) > 1 and len(set(shown.values())) == 1
    return [
        Row(
            name,
            next(s.engine for c in verdict.criteria for s in c.standings if s.label == name),
            "read again each time" if name == files else "" if same else shown[name],
            [_entry(one, bars_of.get(name), name) for one, bars_of in drawn],
        )
        for name in names
    ]


def _configuration(criteria: Sequence[Criterion], name: str) -> str:
    """The best configuration: what a store had in every criterion in which that is told."""
    told = [s.where for c in criteria for s in c.standings if s.label == name]
    parts = [set(text.split(", ")) for text in told if text]
    if not parts:
        return ""
    common = set.intersection(*parts)
    return ", ".join(word for word in told[0].split(", ") if word in common) if told[0] else ""


def _column(criterion: Criterion) -> Column:
    scale = scale_of(criterion)
    unit = {"1": "", "s": "", INODES: "with directories"}.get(
        criterion.unit, criterion.unit.replace("10^6", "million")
    )
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
    return count(value) if unit == INODES else number(value)


def _entry(criterion: Criterion, bar: Bar | None, name: str) -> Entry:
    if bar is None:
        nothing = name == title(BASELINE) and criterion.name == "load"
        text = "nothing to load" if nothing else "–"
        return Entry(
            text, "none", "" if nothing else "not measured", math.nan, math.nan, math.nan, ""
        )
    standing = bar.standing
    source = f"{criterion.table}:{standing.source_row}" if standing.source_row else ""
    told = [interval(standing.estimate, criterion.unit), standing.where, standing.note]
    ranked = "best" if standing.leads else "behind" if standing.rank else "single"
    state = "baseline" if standing.baseline else ranked
    text = short_number(standing.estimate.mean, criterion.unit)
    rank = {"best": "best or not told apart", "behind": "behind", "single": "single run"}.get(state)
    return Entry(
        text,
        state,
        "; ".join(filter(None, [rank, *told])),
        100 * bar.length,
        100 * bar.low,
        100 * bar.high,
        source,
    )


def _facts(tables: Tables) -> list[str]:
    """When, where and how often, in few words."""
    parts = tables.results.parts
    opened = [float(part.conditions["opened"]) for part in parts if part.conditions.get("opened")]
    hosts = sorted({host_of(part.conditions)[0] for part in parts} - {"", "unknown"})
    repeats = tables.results.study.get("repeats")
    day = datetime.fromtimestamp(max(opened), UTC) if opened else None
    lacking = tables.results.lacking
    of = f" of {len(tables.trials) + lacking}" if lacking else ""
    where = f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts)} hosts" if hosts else ""
    return [
        text
        for text in (
            f"{day.day} {day:%B %Y}" if day else "",
            where,
            f"{repeats} repeat{'s' if repeats != 1 else ''}" if repeats else "",
            f"{len(tables.trials)}{of} trials",
        )
        if text
    ]


def _versions(tables: Tables) -> list[str]:
    """What was measured and by what, with versions; a server's names its product already."""
    every = {pair for part in tables.results.parts for pair in part_versions(part)}
    texts = {
        version if name.startswith("server of") else f"{name.rpartition('.')[2]} {version}"
        for name, version in every
        if name not in LIBRARIES
    }
    return sorted(texts, key=lambda text: (not text.startswith("storewise"), text.lower()))
