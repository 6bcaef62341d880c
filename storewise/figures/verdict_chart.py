"""The chart of a verdict as values: stores by criteria, each figure with its bar.

The page draws it as a table (``report/templates``), `storewise.figures.verdict_picture` as a
picture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of, binary, count, number, seconds
from storewise.analysis.files.parts import host_of
from storewise.analysis.measure.conditions import conditions
from storewise.analysis.measure.derived import times_asked
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.answer import MIN_OPERATIONS
from storewise.analysis.verdict.asked import LOAD, OF_ONE_FILE, QUESTIONS, SIZE
from storewise.analysis.verdict.criteria import KINDS
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict
from storewise.analysis.verdict.measures import rounds_in_words
from storewise.study.criteria import BY_KEY, INODES

#: Most columns of the chart; if there are more, criteria that count have priority.
COLUMNS = 8
#: Numbers from here on are shown in thousands (k).
THOUSANDS = 10_000.0
#: A scale is logarithmic if its longest bar is more than this many times the shortest.
LOG_RATIO = 20.0
#: Length of the shortest bar of a logarithmic scale, as a share of the longest.
SHORTEST = 0.04
#: How to read the chart.
KEY = (
    "Times: median of one answer. Bar: relative to the best of its column, longer is better; log: "
    "in powers of ten. Full colour: best, or not told apart from it; pale: worse; outlined: "
    f"single run, not judged; hatched: from under {MIN_OPERATIONS} runs. Line: 95 % interval of "
    "the ratio to the best."
)
#: Length of a bar, and the ends of its whisker, as shares of the longest.
Lengths = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Column:
    """One criterion of the chart, with its description `about`."""

    name: str
    about: str
    log: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell: the figure as text, `runs` (number of measurements), its bar (lengths in percent,
    nan: no bar) and its source. `state` is best, behind, baseline, single or none; `few`: the ratio
    is from too few operations to be reliable."""

    text: str
    runs: str = ""
    state: str = "none"
    length: float = math.nan
    low: float = math.nan
    high: float = math.nan
    source: str = ""
    few: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One store with its judged deployment."""

    name: str
    engine: str
    configuration: str
    cells: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class VerdictChart:
    """All cells, by row. `facts`: date, place and size of the study; `left_out`: (what was not
    measured, id of the part of the page about it); `pays`: numbers of questions from which loading
    pays; `words`: explanations of criteria."""

    title: str
    facts: Sequence[str]
    left_out: Sequence[tuple[str, str]]
    versions: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]
    pays: str
    words: Sequence[str]


def verdict_chart(tables: Tables, verdict: Verdict) -> VerdictChart:
    """The chart of a study's verdict."""
    columns = shown_columns(verdict)
    bars = [lengths(c) for c in columns]
    study = tables.results.study
    return VerdictChart(
        str(study.get("title") or study.get("name") or tables.results.directory.name),
        _facts(tables),
        _left_out(tables, verdict),
        conditions(tables).get("versions", []),
        [
            Column(c.title, c.about, log, c.weight > 0)
            for c, (_, log) in zip(columns, bars, strict=True)
        ],
        _rows(columns, [of for of, _ in bars], verdict),
        _pays(verdict),
        _words(columns, verdict),
    )


def shown_columns(verdict: Verdict) -> list[Criterion]:
    """At most COLUMNS: questions (a study's own first), load and size, then other counting criteria
    but rates."""
    replaced = {"load", "disk", "query", *KINDS}
    more = [
        c
        for c in verdict.criteria
        if c.weight > 0
        and c.name not in replaced
        and not c.name.startswith("phase ")
        # Below `least` (files: below any quota) a figure is no advantage.
        and any(s.estimate.mean > c.least for s in c.standings)
    ]
    columns = [*(c for c in verdict.asked if c.standings), *more]

    def last(place: int) -> tuple[bool, bool]:
        """What is left out first: what does not count, then usual questions."""
        name = columns[place].name
        own = name in {c.name for c in verdict.asked} - {*QUESTIONS, LOAD, SIZE}
        usual = name in QUESTIONS and name not in KINDS["read"]
        return columns[place].weight == 0 and not own, usual

    by_priority = sorted(range(len(columns)), key=last)
    return [columns[place] for place in sorted(by_priority[:COLUMNS])]


def lengths(criterion: Criterion) -> tuple[Mapping[str, Lengths], bool]:
    """Store -> length of its bar and the ends of its whisker, as shares of the longest; and whether
    the scale is logarithmic. Longer is better, also if smaller figures are better."""
    values = np.full((len(criterion.standings), 3), math.nan)
    for row, standing in zip(values, criterion.standings, strict=True):
        row[0] = standing.estimate.mean
        if standing.estimate.known() and standing.estimate.high > standing.estimate.low:
            row[1:] = standing.estimate.low, standing.estimate.high
    values = np.maximum(values, criterion.least)
    values[~(values > 0)] = math.nan
    scores = values if criterion.more else 1 / values[:, [0, 2, 1]]
    shares = scores / np.nanmax(scores, initial=0.0)
    shortest = np.nanmin(shares, initial=1.0)
    log = bool(shortest < 1 / LOG_RATIO)
    if log:
        shares = 1 - (1 - SHORTEST) * np.log(shares) / math.log(shortest)
    labels = [standing.label for standing in criterion.standings]
    return dict(zip(labels, map(tuple, shares.tolist()), strict=True)), log


