"""The verdict in words, from the tables of a study.

The steps:

1. `criteria.criteria_of`: the criteria that were measured, with the figures of each trial;
2. `measures.measures_of`: these as one table, a row per store, setting, criterion and round;
3. `measures.rules`: the weight of each criterion, and how it is judged;
4. `storewise.analysis.decision.decide`: one score per store and round, and one rule;
5. `standings.standings`: the same rule at each criterion alone, and at each question;
6. `answer.answer` and `uses.choices`: the answer in a few words, and for other priorities.

Steps at a target rate rank no store by their rate; a search's answer does
(`storewise.analysis.judge.comparable_steps`). The null engine is the client's ceiling and never a
choice; stores of which trials failed by their own fault, and deployments with lost or wrong
documents, are set aside and said to be. Reading the input files again (engine ``files``) is the
baseline: it stands first at each criterion, has no rank, and has nothing to load.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.decision import Criterion as Rule
from storewise.analysis.decision import Decision, decide
from storewise.analysis.decision.standing import at_common_volume
from storewise.analysis.judge.comparable_steps import sentences
from storewise.analysis.model.columns import PAYS_FROM
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.answer import Answer, answer
from storewise.analysis.verdict.asked import SIZE, asked, counted_by, least_load
from storewise.analysis.verdict.criteria import criteria_of, rows_of
from storewise.analysis.verdict.criterion import Criterion
from storewise.analysis.verdict.measures import (
    conditions_of,
    measures_of,
    placed,
    rules,
    set_aside,
    study_weights,
    whole_rounds,
)
from storewise.analysis.verdict.sliders import sliders
from storewise.analysis.verdict.standings import standings
from storewise.analysis.verdict.uses import choices


@dataclass(frozen=True, slots=True)
class Verdict:
    """`answer`: what every reader sees first; `decision`: the scores that it rests on; `text`: what
    stands under "Why"."""

    answer: Answer
    decision: Decision
    text: Sequence[str]
    criteria: Sequence[Criterion]
    set_aside: Sequence[tuple[str, str]]
    """Stores that are not judged, with the reason."""
    asked: Sequence[Criterion]
    """What one answer to each question, the load and the size come to (`verdict.asked`)."""
    pays: Mapping[str, Mapping[str, float]]
    """Store -> kind of question -> from how many on it pays against reading the files again; inf is
    never. Empty without engine ``files``."""
    sliders: Mapping[str, Any]

    @property
    def finding(self) -> str:
        """The answer in a sentence that says what it holds for."""
        return f"For what was measured here: {self.decision.sentence}"


def verdict(tables: Tables) -> Verdict:
    """The verdict on a study's tables."""
    measured = criteria_of(tables)
    measures = measures_of(tables, measured)
    weights = study_weights(tables.results.study)
    every = rules(tables, measured, measures, weights)
    conditions = conditions_of(tables)
    judged = decide(measures, every, conditions)
    raw = {str(name): every[str(name)].weight for name in judged.rounds.columns}
    shares = {name: weight / sum(raw.values()) for name, weight in raw.items()}
    criteria = []
    for one in measured:
        stood = standings(one, measures, judged, every[one.name])
        if any(not s.baseline for s in stood):
            criteria.append(replace(one, standings=stood, weight=shares.get(one.name, 0.0)))
    columns = asked(tables)
    values = measures_of(tables, columns)
    shown = []
    for one in columns:
        rule = Rule(more=one.more, counted=one.name == SIZE)
        stood = standings(one, values, judged, rule)
        shown.append(replace(one, standings=stood, weight=counted_by(one, criteria)))
    aside = {
        f"{store} ({deployment})" if deployment and store in set(measures["store"]) else store: why
        for (store, deployment), why in set_aside(tables).items()
    }
    pays = break_even(tables, judged)
    uses = choices(tables, criteria, measures, every, conditions)
    return Verdict(
        answer(tables, criteria, shown, judged, pays, uses),
        judged,
        [
            *_unfinished(tables),
            *([f"Not surer: {'; '.join(judged.why)}."] if judged.why else []),
            *judged.reasons,
            *_not_weighed(criteria, weights),
            *sentences(tables),
            *(f"{name} is set aside: {reason}." for name, reason in sorted(aside.items())),
        ],
        criteria,
        sorted({**aside, **judged.aside}.items()),
        shown,
        pays,
        sliders(criteria, measures, judged, every),
    )


def break_even(tables: Tables, judged: Decision) -> dict[str, dict[str, float]]:
    """Per store and kind of question, how many it takes until it pays against reading the files
    again, with the deployment that it is judged with; inf is never."""
    rows = rows_of(tables, PAYS_FROM)
    if rows.empty:
        return {}
    rows, _ = at_common_volume(judged.deployed(placed(least_load(rows), tables)))
    aside, kinds = set_aside(tables), dict[str, dict[str, float]]()
    for row in records(rows):
        if (row["store"], row["deployment"]) not in aside:
            of_store = kinds.setdefault(row["store"], {})
            of_store[row["operation"]] = min(of_store.get(row["operation"], math.inf), row["mean"])
    return kinds


def _unfinished(tables: Tables) -> list[str]:
    whole, rounds = whole_rounds(tables)
    if len(whole) == rounds:
        return []
    counted = f"Stores are judged by the {len(whole)} of {rounds} rounds that are whole"
    return [f"{counted}; the next run measures what is missing."]


def _not_weighed(criteria: Sequence[Criterion], weights: Mapping[str, float]) -> list[str]:
    """Warnings about weights of the study that could not count."""
    left = [key for key in weights if key not in {c.name for c in criteria if c.weight > 0}]
    if not left:
        return []
    names = all_of(left)
    return [f"Of the study's weights {names} could not count: not measured for all stores."]
