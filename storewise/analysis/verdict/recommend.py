"""The recommendation: one sentence with its evidence, one about what would change it.

A store is recommended only where its score is told apart from that of every other choice that has
figures for the same criteria (`storewise.analysis.verdict.scores`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from storewise.analysis.common.text import all_of, number
from storewise.analysis.stats.intervals import Estimate
from storewise.analysis.verdict.criteria import CLIENT_BOUND, Criterion, Standing
from storewise.analysis.verdict.scores import Counted, Score, Turn, repeats_needed, turn
from storewise.analysis.verdict.standings import figure, interval, quantity, with_unit
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
    criteria: Sequence[Criterion],
    scored: Sequence[Score],
    counted: Sequence[Counted],
    *,
    weighted: bool,
) -> Recommendation:
    """What to take, of criteria with their weights and the scores made of them.

    `weighted` says that the study gave the weights.
    """
    labels = sorted({s.label for c in criteria for s in c.stores})
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
        (name,) = labels
        figures = [
            f"{c.title} {with_unit(s.estimate.mean, c.unit)}" for c in criteria if (s := c.of(name))
        ]
        return Recommendation(
            "",
            (name,),
            (
                f"only {name} can be judged, because no other store has results: "
                f"{', '.join(figures)}.",
                "Results of another store at the same work would make a comparison of it"
                f"{''.join(f'; {words}' for words in not_measured(criteria))}.",
            ),
        )
    if not scored:
        best = [f"{all_of(c.leaders, 'or')} for {c.title}" for c in criteria if len(c.stores) > 1]
        parts = f" ({'; '.join(best)})" if best else ""
        return Recommendation(
            "",
            tuple(labels),
            (
                "no store can be preferred, because no criterion that counts was measured for two "
                f"of them{parts}.",
                f"Measure {all_of([c.title for c in criteria], 'or')} for all of them.",
            ),
        )
    first = [s for s in scored if s.rank == 1]
    used = [c for c in criteria if c.weight > 0]
    single = all(s.estimate.n == 1 for c in used for s in c.stores)
    words = weights_in_words(used, weighted=weighted, brief=True)
    if len(first) == 1 and not (len(used) == 1 and single and not weighted):
        return _winner(criteria, used, scored, counted, words)
    return _tie(criteria, used, scored, words)


def weights_in_words(used: Sequence[Criterion], *, weighted: bool, brief: bool = False) -> str:
    """``equal weights of loading and reading``, ``weights of 75 % reading and 25 % loading``."""
    if len(used) == 1:
        return f"{used[0].title} alone"
    most = max(c.weight for c in used)
    main = [c for c in used if c.weight == most]
    if not weighted or len(main) == len(used):
        titles = all_of([c.title for c in main])
        if brief and len(main) > _NAMED:
            titles = f"{len(main)} criteria"
        # Where the study gives no weights some criteria count less than the others.
        less = [f"{_percent(c.weight / most)} of that for {c.title}" for c in used if c not in main]
        words = f"{'equal weights' if len(main) > 1 else 'a weight'} of {titles}"
        return f"{words}{f', and {all_of(less)}' if less else ''}"
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
    weights: str,
) -> Recommendation:
    name = scored[0].choice
    second = next((s for s in scored if s.rank > 1), None)
    by_weight = sorted(used, key=lambda c: -c.weight)
    leads = [c for c in by_weight if c.leaders == (name,)]
    shares = [c for c in by_weight if name in c.leaders and c not in leads]
    parts = []
    if leads:
        parts.append(f"alone first in {all_of([_evidence(c, name) for c in leads[:_NAMED]])}")
    if shares:
        evidence = [_evidence(c, name) for c in shares[: max(1, _NAMED - len(leads))]]
        parts.append(f"not told apart from the best in {all_of(evidence)}")
    if behind := [words for c in by_weight if (words := _behind(c, name))]:
        parts.append(f"behind {all_of(behind[:_NAMED])}")
    score = ""
    if second is not None:
        over = second.relative.under(1.0)
        score = (
            f" its score is {number(over.mean)} times that of {second.choice}, the next"
            f"{_inside(over)}:"
        )
    sentence = f"take {_named(used, name)}; with {weights}{score} it is {', '.join(parts)}."
    first_turn = turn(name, counted)
    changes = _changes(criteria, scored, first_turn)
    return Recommendation(name, (name,), (sentence, changes), first_turn)


def _evidence(criterion: Criterion, name: str) -> str:
    standing = criterion.of(name)
    assert standing is not None
    return f"{criterion.title} ({_short(standing, criterion.unit)})"


def _short(standing: Standing, unit: str) -> str:
    """Figure and interval alone; the rest of the configuration is in the criterion's sentence."""
    note = standing.note if standing.note == CLIENT_BOUND else ""
    bare = replace(standing, where="", note=note)
    return figure(bare, unit).replace(" (", ", ").rstrip(")")


def _behind(criterion: Criterion, name: str) -> str:
    """Who is before a choice, and by what figures; empty where it leads or has none."""
    standing, best, unit = criterion.of(name), criterion.stores[0], criterion.unit
    if standing is None or standing.leads:
        return ""
    figures = (quantity(standing.estimate.mean, unit), with_unit(best.estimate.mean, unit))
    return f"{best.label} in {criterion.title} ({' against '.join(figures)})"


