"""The recommendation: one sentence with its evidence, one about what would change it.

A store is recommended only where its score is told apart from that of every other choice that has
figures for the same criteria (`storewise.analysis.verdict.scores`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from storewise.analysis.common.text import all_of, number
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.scores import Counted, Score, Turn, repeats_needed, turn
from storewise.analysis.verdict.standings import (
    Criterion,
    Standing,
    figure,
    interval,
    quantity,
    with_unit,
)
from storewise.study.criteria import CRITERIA

#: How many criteria a sentence names figures of, those that count most.
_NAMED = 3
#: Shares below it are told as that.
_LITTLE = 0.0001
_REPEATS = "set `repeats: 3` or more"
#: Beside an interval that leaves out 1, by itself.
_AMONG_PAIRS = " by itself, but not among all pairs (Holm's method)"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`choice` is empty where no store is recommended; `sentences` are exactly two."""

    choice: str
    among: tuple[str, ...]
    """Choices that cannot be told apart; the recommended one alone."""
    sentences: tuple[str, str]
    turn: Turn | None = None
    repeats: int | None = None
    """About how many repeats would tell the first two apart, where they cannot be."""


def recommend(
    criteria: Sequence[Criterion], scored: Sequence[Score], counted: Sequence[Counted], *, own: bool
) -> Recommendation:
    """What to take, of criteria with their weights and the scores made of them.

    `own` says that the study gave the weights.
    """
    labels = {s.label for c in criteria for s in c.stores}
    if not labels:
        return Recommendation(
            "",
            (),
            (
                "no store can be judged, because no store has results that count.",
                "A trial that succeeds, of a store that keeps what is written to it, would change "
                "that.",
            ),
        )
    if len(labels) == 1:
        return _only(criteria, next(iter(labels)))
    first = [s for s in scored if s.rank == 1]
    if not scored:
        return _no_scores(criteria)
    used = [c for c in criteria if c.weight > 0]
    single = all(s.estimate.n == 1 for c in used for s in c.stores)
    if len(first) == 1 and not (len(used) == 1 and single and not own):
        return _winner(criteria, used, scored, counted, own=own)
    return _tie(criteria, used, scored, own=own)


def _only(criteria: Sequence[Criterion], name: str) -> Recommendation:
    told = [
        f"{c.title} {with_unit(s.estimate.mean, c.unit)}" for c in criteria if (s := c.of(name))
    ]
    return Recommendation(
        "",
        (name,),
        (
            f"only {name} can be judged, because no other store has results: {', '.join(told)}.",
            "Results of another store at the same work would make a comparison of it"
            f"{''.join(f'; {words}' for words in not_measured(criteria))}.",
        ),
    )


def _no_scores(criteria: Sequence[Criterion]) -> Recommendation:
    best = [f"{all_of(c.leaders, 'or')} for {c.title}" for c in criteria if len(c.stores) > 1]
    parts = f" ({'; '.join(best)})" if best else ""
    return Recommendation(
        "",
        tuple(sorted({s.label for c in criteria for s in c.stores})),
        (
            f"no store can be preferred, because no criterion that counts was measured for two of "
            f"them{parts}.",
            f"Measure {all_of([c.title for c in criteria], 'or')} for all of them.",
        ),
    )


def weights_in_words(used: Sequence[Criterion], *, own: bool, brief: bool = False) -> str:
    """``equal weights of loading and reading``, ``weights of 75 % reading and 25 % loading``."""
    if len(used) == 1:
        return f"{used[0].title} alone"
    if not own or len({c.weight for c in used}) == 1:
        if brief and len(used) > _NAMED:
            return f"equal weights of {len(used)} criteria"
        return f"equal weights of {all_of([c.title for c in used])}"
    ordered = sorted(used, key=lambda c: -c.weight)
    return f"weights of {all_of([f'{_percent(c.weight)} {c.title}' for c in ordered])}"


def _percent(share: float) -> str:
    if 0 < share < _LITTLE:
        return f"less than {_LITTLE * 100:g} %"
    text = f"{share * 100:.0f}" if share == 0 or share >= 0.01 else number(share * 100)
    return f"{text} %"


