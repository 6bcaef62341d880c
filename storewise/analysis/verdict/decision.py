"""Which store to take, in words that the figures carry.

Per criterion (`storewise.study.criteria`) every choice stands with its best measured configuration,
and choices that do not differ share a rank (`storewise.analysis.verdict.ranking`). The criteria
that count make one score per choice (`storewise.analysis.verdict.scores`), and of these the
recommendation is made (`storewise.analysis.verdict.recommend`). Steps at a target rate rank no
store by their rate; a search's answer does (`storewise.analysis.judge.comparable_steps`). The null
engine is the client's ceiling and never a choice; choices with failed trials or with lost or wrong
documents are set aside and said to be. Reading the input files again (engine ``files``) is the
baseline: it stands first at each criterion, has no rank, and has nothing to load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from storewise.analysis.common.choices import label, varying_promises
from storewise.analysis.common.engines import CEILING, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.judge.headline_rates import loads
from storewise.analysis.measure.verification import wrong_trials
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict import breakeven_words as pays
from storewise.analysis.verdict import criteria as measured
from storewise.analysis.verdict.criteria import Figures
from storewise.analysis.verdict.criteria_equal_load import kinds_of_questions, latency, scaling
from storewise.analysis.verdict.criteria_servers import loss, setup, slow_node
from storewise.analysis.verdict.recommend import (
    Recommendation,
    recommend,
    weights_in_words,
)
from storewise.analysis.verdict.scores import Counted, Score, scores, usable
from storewise.analysis.verdict.standings import (
    Criterion,
    Standing,
    comparison,
    figure,
    standings,
)
from storewise.study.criteria import KEYS


@dataclass(frozen=True, slots=True)
class Verdict:
    """`finding` is one line; `text` are the sentences behind it, the second one of the
    recommendation first."""

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
    own_weights: bool
    """Whether the study gave the weights."""


def verdict(tables: Tables) -> Verdict:
    """The verdict on a study's tables."""
    factors = tables.results.factors
    promises = varying_promises(tables.results.trials, factors)
    aside = _set_aside(tables, promises)
    criteria = [
        made
        for one in figures(tables)
        if (made := _criterion(one, standings(one, factors, promises, aside))).stores
    ]
    given = study_weights(tables.results.study)
    criteria, scored, counted = weighed(criteria, given)
    own = any(c.name in given for c in criteria)
    found = recommend(criteria, scored, counted, own=own)
    what = "these inputs" if _of_files(tables) else "this workload"
    asked = pays.asked(tables, promises, aside)
    summary = tables.summary
    of_load = loads(tables)
    phases = [p for p in tables.phases_of(summary) if p not in of_load]
    text = [
        found.sentences[1],
        *_weights(criteria, given),
        *(c.sentence for c in criteria),
        *comparable.sentences(phases, tables.steps, tables.searches, tables.results.trials),
        *pays.sentences(asked),
        *(f"{label} is set aside: {reason}." for label, reason in sorted(aside.items())),
    ]
    return Verdict(
        f"For {what}, on {_where(tables.trials)}: {found.sentences[0]}",
        text,
        criteria,
        sorted(aside.items()),
        {name: min(kinds.values()) for name, kinds in asked.items()},
        found,
        scored,
        own,
    )


def figures(tables: Tables) -> list[Figures]:
    """All that was measured, in the order of `storewise.study.criteria`; other phases after
    reading, scanning and aggregation, then searches."""
    if "engine" not in tables.results.factors:
        return []
    rates = measured.rates(tables)
    known = [one.key for one in rates]
    asked = kinds_of_questions(tables, known)
    if asked:
        # Its questions count as scanning and aggregation.
        rates = [replace(one, counts=False) if one.key == "query" else one for one in rates]
    found: list[Figures | None] = [
        *rates,
        *asked,
        *measured.highest_rates(tables),
        latency(tables),
        scaling(tables),
        slow_node(tables),
        measured.disk(tables),
        measured.cost(tables),
        setup(tables),
        loss(tables),
    ]
    order = {key: place for place, key in enumerate(KEYS)}
    others = order["aggregate"] + 0.5
    return sorted(
        (one for one in found if one is not None and len(one.rows)),
        key=lambda one: order.get(one.key, others),
    )


def weighed(
    criteria: Sequence[Criterion], given: Mapping[str, float]
) -> tuple[list[Criterion], list[Score], list[Counted]]:
    """The criteria with the shares of their weights, the scores, and the criteria of choices as
    scores take them (those of weight 0 included).

    Without `given` weights those count equally that were measured for all choices and tell them
    apart at all; cost does not where it is the same figure as loading, turned over.
    """
    choices = {s.label for c in criteria for s in c.stores}
    default = {
        c.name: 1.0
        for c in criteria
        if c.counts
        and {s.label for s in c.stores} == choices
        and not (c.name == "cost" and _turned_over(c, criteria))
        and len({max(s.estimate.mean, c.least) for s in c.stores}) > 1
    }
    raw = given if any(c.name in given for c in criteria) else default
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
    found = [
        s.estimate.mean * other.estimate.mean for s in cost.stores if (other := load.of(s.label))
    ]
    return len(found) == len(cost.stores) and max(found) <= min(found) * 1.001


def study_weights(study: Mapping[str, Any]) -> dict[str, float]:
    """The weights above 0 of a stored study; empty where it has none."""
    found = study.get("weights")
    if not isinstance(found, Mapping):
        return {}
    return {
        str(key): float(value)
        for key, value in found.items()
        if key in KEYS and isinstance(value, int | float) and value > 0
    }


def _weights(criteria: Sequence[Criterion], given: Mapping[str, float]) -> list[str]:
    """What counts, and what of the study's weights could not."""
    used = [c for c in criteria if c.weight > 0]
    if len({s.label for c in criteria for s in c.stores}) < 2 or not used:
        return []
    own = any(c.name in given for c in criteria)
    rest = [c.title for c in criteria if c.weight == 0]
    text = "Scores are weighted geometric means of all figures as ratios to the best, here with "
    text += f"{weights_in_words(used, own=own)}"
    text += f"; {all_of(rest)} did not count." if rest else "."
    left = [key for key in given if key not in {c.name for c in used}]
    if left:
        text += (
            f" Of the study's weights {all_of(left)} could not count: not measured for the choices "
            "that are compared."
        )
    return [text]


def _of_files(tables: Tables) -> bool:
    return bool(tables.results.study.get("workload", "alignments") == "alignments")


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
    found = tables.verification
    wrong = found["wrong"].fillna(0) > 0
    wrong |= found["counted"].fillna(found["expected"]) > found["expected"]
    return (crashed & relaxed) - set(map(str, found.loc[wrong, "trial"]))


def _criterion(one: Figures, stand: Sequence[Standing]) -> Criterion:
    made = Criterion(
        one.key,
        one.title,
        one.about,
        one.unit,
        one.more,
        one.table,
        stand,
        "",
        one.counts,
        one.least,
    )
    return replace(made, sentence=_sentence(made, one.heading)) if made.stores else made


def _sentence(criterion: Criterion, heading: str) -> str:
    """What is to be said of one criterion."""
    unit = criterion.unit
    base = [s for s in criterion.standings if s.baseline]
    stores = criterion.stores
    leaders = [s for s in stores if s.leads]
    rest = [s for s in stores if not s.leads]
    without = "".join(f" Without any store ({s.label}): {figure(s, unit)}." for s in base)
    start = f"{heading[0].upper()}{heading[1:]}"
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
