"""The chart of a verdict as values: stores by questions, each figure with its bar.

The page draws it as a table (``report/templates``), `storewise.figures.verdict_picture` as
a picture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.text import all_of, binary, count, number, seconds
from storewise.analysis.files.parts import host_of, part_versions
from storewise.analysis.measure.derived import times_asked
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.answer import MIN_OPERATIONS
from storewise.analysis.verdict.asked import LOAD, OF_ONE_FILE
from storewise.analysis.verdict.criteria import KINDS
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict
from storewise.analysis.verdict.measures import rounds_in_words
from storewise.analysis.verdict.standings import interval
from storewise.study.criteria import BY_KEY, INODES

#: Columns of the chart; what counts comes first where there are more.
COLUMNS = 8
#: What Storewise measures with, of little use to who reads a slide.
LIBRARIES = ("hdrhistogram", "psutil")
#: Numbers from here on are told in thousands.
THOUSANDS = 10_000.0
#: Ratio of the longest to the shortest bar from which on a scale is logarithmic.
FAR = 20.0
#: The shortest bar of a logarithmic scale.
SHORTEST = 0.04


@dataclass(frozen=True, slots=True)
class Column:
    """One question, or what else is compared; `about` says what it is."""

    name: str
    about: str
    log: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell: the figure in words, `runs` (how often it was measured), its bar (lengths in
    percent, nan where there is none), and where it comes from. `state` is best, behind, baseline,
    single or none; `few`: a ratio from so few operations is not to be trusted."""

    text: str
    runs: str = ""
    state: str = "none"
    title: str = ""
    length: float = math.nan
    low: float = math.nan
    high: float = math.nan
    source: str = ""
    few: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One store with its best configuration."""

    name: str
    engine: str
    configuration: str
    cells: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class VerdictChart:
    """All cells, row by row; `facts` say when, where and how much was measured, `left_out` what was
    not, each with the part of the page that tells more; `pays` from how many questions on stores
    do, and `words` what the words mean."""

    title: str
    facts: Sequence[str]
    left_out: Sequence[tuple[str, str]]
    versions: Sequence[str]
    columns: Sequence[Column]
    rows: Sequence[Row]
    pays: str
    words: Sequence[str]

    @property
    def key(self) -> str:
        """How to read it."""
        cells = [one for row in self.rows for one in row.cells]
        states = {one.state for one in cells}
        texts = [
            "Times: median of one answer.",
            "Bar: relative to the best of its column, longer is better"
            f"{'; log: in powers of ten' if any(c.log for c in self.columns) else ''}.",
            "Full colour: best, or not told apart from it; pale: behind.",
            "Outlined: single run, not judged." if "single" in states else "",
            f"Hatched: from under {MIN_OPERATIONS} runs." if any(c.few for c in cells) else "",
            "Line: 95 % interval of the ratio to the best."
            if any(c.low > 0 for c in cells)
            else "",
        ]
        return " ".join(filter(None, texts))


def verdict_chart(tables: Tables, verdict: Verdict) -> VerdictChart:
    """The chart of a study's verdict."""
    columns = shown_columns(verdict)
    drawn = [(one, *lengths(one)) for one in columns]
    study = tables.results.study
    return VerdictChart(
        str(study.get("title") or study.get("name") or tables.results.directory.name),
        _facts(tables),
        _left_out(tables, verdict),
        _versions(tables),
        [Column(one.title, one.about, log, one.weight > 0) for one, _, log in drawn],
        _rows(drawn, verdict),
        _pays(verdict),
        _words(columns, verdict),
    )


def shown_columns(verdict: Verdict) -> list[Criterion]:
    """At most COLUMNS: questions, load and size, then what else counts and is no rate."""
    replaced = {"load", "disk", "query", *KINDS}
    more = [
        one
        for one in verdict.criteria
        if one.weight > 0
        and one.name not in replaced
        and not one.name.startswith("phase ")
        # A store far below any quota has no more to win.
        and any(s.estimate.mean > one.least for s in one.standings)
    ]
    told = [*(one for one in verdict.asked if one.standings), *more]
    ordered = sorted(range(len(told)), key=lambda place: (told[place].weight == 0, place))
    return [told[place] for place in sorted(ordered[:COLUMNS])]


