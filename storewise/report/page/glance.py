"""The first screen: the answer, one chart of stores by criteria, and what to take for which use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from storewise.analysis.common.remedies import Group, grouped_warnings
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.analysis.verdict.answer import BUSY, MOST, Answer, busy_share, short_share
from storewise.analysis.verdict.decision import Verdict
from storewise.figures.verdict_chart import VerdictChart, verdict_chart


@dataclass(frozen=True, slots=True)
class Glance:
    """All of the first screen but its form."""

    answer: Answer
    chart: VerdictChart
    groups: Sequence[Group]
    doubtful: bool
    """Whether most phases were short or hosts were busy: the warning then stands above all."""


def glance(tables: Tables, verdict: Verdict, more: Sequence[StudyWarning] = ()) -> Glance:
    """The first screen of a study; `more` are warnings beside those of its tables."""
    doubtful = short_share(tables) > MOST or busy_share(tables) > BUSY
    groups = grouped_warnings([*tables.warnings, *more])
    return Glance(verdict.answer, verdict_chart(tables, verdict), groups, doubtful)


def weights_payload(verdict: Verdict) -> dict[str, Any]:
    """What the page needs to judge the stores by other weights: see ``js/scores.js``."""
    named = verdict.decision.table.query("named") if len(verdict.decision.table) else None
    return {
        **verdict.sliders,
        "titles": {c.name: c.short for c in verdict.criteria},
        "named": [] if named is None else [str(store) for store in named.index],
        "uses": [dict(one.shares) for one in verdict.answer.uses],
    }
