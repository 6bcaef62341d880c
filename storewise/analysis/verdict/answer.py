"""The answer in a few words: which store to take, its rivals, and how certain that is.

No interval stands here: intervals are whiskers of the chart, and columns of the verdict's table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.text import all_of
from storewise.analysis.decision import Decision
from storewise.analysis.decision.model import WORTH
from storewise.analysis.measure.derived import times_asked
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.measures import without_server
from storewise.analysis.verdict.uses import Choice, names_of

#: Reasons that are named beside the answer.
REASONS = 2
#: A sentence names a ratio of rates only if each was measured with at least so many operations.
MIN_OPERATIONS = 10

#: Criterion -> what a store is by it, after "3 x": faster, smaller.
_BETTER = {
    "load": "faster to load",
    "read": "faster look-ups",
    "scan": "faster scans",
    "aggregate": "faster counts",
    "query": "faster answers",
    "latency": "shorter waits (slowest 1 %)",
    "disk": "smaller",
    "inodes": "fewer files",
    "cost": "cheaper",
    "setup": "sooner set up",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """`sentence` is what to take, `beside` what it is held against, `use` what counted, `change`
    the weight that would change it; `reasons` say why the answer is not surer. `uses` are the
    answers for other priorities."""

    sentence: str
    beside: str
    use: str
    change: str
    sure: str
    reasons: Sequence[str]
    uses: Sequence[Choice]

    @property
    def sureness(self) -> str:
        """The certainty of the answer with its reason: ``sure: fair (phases shorter than 5 s)``."""
        why = f" ({'; '.join(self.reasons[:REASONS])})" if self.reasons else ""
        return f"sure: {self.sure}{why}"

    @property
    def lines(self) -> list[str]:
        """The answer in two lines."""
        return [f"{self.sentence}   {self.sureness}", self.beside]


def answer(
    tables: Tables,
    criteria: Sequence[Criterion],
    asked: Sequence[Criterion],
    judged: Decision,
    pays: Mapping[str, Mapping[str, float]],
    uses: Sequence[Choice],
) -> Answer:
    """The answer of a verdict, of which all arguments are parts."""
    used = sorted((c for c in criteria if c.weight > 0), key=lambda c: -c.weight)
    sentence, names = judged.sentence, judged.named
    if len(judged.table) == 1:
        beside = " ".join(_against_files(asked, names[0], pays)) or (
            "Measure a second store, or `files`, to compare."
        )
    elif len(names) == 1:
        if pays and not math.isfinite(min(pays.get(names[0], {}).values(), default=math.inf)):
            sentence = f"Keep the files: {names[0]} never pays for its load."
        against = list(_against_files(asked, names[0], pays))
        beside = " ".join([*against, *_beside(used, names[0], found=bool(against))])
    elif names:
        sentence = f"No store is clearly better: {names_of(names)}."
        beside = " ".join(_between(tables, criteria, names)) or (
            "Nothing that was measured decides between them."
        )
    else:
        beside = "No store has results that count."
    return Answer(
        sentence,
        beside,
        _use(used),
        change(judged, used),
        judged.sure,
        judged.why,
        uses,
    )


def _use(used: Sequence[Criterion]) -> str:
    """The criteria that counted: ``load, look up and disk, equally``."""
    if not used:
        return ""
    shares = {c.weight for c in used}
    equal = max(shares) - min(shares) < 1e-9
    if equal:
        words = all_of([c.title for c in used])
        return f"{words}, equally" if len(used) > 1 else words
    return all_of([f"{c.title} {c.weight * 100:.0f} %" for c in used])


def change(judged: Decision, used: Sequence[Criterion]) -> str:
    """The smallest change of a single weight that would give another store the score of the best:
    ``DuckDB instead, if count weighs more than 45 %``.

    The gap of two scores is the sum of weights times gaps: it is 0 where the weight of one
    criterion is minus the sum of the others over its own gap.
    """
    if len(judged.named) != 1:
        return ""
    means = judged.rounds.groupby(level="store", sort=False).mean()
    first, *others = judged.table.index
    least, text = math.inf, ""
    for other in others:
        gaps = means.loc[first] - means.loc[other]
        for one in used:
            rest = sum(c.weight * gaps[c.name] for c in used if c is not one)
            level = -rest / gaps[one.name] if gaps[one.name] else -1.0
            share = level / (1 - one.weight + level) if level >= 0 and one.weight < 1 else math.inf
            if share < 1 and abs(share - one.weight) < least:
                least, way = abs(share - one.weight), "more" if share > one.weight else "less"
                text = f"{other} instead, if {one.title} weighs {way} than {share * 100:.0f} %"
    return text


def _factor(value: float) -> str:
    """A ratio as people say it: ``60 x``, ``1.7 x``."""
    if value >= 9.95:
        digits = 10 ** max(0, math.floor(math.log10(value)) - 1)
        return f"{round(value / digits) * digits:,} x"
    return f"{value:.1f} x".replace(".0 x", " x")


def _better(criterion: Criterion) -> str:
    return _BETTER.get(criterion.name, f"better at {criterion.title}")


def times_better(criterion: Criterion, one: Standing, other: Standing) -> float:
    """The factor by which `one` is better than `other`; NaN if either is 0, too imprecise or
    measured with fewer than `MIN_OPERATIONS` operations."""
    mine = max(one.estimate.mean, criterion.least)
    its = max(other.estimate.mean, criterion.least)
    if not (mine > 0 and its > 0):
        return math.nan
    if min(one.finished, other.finished) < MIN_OPERATIONS:
        return math.nan
    return mine / its if criterion.more else its / mine


def _against_files(
    asked: Sequence[Criterion], name: str, pays: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """How much sooner a store answers a question than reading the files again and than the next
    store, and from how many such questions on it pays."""
    files = title(BASELINE)
    # What counted first: a reason that was no reason would mislead.
    for one in sorted(asked, key=lambda c: c.weight == 0):
        standing, base = one.of(name), one.of(files)
        if standing is None or base is None or one.unit != "s":
            continue
        times = times_better(one, standing, base)
        if times >= WORTH:
            others = [s for s in one.stores if s.label != name]
            ahead = times_better(one, standing, others[0]) if others else math.nan
            next_one = f", {_factor(ahead)} than {others[0].label}" if ahead >= WORTH else ""
            paid = pays.get(name, {}).get(one.name, math.inf)
            what = f"{one.title[0].upper()}{one.title[1:]}"
            when = f"; pays from {_asked(paid)} on" if math.isfinite(paid) else ""
            yield f"{what}: {_factor(times)} faster than reading the files again{next_one}{when}."
            return


def _asked(times: float) -> str:
    """``the first such question``, ``91 such questions``."""
    first = times_asked(times)
    return "the first such question" if first == "1" else f"{first} such questions"


def _beside(used: Sequence[Criterion], name: str, *, found: bool) -> Iterator[str]:
    """Yield the strongest reason for a choice, unless one was `found` already, and the store that
    is most clearly better than it in a criterion that counts."""
    ahead, behind = [], []
    for one in used:
        first, standing = one.stores[0], one.of(name)
        worse = next((s for s in one.stores if s.rank > 1), None)
        if standing is not None and standing.leads and worse is not None:
            times = times_better(one, standing, worse)
            ahead.append((times, one.weight, f"{_better(one)} than {worse.label}."))
        elif standing is not None and standing.rank > 1:
            times = times_better(one, first, standing)
            behind.append((times, f"But {first.label}: ", f"{_better(one)} than {name}."))
    ahead = [] if found else [reason for reason in ahead if reason[0] >= WORTH]
    if ahead:
        times, _, words = max(ahead, key=lambda reason: (reason[1], reason[0]))
        yield f"{_factor(times)} {words}"
    behind = [reason for reason in behind if reason[0] >= WORTH]
    if behind:
        times, who, words = max(behind, key=lambda reason: reason[0])
        yield f"{who}{_factor(times)} {words}"


def _between(tables: Tables, criteria: Sequence[Criterion], names: Sequence[str]) -> Iterator[str]:
    """Yield what decides between stores that are level: servers to run, disk."""
    alone = [name for name in names if name in without_server(tables)]
    if 0 < len(alone) < len(names):
        yield f"Without a server: {all_of(alone)}."
    for disk in (c for c in criteria if c.name == "disk"):
        standings = [s for s in disk.stores if s.label in names]
        if len(standings) > 1:
            best, worst = standings[0], standings[-1]
            times = times_better(disk, best, worst)
            if times >= WORTH:
                yield f"{best.label}: {_factor(times)} {_better(disk)} than {worst.label}."