def _winner(
    criteria: Sequence[Criterion],
    used: Sequence[Criterion],
    scored: Sequence[Score],
    counted: Sequence[Counted],
    *,
    own: bool,
) -> Recommendation:
    name = scored[0].choice
    second = next((s for s in scored if s.rank > 1), None)
    by_weight = sorted(used, key=lambda c: -c.weight)
    leads = [c for c in by_weight if c.leaders == (name,)]
    shares = [c for c in by_weight if name in c.leaders and c not in leads]
    behind = [c for c in by_weight if name not in c.leaders and c.of(name)]
    parts = []
    if leads:
        parts.append(f"alone first in {all_of([_evidence(c, name) for c in leads[:_NAMED]])}")
    if shares:
        told = [_evidence(c, name) for c in shares[: max(1, _NAMED - len(leads))]]
        parts.append(f"not told apart from the best in {all_of(told)}")
    if behind:
        parts.append(f"behind {all_of([_behind(c, name) for c in behind[:_NAMED]])}")
    score = ""
    if second is not None:
        score = (
            f" its score is {_times(second.relative)} that of {second.choice}, the next"
            f"{_inside(_turned(second.relative))}:"
        )
    words = weights_in_words(used, own=own, brief=True)
    sentence = f"take {_named(used, name)}; with {words}{score} it is {', '.join(parts)}."
    found = turn(name, counted)
    return Recommendation(name, (name,), (sentence, _changes(criteria, scored, found)), found)


def _evidence(criterion: Criterion, name: str) -> str:
    standing = criterion.of(name)
    assert standing is not None
    return f"{criterion.title} ({_short(standing, criterion.unit)})"


def _short(standing: Standing, unit: str) -> str:
    """Figure and interval alone; the rest of the configuration is in the criterion's sentence."""
    bare = Standing(
        standing.label,
        "",
        "",
        standing.estimate,
        standing.rank,
        note=standing.note if standing.client_bound else "",
    )
    return figure(bare, unit).replace(" (", ", ").rstrip(")")


def _behind(criterion: Criterion, name: str) -> str:
    mine = criterion.of(name)
    best, unit = criterion.stores[0], criterion.unit
    assert mine is not None
    figures = (quantity(mine.estimate.mean, unit), with_unit(best.estimate.mean, unit))
    return f"{best.label} in {criterion.title} ({' against '.join(figures)})"


def _turned(found: Estimate) -> Estimate:
    """1 over a ratio."""
    return Estimate(
        found.n,
        1 / found.mean,
        1 / found.high,
        1 / found.low,
        found.resampled,
        found.error,
        found.freedom,
    )


def _times(relative: Estimate) -> str:
    return f"{number(1 / relative.mean)} times"


def _inside(found: Estimate) -> str:
    words = interval(found)
    return f" ({words})" if words else ""


def _named(criteria: Sequence[Criterion], name: str) -> str:
    """A choice with its topology, where it was the same one that was best in everything."""
    shown = {s.shown for c in criteria for s in c.standings if s.label == name}
    return shown.pop() if len(shown) == 1 else name


def _changes(criteria: Sequence[Criterion], scored: Sequence[Score], found: Turn | None) -> str:
    """The second sentence behind a recommendation."""
    if found is None:
        parts = ["no other weight of a single criterion would put another store first"]
    else:
        title = next(c.title for c in criteria if c.name == found.criterion)
        way = "more" if found.share > found.now else "less"
        parts = [
            f"{found.choice} would come first by its means if {title} counts {way} than "
            f"{_percent(found.share)} instead of {_percent(found.now)}"
        ]
        if found.then:
            parts[0] += f", and {found.then} at {way} than {_percent(found.until)}"
    parts += _partial(criteria, scored)
    parts += not_measured(criteria)
    return f"What would change it: {'; '.join(parts)}."


