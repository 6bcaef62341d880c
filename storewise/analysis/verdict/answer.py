"""The answer in a few words: the store to take, the stores it is compared with, and the certainty.

Intervals are not part of the answer: the chart and the verdict's table show them.
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

#: At most so many reasons are named in the answer.
REASONS = 2
#: A sentence names a ratio of rates only if each was measured with at least so many operations.
MIN_OPERATIONS = 10

#: Criterion -> the text after "3 x" for a store that is better by it.
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
    """The parts of the answer as text. `sentence`: the store to take; `beside`: how it compares
    with others; `use`: the criteria that counted; `change`: the weight that would change the
    answer; `reasons`: limits of the certainty; `uses`: the answers for other priorities."""

    sentence: str
    beside: str
    use: str
    change: str
    sure: str
    reasons: Sequence[str]
    uses: Sequence[Choice]

    @property
    def sureness(self) -> str:
        """The certainty with its reasons: ``sure: fair (phases shorter than 5 s)``."""
        why = f" ({'; '.join(self.reasons[:REASONS])})" if self.reasons else ""
        return f"sure: {self.sure}{why}"

    @property
    def lines(self) -> list[str]:
        """The answer as two lines of text."""
        return [f"{self.sentence}   {self.sureness}", self.beside]


def answer(
    tables: Tables,
    criteria: Sequence[Criterion],
    asked: Sequence[Criterion],
    judged: Decision,
    pays: Mapping[str, Mapping[str, float]],
    uses: Sequence[Choice],
) -> Answer:
    """The answer of a verdict, made from the verdict's other parts."""
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
    """The criteria that counted, as text: ``load, look up and disk, equally``."""
    if not used:
        return ""
    shares = {c.weight for c in used}
    equal = max(shares) - min(shares) < 1e-9
    if equal:
        words = all_of([c.title for c in used])
        return f"{words}, equally" if len(used) > 1 else words
    return all_of([f"{c.title} {c.weight * 100:.0f} %" for c in used])


def change(judged: Decision, used: Sequence[Criterion]) -> str:
    """The smallest change of one weight that would make another store the best, as text: ``DuckDB
    instead, if count weighs more than 45 %``.

    The difference of two scores is the weighted sum of their differences by criterion. It is 0
    where one weight times its difference is minus the sum of all other terms.
    """
    if len(judged.named) != 1:
        return ""
    means = judged.rounds.groupby(level="store", sort=False).mean()
    first, *others = judged.table.index
    least, text = math.inf, ""
    for other in others:
        gaps = means.loc[first] - means.loc[other]
        for criterion in used:
            gap, weight = gaps[criterion.name], criterion.weight
            terms = sum(c.weight * gaps[c.name] for c in used if c is not criterion)
            new = -terms / gap if gap else -1.0
            share = new / (1 - weight + new) if new >= 0 and weight < 1 else math.inf
            if share < 1 and abs(share - weight) < least:
                least, change_of = abs(share - weight), "more" if share > weight else "less"
                limit = f"{change_of} than {share * 100:.0f} %"
                text = f"{other} instead, if {criterion.title} weighs {limit}"
    return text


def _factor(value: float) -> str:
    """A rounded ratio as text: ``60 x``, ``1.7 x``."""
    if value >= 9.95:
        digits = 10 ** max(0, math.floor(math.log10(value)) - 1)
        return f"{round(value / digits) * digits:,} x"
    return f"{value:.1f} x".replace(".0 x", " x")


def _better(criterion: Criterion) -> str:
    return _BETTER.get(criterion.name, f"better at {criterion.title}")


def times_better(criterion: Criterion, one: Standing, other: Standing) -> float:
    """The factor by which `one` is better than `other`; NaN if either figure is 0 or was measured
    with fewer than `MIN_OPERATIONS` operations."""
    value = max(one.estimate.mean, criterion.least)
    other_value = max(other.estimate.mean, criterion.least)
    if not (value > 0 and other_value > 0):
        return math.nan
    if min(one.finished, other.finished) < MIN_OPERATIONS:
        return math.nan
    return value / other_value if criterion.more else other_value / value


def _against_files(
    asked: Sequence[Criterion], name: str, pays: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    """Yield at most one sentence: the speed-up of a store over reading the files again and over the
    next store, and the number of questions from which its load pays."""
    files = title(BASELINE)
    # Criteria that counted come first: only these are reasons for the answer.
    for criterion in sorted(asked, key=lambda c: c.weight == 0):
        standing, base = criterion.of(name), criterion.of(files)
        if standing is None or base is None or criterion.unit != "s":
            continue
        times = times_better(criterion, standing, base)
        if times >= WORTH:
            others = [s for s in criterion.stores if s.label != name]
            ahead = times_better(criterion, standing, others[0]) if others else math.nan
            second = f", {_factor(ahead)} than {others[0].label}" if ahead >= WORTH else ""
            number = pays.get(name, {}).get(criterion.name, math.inf)
            what = f"{criterion.title[0].upper()}{criterion.title[1:]}"
            limit = f"; pays from {_asked(number)} on" if math.isfinite(number) else ""
            yield f"{what}: {_factor(times)} faster than reading the files again{second}{limit}."
            return


def _asked(times: float) -> str:
    """A number of questions as text: ``the first such question``, ``91 such questions``."""
    first = times_asked(times)
    return "the first such question" if first == "1" else f"{first} such questions"


def _beside(used: Sequence[Criterion], name: str, *, found: bool) -> Iterator[str]:
    """Yield the strongest advantage of the store `name`, unless another reason was `found` already;
    then the criterion that counts in which another store is most clearly better."""
    ahead, behind = [], []
    for criterion in used:
        first, standing = criterion.stores[0], criterion.of(name)
        worse = next((s for s in criterion.stores if s.rank > 1), None)
        if standing is not None and standing.leads and worse is not None:
            times = times_better(criterion, standing, worse)
            ahead.append((times, criterion.weight, f"{_better(criterion)} than {worse.label}."))
        elif standing is not None and standing.rank > 1:
            times = times_better(criterion, first, standing)
            behind.append((times, f"But {first.label}: ", f"{_better(criterion)} than {name}."))
    ahead = [] if found else [reason for reason in ahead if reason[0] >= WORTH]
    if ahead:
        times, _, end = max(ahead, key=lambda reason: (reason[1], reason[0]))
        yield f"{_factor(times)} {end}"
    behind = [reason for reason in behind if reason[0] >= WORTH]
    if behind:
        times, start, end = max(behind, key=lambda reason: reason[0])
        yield f"{start}{_factor(times)} {end}"


def _between(tables: Tables, criteria: Sequence[Criterion], names: Sequence[str]) -> Iterator[str]:
    """Yield differences between stores with equal scores: need of a server, size on disk."""
    serverless = [name for name in names if name in without_server(tables)]
    if 0 < len(serverless) < len(names):
        yield f"Without a server: {all_of(serverless)}."
    for disk in (c for c in criteria if c.name == "disk"):
        standings = [s for s in disk.stores if s.label in names]
        if len(standings) > 1:
            best, worst = standings[0], standings[-1]
            times = times_better(disk, best, worst)
            if times >= WORTH:
                yield f"{best.label}: {_factor(times)} {_better(disk)} than {worst.label}."