def lengths(criterion: Criterion) -> tuple[Mapping[str, tuple[float, float, float]], bool]:
    """Choice -> length of its bar and the ends of its whisker, shares of the widest place; and
    whether their scale is logarithmic. Longer is better, also where less is. Whiskers are whole."""

    def relative(value: float) -> float:
        value = max(value, criterion.least)
        return math.nan if not value > 0 else value / best if criterion.more else best / value

    means = [max(s.estimate.mean, criterion.least) for s in criterion.standings]
    best = (max if criterion.more else min)([m for m in means if m > 0], default=math.nan)
    ends = {}
    for s in criterion.standings:
        known = s.estimate.known() and s.estimate.high > s.estimate.low
        low, high = (s.estimate.low, s.estimate.high) if known else (math.nan, math.nan)
        ends[s.label] = (relative(s.estimate.mean), *sorted(map(relative, (low, high))))
    every = [value for of in ends.values() for value in of if value > 0]
    far = max(every, default=1.0) / min(every, default=1.0)
    decades = math.log10(far) / (1 - SHORTEST) if far > FAR else 0.0

    def length(value: float) -> float:
        share = value / max(every)
        return 1 + math.log10(share) / decades if decades else share

    return {
        label: tuple(length(v) if v > 0 else math.nan for v in of)  # type: ignore[misc]
        for label, of in ends.items()
    }, far > FAR


def _rows(
    drawn: Sequence[tuple[Criterion, Mapping[str, tuple[float, float, float]], bool]],
    verdict: Verdict,
) -> list[Row]:
    """A row per store: the baseline first, then by score."""
    files = title(BASELINE)
    criteria = [*verdict.criteria, *verdict.asked]
    engines = {s.label: s.engine for c in criteria for s in c.standings}
    places = {store: place for place, store in enumerate(verdict.decision.table.index)}
    names = sorted(engines, key=lambda name: (name != files, places.get(name, len(places))))
    shown = {name: _configuration(verdict.criteria, name) for name in names if name != files}
    # What is the same for all tells them apart by nothing.
    same = len(shown) > 1 and len(set(shown.values())) == 1
    return [
        Row(
            name,
            engines[name],
            "read again each time" if name == files else "" if same else shown[name],
            [_entry(one, name, bars) for one, bars, _ in drawn],
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


def short_number(value: float, unit: str) -> str:
    """A figure in a few characters: ``2,560``, ``168k``, ``1.9M``, ``0.63 ms``, ``2.6 MiB``."""
    if unit in ("s", "B"):
        return (seconds if unit == "s" else binary)(value) if value > 0 else f"0 {unit}"
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= (THOUSANDS if letter == "k" else size):
            return f"{number(value / size)}{letter}"
    return count(value) if unit == INODES else number(value)


def _entry(
    criterion: Criterion, name: str, bars: Mapping[str, tuple[float, float, float]]
) -> Entry:
    standing = criterion.of(name)
    if standing is None:
        nothing = name == title(BASELINE) and criterion.name == LOAD
        return Entry("nothing to load" if nothing else "not measured")
    ranked = "best" if standing.leads else "behind" if standing.rank else "single"
    state = "baseline" if standing.baseline else ranked
    rank = {"best": "best or not told apart", "behind": "behind", "single": "single run"}.get(state)
    told = [rank, interval(standing.estimate, criterion.unit), standing.where]
    best = min((s.finished for s in criterion.standings), default=math.inf)
    length, low, high = (100 * end for end in bars[name])
    return Entry(
        short_number(standing.estimate.mean, criterion.unit),
        _runs(criterion, standing),
        state,
        "; ".join(filter(None, told)),
        length,
        low,
        high,
        f"{criterion.table}:{standing.source_row}" if standing.source_row else "",
        min(best, standing.finished) < MIN_OPERATIONS,
    )


def _runs(criterion: Criterion, standing: Standing) -> str:
    """How often a time was measured: ``40 runs``, ``3.49M runs``."""
    n = standing.estimate.n if criterion.name == LOAD else standing.finished
    if criterion.unit != "s" or not math.isfinite(n):
        return ""
    return f"{short_number(n, INODES)} run{'s' if n != 1 else ''}"


def _pays(verdict: Verdict) -> str:
    """From how many questions on stores pay, of a question that reads one file and of one that
    reads all: why the number grows with the corpus, or does not."""
    lines = []
    for of_one in (True, False):
        asked = [c for c in verdict.asked if (c.name in OF_ONE_FILE) is of_one]
        of = next((c for c in asked if any(c.name in n for n in verdict.pays.values())), None)
        if of is None:
            continue
        each = {s: kinds[of.name] for s, kinds in verdict.pays.items() if of.name in kinds}
        told = [f"{s} {times_asked(n)}" for s, n in sorted(each.items(), key=lambda one: one[1])]
        law = "of a larger corpus more: loading takes longer, but this reads one file"
        if not of_one:
            law = (
                "of a larger corpus about as many: loading and reading all files take longer alike"
            )
        lines.append(f"{of.title} – {', '.join(told)} ({law})")
    return f"Loading pays from so many questions on: {'; '.join(lines)}." if lines else ""


def _words(columns: Sequence[Criterion], verdict: Verdict) -> list[str]:
    """What the words of the answer mean that stand over no column."""
    lines = []
    for one in verdict.criteria:
        of = [c.title for c in columns if c.name in KINDS.get(one.name, ())]
        if one.weight > 0 and one.name in BY_KEY and one.title not in {c.title for c in columns}:
            lines.append(f"{one.title}: {all_of(of) or BY_KEY[one.name].about}")
    return lines


def _facts(tables: Tables) -> list[str]:
    """When, where and how much was measured, in few words."""
    results = tables.results
    opened = [float(p.conditions["opened"]) for p in results.parts if p.conditions.get("opened")]
    hosts = sorted({host_of(part.conditions)[0] for part in results.parts} - {"", "unknown"})
    day = datetime.fromtimestamp(max(opened), UTC) if opened else None
    trials = f"{len(tables.trials):,} of {len(tables.trials) + results.lacking:,} trials"
    return [
        text
        for text in (
            f"{day.day} {day:%B %Y}" if day else "",
            f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts)} hosts" if hosts else "",
            _inputs(tables),
            f"{trials}, {rounds_in_words(tables)}",
        )
        if text
    ]