def _partial(criteria: Sequence[Criterion], scored: Sequence[Score]) -> list[str]:
    """Choices that lack a criterion that counts and are not shown to be worse in the rest."""
    titles = {c.name: c.title for c in criteria}
    found = []
    for one in scored:
        if one.lacks and not (one.relative.known() and one.relative.high < 1):
            lacking = all_of([titles[n] for n in one.lacks])
            found.append(
                f"{one.choice} lacks {lacking} and is {_ratio(one.relative)} as good in the rest"
            )
    more = len(found) - _NAMED
    others = [f"{more} others that lack some are not shown to be worse either"] if more > 0 else []
    return [*found[:_NAMED], *others]


def _ratio(found: Estimate) -> str:
    return f"{number(found.mean)} times{_inside(found)}"


def _ratio_of(score: Score, best: str) -> str:
    words = interval(score.relative)
    return f"that of {score.choice} is {number(score.relative.mean)} times that of {best}" + (
        f"; {words}" if words else ""
    )


def not_measured(criteria: Sequence[Criterion]) -> list[str]:
    """Known criteria about which there is nothing."""
    known = {c.name for c in criteria}
    missing = [c.title for c in CRITERIA if c.key not in known]
    return [f"{all_of(missing)} {'was' if len(missing) == 1 else 'were'} not measured"] * bool(
        missing
    )


def _tie(
    criteria: Sequence[Criterion], used: Sequence[Criterion], scored: Sequence[Score], *, own: bool
) -> Recommendation:
    first = [s for s in scored if s.rank == 1]
    names = [s.choice for s in first]
    rest = [s for s in scored if s.rank > 1]
    known = all(s.relative.known() for s in first)
    words = weights_in_words(used, own=own, brief=True)
    needed: int | None = None
    if len(first) == 1:
        why = "one criterion of single runs is no ground for a choice"
        names = [s.choice for s in scored if s.rank]
    elif not known or first[-1].relative.resampled == "operations":
        why = (
            f"at {words} single runs do not tell how much scores differ from run to run "
            f"({_REPEATS})"
        )
    else:
        second = first[1]
        needed = repeats_needed(second.relative)
        why = (
            f"at {words} the differences of their scores may be chance "
            f"({_ratio_of(second, names[0])}{_AMONG_PAIRS * (not _spans_one(second))})"
        )
        if _equal(first):
            why = f"at {words} their scores are equal"
            if small := [f"{c.title} below {with_unit(c.least, c.unit)}" for c in used if c.least]:
                why += f" ({all_of(small)} is not told apart)"
    # Not of each of the first: one with few or noisy runs may be among them with a low score.
    behind = all_of([s.choice for s in rest])
    before = f"; {behind} scored less than {names[0]}" if rest and known else ""
    clear = [
        f"{c.leaders[0]} for {c.title} ({_short(c.stores[0], c.unit)})"
        for c in used
        if len(c.leaders) == 1 and len(c.stores) > 1
    ]
    alone = f"; clear is only {all_of(clear[:_NAMED])}" if clear else ""
    one = (
        f"no store can be preferred: {all_of(names)} cannot be told apart, because {why}"
        f"{before}{alone}."
    )
    return Recommendation(
        "", tuple(names), (one, _what_tells(criteria, scored, needed)), None, needed
    )


def _spans_one(score: Score) -> bool:
    return score.relative.low <= 1 <= score.relative.high


def _equal(first: Sequence[Score]) -> bool:
    """Whether scores are the same number, and not only by chance."""
    return len(first) > 1 and all(
        s.relative.known() and math.isclose(s.relative.low, 1) and math.isclose(s.relative.high, 1)
        for s in first
    )


def _what_tells(criteria: Sequence[Criterion], scored: Sequence[Score], needed: int | None) -> str:
    first = [s for s in scored if s.rank == 1]
    parts = []
    if needed is not None:
        have = first[1].relative.n
        parts.append(
            f"about {needed:,} repeats instead of {have} would tell {first[0].choice} from "
            f"{first[1].choice}, if their means stay as they are"
        )
    elif not _equal(first):
        parts.append(f"more repeats ({_REPEATS})")
    parts.append("other weights (key `weights` of the study)")
    parts += _partial(criteria, scored)
    parts += not_measured(criteria)
    return f"What would change it: {'; '.join(parts)}."