def _inside(ratio: Estimate) -> str:
    words = interval(ratio)
    return f" ({words})" if words else ""


def _named(criteria: Sequence[Criterion], name: str) -> str:
    """A choice with its topology, where it was the same one that was best in everything."""
    shown = {s.shown for c in criteria for s in c.standings if s.label == name}
    return shown.pop() if len(shown) == 1 else name


def _changes(
    criteria: Sequence[Criterion], scored: Sequence[Score], first_turn: Turn | None
) -> str:
    """The second sentence behind a recommendation."""
    if first_turn is None:
        part = "no other weight of a single criterion would put another store first"
    else:
        title = next(c.title for c in criteria if c.name == first_turn.criterion)
        way = "more" if first_turn.share > first_turn.now else "less"
        part = (
            f"{first_turn.choice} would come first by its means if {title} counts {way} than "
            f"{_percent(first_turn.share)} instead of {_percent(first_turn.now)}"
        )
        if first_turn.then:
            part += f", and {first_turn.then} at {way} than {_percent(first_turn.until)}"
    return _what_would_change([part], criteria, scored)


def _what_would_change(
    parts: Sequence[str], criteria: Sequence[Criterion], scored: Sequence[Score]
) -> str:
    parts = [*parts, *_partial(criteria, scored), *not_measured(criteria)]
    return f"What would change it: {'; '.join(parts)}."


def _partial(criteria: Sequence[Criterion], scored: Sequence[Score]) -> list[str]:
    """Choices that lack a criterion that counts and are not shown to be worse in the rest."""
    titles = {c.name: c.title for c in criteria}
    texts = [
        f"{one.choice} lacks {all_of([titles[name] for name in one.lacks])} and is "
        f"{number(one.relative.mean)} times{_inside(one.relative)} as good in the rest"
        for one in scored
        if one.lacks and not (one.relative.known() and one.relative.high < 1)
    ]
    more = len(texts) - _NAMED
    others = [f"{more} others that lack some are not shown to be worse either"] if more > 0 else []
    return [*texts[:_NAMED], *others]


def not_measured(criteria: Sequence[Criterion]) -> list[str]:
    """Known criteria about which there is nothing."""
    known = {c.name for c in criteria}
    missing = [c.title for c in CRITERIA if c.key not in known]
    verb = "was" if len(missing) == 1 else "were"
    return [f"{all_of(missing)} {verb} not measured"] if missing else []


def _tie(
    criteria: Sequence[Criterion],
    used: Sequence[Criterion],
    scored: Sequence[Score],
    weights: str,
) -> Recommendation:
    first = [s for s in scored if s.rank == 1]
    names = [s.choice for s in first]
    rest = [s.choice for s in scored if s.rank > 1]
    known = all(s.relative.known() for s in first)
    equal = _equal(first)
    needed: int | None = None
    if len(first) == 1:
        why = "one criterion of single runs is no ground for a choice"
        names = [s.choice for s in scored if s.rank]
    elif not known or first[-1].relative.resampled == "operations":
        why = (
            f"at {weights} single runs do not tell how much scores differ from run to run "
            f"({_REPEATS})"
        )
    else:
        second = first[1]
        needed = repeats_needed(second.relative)
        words = interval(second.relative)
        of_ratio = (
            f"that of {second.choice} is {number(second.relative.mean)} times that of {names[0]}"
            f"{f'; {words}' if words else ''}"
        )
        spans_one = second.relative.low <= 1 <= second.relative.high
        why = (
            f"at {weights} the differences of their scores may be chance "
            f"({of_ratio}{'' if spans_one else _AMONG_PAIRS})"
        )
        if equal:
            why = f"at {weights} their scores are equal"
            if small := [f"{c.title} below {with_unit(c.least, c.unit)}" for c in used if c.least]:
                why += f" ({all_of(small)} is not told apart)"
    # Not of each of the first: one with few or noisy runs may be among them with a low score.
    before = f"; {all_of(rest)} scored less than {names[0]}" if rest and known else ""
    clear = [
        f"{c.leaders[0]} for {c.title} ({_short(c.stores[0], c.unit)})"
        for c in used
        if len(c.leaders) == 1 and len(c.stores) > 1
    ]
    alone = f"; clear is only {all_of(clear[:_NAMED])}" if clear else ""
    sentence = (
        f"no store can be preferred: {all_of(names)} cannot be told apart, because {why}"
        f"{before}{alone}."
    )
    parts = ["other weights (key `weights` of the study)"]
    if needed is not None:
        parts.insert(
            0,
            f"about {needed:,} repeats instead of {first[1].relative.n} would tell "
            f"{first[0].choice} from {first[1].choice}, if their means stay as they are",
        )
    elif not equal:
        parts.insert(0, f"more repeats ({_REPEATS})")
    changes = _what_would_change(parts, criteria, scored)
    return Recommendation("", tuple(names), (sentence, changes), None, needed)


def _equal(first: Sequence[Score]) -> bool:
    """Whether scores are the same number, and not only by chance."""
    return len(first) > 1 and all(
        s.relative.known() and math.isclose(s.relative.low, 1) and math.isclose(s.relative.high, 1)
        for s in first
    )
