"""Which store to take, in words that the figures carry.

Per criterion (`storewise.study.criteria`) every choice stands with its best measured configuration,
and choices that do not differ share a rank (`storewise.analysis.verdict.standings`). The criteria
that count make one score per choice (`storewise.analysis.verdict.scores`), and of these the
recommendation is made (`storewise.analysis.verdict.recommend`). Steps at a target rate rank no
store by their rate; a search's answer does (`storewise.analysis.judge.comparable_steps`). The null
engine is the client's ceiling and never a choice; choices with failed trials or with lost or wrong
documents are set aside and said to be. Reading the input files again (engine ``files``) is the
baseline: it stands first at each criterion, has no rank, and has nothing to load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import (
    BASELINE,
    CEILING,
    label,
    may_lose,
    title,
    varying_promises,
)
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.measure.breakeven import times_asked
from storewise.analysis.measure.verification import wrong_trials
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict import criteria as figures_of
from storewise.analysis.verdict.answer import Answer, answer
from storewise.analysis.verdict.criteria import Criterion, Standing
from storewise.analysis.verdict.criteria_equal_load import kinds_of_questions, latency, scaling
from storewise.analysis.verdict.criteria_servers import loss, setup, slow_node
from storewise.analysis.verdict.recommend import Recommendation, recommend, weights_in_words
from storewise.analysis.verdict.scores import Counted, Score, scores, usable
from storewise.analysis.verdict.standings import comparison, figure, standings
from storewise.analysis.verdict.uses import choices
from storewise.study.criteria import BY_KEY, KEYS


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer` is for everybody, `finding` the line with its evidence; `text` are the sentences
    behind it, the second one of the recommendation first. `counted` are the criteria as scores take
    them."""

    answer: Answer
    finding: str
    text: Sequence[str]
    criteria: Sequence[Criterion]
    set_aside: Sequence[tuple[str, str]]
    """Choices that are not recommended, with the reason."""
    pays: Mapping[str, float]
    """Choice -> fewest questions from which on it pays against reading the files again; inf is
    never. Empty without engine ``files``."""
    recommendation: Recommendation
    scores: Sequence[Score]
    counted: Sequence[Counted]
    weighted: bool
    """Whether the study gave the weights."""


def verdict(tables: Tables) -> Verdict:
    """The verdict on a study's tables."""
    factors = tables.results.factors
    promises = varying_promises(tables.results.trials, factors)
    aside = _set_aside(tables, promises)
    weights = study_weights(tables.results.study)
    measured = criteria_of(tables)
    names = best_configurations(measured, factors, promises, aside, weights)
    criteria = []
    for one in measured:
        one = replace(one, standings=standings(one, factors, promises, aside, names))
        if one.stores:
            criteria.append(replace(one, sentence=_sentence(one)))
    criteria, scored, counted = weighed(criteria, weights)
    weighted = any(c.name in weights for c in criteria)
    recommendation = recommend(criteria, scored, counted, weighted=weighted)
    of_files = tables.results.study.get("workload", "alignments") == "alignments"
    what = "these inputs" if of_files else "this workload"
    pays = {
        names[name]: kinds
        for name, kinds in break_even(tables, promises, aside).items()
        if name in names
    }
    loading = comparable.loads(tables.throughput)
    phases = [p for p in tables.phases_of(tables.summary) if p not in loading]
    text = [
        recommendation.sentences[1],
        *_weights(criteria, weights, weighted=weighted),
        *(c.sentence for c in criteria),
        *comparable.sentences(phases, tables.steps, tables.searches, tables.results.trials),
        *_break_even_sentences(pays),
        *(f"{label} is set aside: {reason}." for label, reason in sorted(aside.items())),
    ]
    soonest = {name: min(kinds.values()) for name, kinds in pays.items()}
    uses = choices(criteria, counted, clients=_most_clients(tables.trials))
    return Verdict(
        answer(tables, criteria, recommendation, scored, soonest, uses),
        f"For {what}, on {_where(tables.trials)}: {recommendation.sentences[0]}",
        text,
        criteria,
        sorted(aside.items()),
        soonest,
        recommendation,
        scored,
        counted,
        weighted,
    )


def best_configurations(
    criteria: Sequence[Criterion],
    factors: Sequence[str],
    promises: Sequence[str],
    aside: Mapping[str, str],
    weights: Mapping[str, float],
) -> dict[str, str]:
    """Choice -> the store that it stands for: of each store the choice with the best score.

    A level at which a store may lose what it has acknowledged stands for it only where no other
    was measured: it is not the same promise, however fast.
    """
    engines = {
        label(row, promises): (str(row["engine"]), row.get("consistency"))
        for one in criteria
        for row in records(one.rows)
    }
    named = {name: title(engine) for name, (engine, _) in engines.items()}
    if not promises:
        return named
    judged = [replace(one, standings=standings(one, factors, promises, aside)) for one in criteria]
    _, scored, _ = weighed([one for one in judged if one.stores], weights)
    score = {one.choice: one.relative.mean for one in scored}
    best: dict[str, str] = {}

    def order(name: str) -> tuple[bool, float]:
        engine, consistency = engines[name]
        safe = consistency is None or not may_lose(engine, str(consistency))
        return (safe, score.get(name, 0.0))

    for name in sorted(engines):
        store = named[name]
        if name not in aside and (store not in best or order(name) > order(best[store])):
            best[store] = name
    return {name: store for store, name in best.items()}


