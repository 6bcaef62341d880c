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
    """The verdict: `answer` for every reader, `decision` with the scores behind it, and `text`, the
    sentences below "Why"."""

    answer: Answer
    decision: Decision
    text: Sequence[str]
    criteria: Sequence[Criterion]
    set_aside: Sequence[tuple[str, str]]
    """Stores that are not judged, with the reason."""
    asked: Sequence[Criterion]
    """The columns of the first screen (`verdict.asked`): times of questions and load, size."""
    pays: Mapping[str, Mapping[str, float]]
    """Store -> kind of question -> number of questions from which its load pays (`break_even`).
    Empty without engine ``files``."""
    sliders: Mapping[str, Any]

    @property
    def finding(self) -> str:
        """The answer as one sentence that is limited to this measurement."""
        return f"For what was measured here: {self.decision.sentence}"


def verdict(tables: Tables) -> Verdict:
    """The verdict on a study's tables."""
    measured = criteria_of(tables)
    measures = measures_of(tables, measured)
    weights = study_weights(tables.results.study)
    rule_of = rules(tables, measured, measures, weights)
    conditions = conditions_of(tables)
    judged = decide(measures, rule_of, conditions)
    raw_weights = {str(name): rule_of[str(name)].weight for name in judged.rounds.columns}
    shares = {name: weight / sum(raw_weights.values()) for name, weight in raw_weights.items()}
    criteria = []
    for c in measured:
        of_stores = standings(c, measures, judged, rule_of[c.name])
        if any(not s.baseline for s in of_stores):
            criteria.append(replace(c, standings=of_stores, weight=shares.get(c.name, 0.0)))
    columns = asked(tables)
    values = measures_of(tables, columns)
    shown = []
    for column in columns:
        rule = Rule(more=column.more, counted=column.name == SIZE)
        of_stores = standings(column, values, judged, rule)
        weight = counted_by(column, criteria)
        shown.append(replace(column, standings=of_stores, weight=weight))
    excluded = {
        f"{store} ({deployment})" if deployment and store in set(measures["store"]) else store: why
        for (store, deployment), why in set_aside(tables).items()
    }
    pays = break_even(tables, judged)
    uses = choices(tables, criteria, measures, rule_of, conditions)
    return Verdict(
        answer(tables, criteria, shown, judged, pays, uses),
        judged,
        [
            *_unfinished(tables),
            *([f"Not surer: {'; '.join(judged.why)}."] if judged.why else []),
            *judged.reasons,
            *_not_weighed(criteria, weights),
            *sentences(tables),
            *(f"{name} is set aside: {reason}." for name, reason in sorted(excluded.items())),
        ],
        criteria,
        sorted({**excluded, **judged.aside}.items()),
        shown,
        pays,
        sliders(criteria, measures, judged, rule_of),
    )


def break_even(tables: Tables, judged: Decision) -> dict[str, dict[str, float]]:
    """Store -> kind of question -> number of questions from which its load pays against reading the
    files again, for the judged deployment; inf: never."""
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
    complete, rounds = whole_rounds(tables)
    if len(complete) == rounds:
        return []
    counted = f"Stores are judged by the {len(complete)} of {rounds} rounds that are whole"
    return [f"{counted}; the next run measures what is missing."]


def _not_weighed(criteria: Sequence[Criterion], weights: Mapping[str, float]) -> list[str]:
    """A warning about weights of the study for criteria that could not count."""
    left = [key for key in weights if key not in {c.name for c in criteria if c.weight > 0}]
    if not left:
        return []
    names = all_of(left)
    return [f"Of the study's weights {names} could not count: not measured for all stores."]
