"""Which store to take, in words that the figures carry.

The rule is `storewise.analysis.decision`: one score per store and round, of the figures of each
trial (`storewise.analysis.verdict.measures`). Steps at a target rate rank no store by their rate; a
search's answer does (`storewise.analysis.judge.comparable_steps`). The null engine is the client's
ceiling and never a choice; stores of which trials failed by their own fault, and deployments with
lost or wrong documents, are set aside and said to be. Reading the input files again (engine
``files``) is the baseline: it stands first at each criterion, has no rank, and has nothing to load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.decision import Conditions, Decision, decide
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.judge import comparable_steps as comparable
from storewise.analysis.measure.derived import times_asked
from storewise.analysis.model.columns import PAYS_FROM
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict import criteria as figures_of
from storewise.analysis.verdict.answer import Answer, answer, other_work
from storewise.analysis.verdict.asked import SIZE, asked, at_common_volume, counted_by, least_load
from storewise.analysis.verdict.criteria import (
    kinds_of_questions,
    latency,
    of_measure,
    scaling,
    setup,
    slow_node,
)
from storewise.analysis.verdict.criterion import Criterion
from storewise.analysis.verdict.measures import (
    crashes_of,
    failed_of,
    measures_of,
    no_stores,
    rules,
    set_aside,
    study_weights,
    whole_rounds,
    without_server,
)
from storewise.analysis.verdict.sliders import sliders
from storewise.analysis.verdict.standings import figure, standings
from storewise.analysis.verdict.turn import turn
from storewise.analysis.verdict.uses import choices
from storewise.analysis.verdict.values import CLIENTS, placed
from storewise.study.criteria import KEYS


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer` is for everybody, `decision` what it rests on; `finding` is the line with the
    evidence, `text` are the sentences behind it."""

    answer: Answer
    decision: Decision
    finding: str
    text: Sequence[str]
    criteria: Sequence[Criterion]
    set_aside: Sequence[tuple[str, str]]
    """Stores that are not judged, with the reason."""
    asked: Sequence[Criterion]
    """What one answer to each question, the load and the size come to (`verdict.asked`)."""
    pays: Mapping[str, Mapping[str, float]]
    """Store -> kind of question -> from how many on it pays against reading the files again; inf is
    never. Empty without engine ``files``."""
    weighted: bool
    """Whether the study gave the weights."""
    sliders: Mapping[str, Any]


def verdict(tables: Tables) -> Verdict:
    """The verdict on a study's tables."""
    measured = criteria_of(tables)
    aside = set_aside(tables)
    measures = measures_of(tables, measured, aside)
    weights = study_weights(tables.results.study)
    every = rules(tables, measured, measures, weights)
    stores = set(measures["store"])
    of_aside = {
        f"{store} ({deployment})" if deployment and store in stores else store: why
        for (store, deployment), why in aside.items()
    }
    conditions = Conditions(
        other_work=other_work(tables),
        crashes=crashes_of(tables),
        failed=failed_of(tables),
        no_stores=no_stores(),
    )
    judged = decide(measures, every, conditions)
    raw = {str(name): every[str(name)].weight for name in judged.rounds.columns}
    shares = {name: weight / sum(raw.values()) for name, weight in raw.items()}
    criteria = []
    for one in measured:
        stood = standings(one, measures, tables, judged, every[one.name])
        if any(not s.baseline for s in stood):
            one = replace(one, standings=stood, weight=shares.get(one.name, 0.0))
            criteria.append(replace(one, sentence=_sentence(one)))
    columns = asked(tables)
    values = measures_of(tables, columns, aside)
    shown = []
    for one in columns:
        rule = Rule(1.0, one.more, counted=one.name == SIZE)
        stood = standings(one, values, tables, judged, rule)
        shown.append(replace(one, standings=stood, weight=counted_by(one, criteria)))
    pays = break_even(tables, judged, aside)
    left_out = {**of_aside, **judged.aside}
    uses = choices(
        criteria,
        measures,
        every,
        conditions,
        one_writer=_with_one_client(tables),
        apart=without_server(tables),
    )
    weighted = any(c.name in weights for c in criteria)
    loading = comparable.loads(tables.throughput)
    phases = [p for p in tables.phases_of(tables.rates) if p not in loading]
    whole, rounds = whole_rounds(tables)
    unfinished = (
        f"Stores are judged by the {len(whole)} of {rounds} rounds that are whole; "
        "the next run measures what is missing."
    )
    text = [
        *([unfinished] if len(whole) < rounds else []),
        *judged.reasons,
        *_weights(criteria, weights),
        *(c.sentence for c in criteria),
        *comparable.sentences(phases, tables.steps, tables.searches, tables.results.trials),
        *_break_even_sentences(pays),
        *(f"{name} is set aside: {reason}." for name, reason in sorted(left_out.items())),
    ]
    of_files = tables.results.study.get("workload", "alignments") == "alignments"
    what = "these inputs" if of_files else "this workload"
    return Verdict(
        answer(tables, criteria, shown, judged, every, turn(judged, shares), pays, uses),
        judged,
        f"For {what}, on {_where(tables.trials)}: {judged.sentence}",
        text,
        criteria,
        sorted(left_out.items()),
        shown,
        pays,
        weighted,
        sliders(criteria, measures, judged, every),
    )


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
    ]
    order = {key: place for place, key in enumerate(KEYS)}
    others = order["aggregate"] + 0.5
    return sorted(
        (one for one in every if one is not None and len(one.rows)),
        key=lambda one: order.get(one.name, others),
    )