def _rows(
    columns: Sequence[Criterion], bars: Sequence[Mapping[str, Lengths]], verdict: Verdict
) -> list[Row]:
    """A row per store: the baseline first, then by score."""
    files, judged = title(BASELINE), verdict.decision.table
    standings = [s for c in (*verdict.criteria, *verdict.asked) for s in c.standings]
    engines = {s.label: s.engine for s in standings}
    places = {store: place for place, store in enumerate(judged.index)}
    names = sorted(engines, key=lambda name: (name != files, places.get(name, len(places))))
    rows = zip(judged.index, records(judged), strict=True)
    deployed = {str(name): str(row["deployment"]) for name, row in rows}
    # Settings that are equal for all stores are left out.
    same = len(deployed) > 1 and len(set(deployed.values())) == 1
    configurations = {} if same else deployed
    return [
        Row(
            name,
            engines[name],
            "read again each time" if name == files else configurations.get(name, ""),
            [_entry(column, name, bar) for column, bar in zip(columns, bars, strict=True)],
        )
        for name in names
    ]


def short_number(value: float, unit: str) -> str:
    """A figure as short text: ``2,560``, ``168k``, ``1.9M``, ``0.63 ms``, ``2.6 MiB``."""
    if unit in ("s", "B"):
        return (seconds if unit == "s" else binary)(value) if value > 0 else f"0 {unit}"
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= (THOUSANDS if letter == "k" else size):
            return f"{number(value / size)}{letter}"
    return count(value) if unit == INODES else number(value)


def _entry(criterion: Criterion, name: str, bars: Mapping[str, Lengths]) -> Entry:
    standing = criterion.of(name)
    if standing is None:
        no_load = name == title(BASELINE) and criterion.name == LOAD
        return Entry("nothing to load" if no_load else "not measured")
    ranked = "best" if standing.leads else "behind" if standing.rank else "single"
    state = "baseline" if standing.baseline else ranked
    fewest = min(s.finished for s in criterion.standings if s is standing or s.leads)
    length, low, high = (100 * end for end in bars[name])
    return Entry(
        short_number(standing.estimate.mean, criterion.unit),
        _runs(criterion, standing),
        state,
        length,
        low,
        high,
        f"{criterion.table}:{standing.source_row}" if standing.source_row else "",
        fewest < MIN_OPERATIONS,
    )


def _runs(criterion: Criterion, standing: Standing) -> str:
    """The number of measurements of a time: ``40 runs``, ``3.49M runs``."""
    n = standing.estimate.n if criterion.name == LOAD else standing.finished
    if criterion.unit != "s" or not math.isfinite(n):
        return ""
    return f"{short_number(n, INODES)} run{'s' if n != 1 else ''}"


def _pays(verdict: Verdict) -> str:
    """A sentence: numbers of questions from which loading pays, for a question that reads one file
    and one that reads all, and whether the number grows with the corpus."""
    lines = []
    for of_one, trend in (
        (True, "more: loading takes longer, but this reads one file"),
        (False, "about as many: loading and reading all files take longer alike"),
    ):
        for item in verdict.asked:
            pays = {s: kinds[item.name] for s, kinds in verdict.pays.items() if item.name in kinds}
            if pays and (item.name in OF_ONE_FILE) is of_one:
                text = [f"{s} {times_asked(pays[s])}" for s in sorted(pays, key=pays.__getitem__)]
                lines.append(f"{item.title} – {', '.join(text)} (of a larger corpus {trend})")
                break
    return f"Loading pays from so many questions on: {'; '.join(lines)}." if lines else ""


def _words(columns: Sequence[Criterion], verdict: Verdict) -> list[str]:
    """Explanations of the criteria that the answer names but the chart does not show."""
    lines = []
    for one in verdict.criteria:
        of = [c.title for c in columns if c.name in KINDS.get(one.name, ())]
        if one.weight > 0 and one.name in BY_KEY and one.title not in {c.title for c in columns}:
            lines.append(f"{one.title}: {all_of(of) or BY_KEY[one.name].about}")
    return lines


def _facts(tables: Tables) -> list[str]:
    """Date, host and size of the study: ``295 of 301 outputs, 177 searches, 24,426 hits``."""
    results, inputs = tables.results, tables.results.inputs
    opened = [float(p.conditions["opened"]) for p in results.parts if p.conditions.get("opened")]
    hosts = sorted({host_of(part.conditions)[0] for part in results.parts} - {"", "unknown"})
    facts = []
    if opened:
        day = datetime.fromtimestamp(max(opened), UTC)
        facts.append(f"{day.day} {day:%B %Y}")
    if hosts:
        facts.append(f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts)} hosts")
    if inputs is not None:
        total = inputs.listed or inputs.files + len(results.quarantined)
        kinds = {"tasks": "searches", "align": "hits"}
        numbers = [
            f"{inputs.kinds[k]:,} {words}" for k, words in kinds.items() if k in inputs.kinds
        ]
        facts.append(", ".join([f"{inputs.files:,} of {total:,} outputs", *numbers]))
    trials = f"{len(tables.trials):,} of {len(tables.trials) + results.lacking:,} trials"
    return [*facts, f"{trials}, {rounds_in_words(tables)}"]


def _left_out(tables: Tables, verdict: Verdict) -> list[tuple[str, str]]:
    """(text, part of the page): trials and inputs left out, failed or not finished."""
    results = tables.results
    counted = (
        (len(results.quarantined), "output", "left out", "quarantined"),
        (len(results.failed), "trial", "failed", "failed"),
        (results.lacking - len(results.failed), "trial", "not measured yet", "warnings"),
    )
    texts = [
        (f"{n} {what}{'s' if n > 1 else ''} {how}", part) for n, what, how, part in counted if n > 0
    ]
    absent = [w.message.split(":")[0] for w in results.warnings if w.code == "engine_left_out"]
    texts += [(text, "warnings") for text in absent]
    return [*texts, *((f"{store} is not judged: {why}", "why") for store, why in verdict.set_aside)]