def criteria_of(tables: Tables) -> list[Criterion]:
    """All that was measured, in the order of `storewise.study.criteria`; other phases after
    reading, scanning and aggregation, then searches."""
    if "engine" not in tables.results.factors:
        return []
    rates = figures_of.rates(tables)
    questions = kinds_of_questions(tables, [one.name for one in rates])
    if questions:
        # Its questions count as scanning and aggregation.
        rates = [replace(one, counts=False) if one.name == "query" else one for one in rates]
    every: list[Criterion | None] = [
        *rates,
        *questions,
        *figures_of.highest_rates(tables),
        latency(tables),
        scaling(tables),
        slow_node(tables),
        figures_of.disk(tables),
        figures_of.inodes(tables),
        figures_of.cost(tables),
        setup(tables),
        loss(tables),
    ]
    order = {key: place for place, key in enumerate(KEYS)}
    others = order["aggregate"] + 0.5
    return sorted(
        (one for one in every if one is not None and len(one.rows)),
        key=lambda one: order.get(one.name, others),
    )


def break_even(
    tables: Tables, promises: Sequence[str], aside: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Per choice and kind of question, how many it takes until its best configuration pays against
    reading the files again; inf is never."""
    choices: dict[str, dict[str, float]] = {}
    for row in records(tables.breakeven):
        name = label(row, promises)
        if name not in aside:
            kinds = choices.setdefault(name, {})
            kinds[row["operation"]] = min(kinds.get(row["operation"], math.inf), row["mean"])
    return choices


def _break_even_sentences(choices: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """From how many questions on each store pays, a sentence each, the soonest first."""
    files = title(BASELINE)
    for name, kinds in sorted(choices.items(), key=lambda item: (min(item[1].values()), item[0])):
        paying = {k: n for k, n in kinds.items() if math.isfinite(n)}
        never = [k for k, n in kinds.items() if not math.isfinite(n)]
        if not paying:
            yield f"Against {files}, {name} never pays for its load: no question is faster."
            continue
        soon, late = min(paying, key=paying.__getitem__), max(paying, key=paying.__getitem__)
        first = times_asked(paying[soon])
        one = f"{'the first question' if first == '1' else f'{first} questions'} on ({soon})"
        more = f" to {times_asked(paying[late])} ({late})" if late != soon else ""
        no = f"; never for {all_of(never, 'or')}" if never else ""
        paid = f"{name} pays for its load from {one}{more}"
        yield f"Against {files}, {paid}, by the kind of question{no}."


def weighed(
    criteria: Sequence[Criterion], weights: Mapping[str, float]
) -> tuple[list[Criterion], list[Score], list[Counted]]:
    """The criteria with the shares of their weights, the scores, and the criteria of choices as
    scores take them (those of weight 0 included).

    Without `weights` of the study those count that were measured for all choices and tell them
    apart at all, with the weights of `storewise.study.criteria`, which are mostly equal; cost does
    not where it is the same figure as loading, turned over.
    """
    choices = {s.label for c in criteria for s in c.stores}
    default = {
        c.name: BY_KEY[c.name].default if c.name in BY_KEY else 1.0
        for c in criteria
        if c.counts
        and {s.label for s in c.stores} == choices
        and not (c.name == "cost" and _turned_over(c, criteria))
        and len({max(s.estimate.mean, c.least) for s in c.stores}) > 1
    }
    raw = weights if any(c.name in weights for c in criteria) else default
    # Only their proportions count; the sum of very large ones would be no number.
    most = max(raw.values(), default=1.0)
    everything = [
        Counted(
            c.name,
            raw.get(c.name, 0.0) / most,
            c.more,
            {s.label: s.estimate for s in c.stores},
            c.least,
        )
        for c in criteria
    ]
    counted = usable(everything)
    total = sum(one.weight for one in counted)
    shares = {one.name: one.weight / total for one in counted}
    everything = [replace(one, weight=shares.get(one.name, 0.0)) for one in everything]
    used = [one for one in everything if one.weight > 0]
    return (
        [replace(c, weight=shares.get(c.name, 0.0)) for c in criteria],
        scores(used),
        everything,
    )


def _turned_over(cost: Criterion, criteria: Sequence[Criterion]) -> bool:
    """Whether cost times rate is the same for all choices: hosts and prices are, too."""
    load = next((c for c in criteria if c.name in ("load", "read")), None)
    if load is None:
        return False
    products = [
        s.estimate.mean * other.estimate.mean for s in cost.stores if (other := load.of(s.label))
    ]
    return len(products) == len(cost.stores) and max(products) <= min(products) * 1.001


def study_weights(study: Mapping[str, Any]) -> dict[str, float]:
    """The weights above 0 of a stored study; empty where it has none."""
    weights = study.get("weights")
    if not isinstance(weights, Mapping):
        return {}
    return {
        str(key): float(value)
        for key, value in weights.items()
        if key in KEYS and isinstance(value, int | float) and value > 0
    }


def _weights(
    criteria: Sequence[Criterion], weights: Mapping[str, float], *, weighted: bool
) -> list[str]:
    """What counts, and what of the study's weights could not."""
    used = [c for c in criteria if c.weight > 0]
    if len({s.label for c in criteria for s in c.stores}) < 2 or not used:
        return []
    rest = [c.title for c in criteria if c.weight == 0]
    text = "Scores are weighted geometric means of all figures as ratios to the best, here with "
    text += f"{weights_in_words(used, weighted=weighted)}"
    text += f"; {all_of(rest)} did not count." if rest else "."
    if left := [key for key in weights if key not in {c.name for c in used}]:
        text += (
            f" Of the study's weights {all_of(left)} could not count: not measured for the choices "
            "that are compared."
        )
    return [text]


def _most_clients(trials: pd.DataFrame) -> int:
    """The greatest number of clients that any trial had at once."""
    names = [name for name in ("workers", "processes", "threads") if name in trials]
    return int(trials[names].prod(axis=1).max()) if len(trials) else 1


def _where(trials: pd.DataFrame) -> str:
    if "host" not in trials or trials.empty:
        return "this machine"
    names = {name for hosts in trials["host"] for name in str(hosts).split(", ")}
    return "this machine" if len(names) < 2 else f"these {len(names)} hosts"


def _set_aside(tables: Tables, promises: Sequence[str]) -> dict[str, str]:
    aside: dict[str, str] = {}
    trials = tables.results.trials
    wrong = wrong_trials(tables.verification) - _lossy_crashes(tables)
    for row in records(trials[trials["trial"].isin(wrong)]):
        aside[label(row, promises)] = "its store did not hold all that was written to it"
    failed: dict[str, list[str]] = {}
    for one in tables.results.failed:
        if "engine" in one.factors:
            failed.setdefault(label(one.factors, promises), []).append(one.reason)
    for name, reasons in failed.items():
        aside[name] = f"{len(reasons)} of its trials failed ({reasons[0].rstrip('.')})"
    aside.pop(title(CEILING), None)
    return aside


def _lossy_crashes(tables: Tables) -> set[str]:
    """Trials that lost documents only, in crashes, without having promised to keep them: the
    criterion "loss on a crash" tells how many."""
    crashed = set(map(str, tables.crashes["trial"]))
    trials = tables.results.trials
    if not crashed or "consistency" not in trials:
        return set()
    relaxed = set(map(str, trials.loc[trials["consistency"] != "durable", "trial"]))
    checks = tables.verification
    wrong = checks["wrong"].fillna(0) > 0
    wrong |= checks["counted"].fillna(checks["expected"]) > checks["expected"]
    return (crashed & relaxed) - set(map(str, checks.loc[wrong, "trial"]))


def _sentence(criterion: Criterion) -> str:
    """What is to be said of one criterion."""
    unit = criterion.unit
    base = [s for s in criterion.standings if s.baseline]
    stores = criterion.stores
    leaders = [s for s in stores if s.leads]
    rest = [s for s in stores if s.rank > 1]
    without = "".join(f" Without any store ({s.label}): {figure(s, unit)}." for s in base)
    start = f"{criterion.heading[0].upper()}{criterion.heading[1:]}"
    if vague := [s.label for s in stores if s.vague]:
        without = f" Not measured well enough: {all_of(vague)}.{without}"
    if not leaders:
        return f"{start}:{without}"
    best = leaders[0]
    if len(stores) == 1:
        return f"{start}: only {best.shown} can be judged: {figure(best, unit)}.{without}"
    if len(leaders) > 1:
        listed = "; ".join(f"{s.shown} {figure(s, unit)}" for s in leaders)
        text = f"{start}: {len(leaders)} choices cannot be told apart ({_why(leaders)}): {listed}."
    else:
        text = f"{start}: best is {best.shown}, {figure(best, unit)}."
    if rest:
        text += f" Next: {rest[0].shown}, {figure(rest[0], unit)}"
        subject = best.label if len(leaders) > 1 else "the best"
        if best.estimate.mean > 0:
            text += f"; {subject} {comparison(criterion, best, rest[0])}"
        text += "."
    return text + without


def _why(leaders: Sequence[Standing]) -> str:
    if unknown := [s.estimate for s in leaders if not s.estimate.known()]:
        single = all(one.n == 1 for one in unknown)
        return "a single run has no interval" if single else "not all of them have an interval"
    for within in ("operations", "seconds"):
        if any(s.estimate.resampled == within for s in leaders):
            return f"the {within} of one run do not tell how runs differ"
    if all(s.estimate.mean == leaders[0].estimate.mean for s in leaders):
        return "their figures are equal"
    best = leaders[0].estimate
    if all(best.overlaps(s.estimate) for s in leaders):
        return "their intervals overlap"
    return "among so many pairs their differences may be chance"