def _inputs(tables: Tables) -> str:
    """``295 of 301 outputs, 177 searches, 24,426 hits``."""
    inputs = tables.results.inputs
    if inputs is None:
        return ""
    every = inputs.listed or inputs.files + len(tables.results.quarantined)
    of_kind = {"tasks": "searches", "align": "hits"}
    numbers = [f"{inputs.kinds[k]:,} {words}" for k, words in of_kind.items() if k in inputs.kinds]
    return ", ".join([f"{inputs.files:,} of {every:,} outputs", *numbers])


def _left_out(tables: Tables, verdict: Verdict) -> list[tuple[str, str]]:
    """What was left out, failed or is not finished, each with where the page tells more."""
    results = tables.results
    counted = (
        (len(results.quarantined), "output", "left out", "quarantined"),
        (len(results.failed), "trial", "failed", "failed"),
        (results.lacking - len(results.failed), "trial", "not measured yet", "warnings"),
    )
    told = [
        (f"{n} {what}{'s' if n > 1 else ''} {how}", at) for n, what, how, at in counted if n > 0
    ]
    return [*told, *((f"{store} is not judged: {why}", "why") for store, why in verdict.set_aside)]


def _versions(tables: Tables) -> list[str]:
    """What was measured and by what, with versions; a server's names its product already."""
    every = {pair for part in tables.results.parts for pair in part_versions(part)}
    texts = {
        version if name.startswith("server of") else f"{name.rpartition('.')[2]} {version}"
        for name, version in every
        if name not in LIBRARIES
    }
    return sorted(texts, key=lambda text: (not text.startswith("storewise"), text.lower()))