def break_even(
    tables: Tables, judged: Decision, aside: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, float]]:
    """Per store and kind of question, how many it takes until it pays against reading the files
    again, with the deployment that it is judged with; inf is never."""
    kinds: dict[str, dict[str, float]] = {}
    rows = of_measure(tables, PAYS_FROM)
    if rows.empty:
        return kinds
    rows = at_common_volume(least_load(rows))
    for row in records(judged.deployed(placed(rows, tables))):
        store = str(row["store"])
        if (store, str(row["deployment"])) in aside:
            continue
        of_store = kinds.setdefault(store, {})
        of_store[row["operation"]] = min(of_store.get(row["operation"], math.inf), row["mean"])
    return kinds


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


def _weights(criteria: Sequence[Criterion], weights: Mapping[str, float]) -> list[str]:
    """What counts, and what of the study's weights could not."""
    used = sorted((c for c in criteria if c.weight > 0), key=lambda c: -c.weight)
    if not used:
        return []
    rest = [c.title for c in criteria if c.weight == 0]
    text = "Scores are weighted geometric means of all figures as ratios to the best, of "
    text += all_of([f"{c.title} {c.weight:.0%}" for c in used])
    text += f"; {all_of(rest)} did not count." if rest else "."
    if left := [key for key in weights if key not in {c.name for c in used}]:
        text += (
            f" Of the study's weights {all_of(left)} could not count: not measured for all stores."
        )
    return [text]


def _with_one_client(tables: Tables) -> set[str]:
    """The numbers of clients, in words, with which one alone loads."""
    names = [name for name in CLIENTS if name in tables.trials]
    alone = tables.trials[tables.trials[names].astype(float).fillna(1).prod(axis=1) < 2]
    return set(map(str, placed(alone, tables)["clients"])) if len(alone) else set()


def _where(trials: pd.DataFrame) -> str:
    if "host" not in trials or trials.empty:
        return "this machine"
    names = {name for hosts in trials["host"] for name in str(hosts).split(", ")}
    return "this machine" if len(names) < 2 else f"these {len(names)} hosts"


def _sentence(criterion: Criterion) -> str:
    """What is to be said of one criterion."""
    unit, stores = criterion.unit, criterion.stores
    start = f"{criterion.heading[0].upper()}{criterion.heading[1:]}"
    told = "; ".join(f"{s.label} {figure(s, unit)}" for s in stores)
    without = "".join(
        f" Without any store ({s.label}): {figure(s, unit)}."
        for s in criterion.standings
        if s.baseline
    )
    if len(criterion.leaders) > 1:
        told = f"{all_of(criterion.leaders)} are not told apart: {told}"
    elif criterion.leaders and len(stores) > 1:
        told = f"best is {told}"
    return f"{start}: {told}.{without}"
