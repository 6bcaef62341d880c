"""The verdict as a table and as JSON."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.frames import json_value, records
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict
from storewise.study.criteria import KEYS

COLUMNS = (
    *("choice", "criterion", "title", "about", "configuration"),
    *("mean", "low", "high", "unit", "n"),
    *("rank", "weight", "source_table", "source_row"),
)


def verdict_table(judged: Verdict) -> pd.DataFrame:
    """Table `verdict`: COLUMNS, one row per criterion and store, the best first.

    `low` and `high` are the interval of the ratio to the best store, times the best figure. `rank`
    is 1 for the best and what is not told apart from it, 2 for what is behind, and empty for the
    baseline and for single runs; `weight` is the criterion's share in the scores; `source_row` has
    the rows (from 0, ``3-5,9``) of ``analysis/<source_table>.csv`` behind it.
    """
    rows = [
        {
            "choice": s.label,
            "criterion": c.name,
            "title": c.title,
            "about": c.about,
            "weight": c.weight,
            **_figure(c, s),
        }
        for c in judged.criteria
        for s in c.standings
    ]
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"rank": "Int64"})
    return table.fillna({"source_table": "", "source_row": ""})


def verdict_data(judged: Verdict) -> dict[str, object]:
    """The verdict as JSON values."""
    found = judged.decision
    return {
        "answer": {
            "sentence": judged.answer.sentence,
            "beside": judged.answer.beside,
            "use": judged.answer.use,
            "change": judged.answer.change,
            "sure": judged.answer.sure,
            "reasons": list(judged.answer.reasons),
            "lines": judged.answer.lines,
            "uses": [
                {
                    "mostly": one.use.words,
                    "take": list(one.stores),
                    "weights": dict(one.shares),
                }
                for one in judged.answer.uses
            ],
        },
        "decision": {
            "sentence": found.sentence,
            "sure": found.sure,
            "reasons": list(found.reasons),
            "chance": json_value(found.chance),
            "stores": [
                json_value({"store": store, **row})
                for store, row in zip(found.table.index, records(found.table), strict=True)
            ],
        },
        "text": list(judged.text),
        "weights": {
            "given": judged.weighted,
            "shares": {c.name: c.weight for c in judged.criteria},
        },
        "not_measured": [key for key in KEYS if key not in {c.name for c in judged.criteria}],
        "criteria": [
            {
                "name": c.name,
                "title": c.title,
                "about": c.about,
                "unit": c.unit,
                "more_is_better": c.more,
                "weight": c.weight,
                "leaders": list(c.leaders),
                "standings": [
                    {"store": s.label, "baseline": s.baseline, **json_value(_figure(c, s))}
                    for s in c.standings
                ],
            }
            for c in judged.criteria
        ],
        "pays_from": json_value(judged.pays),
        "set_aside": [{"store": store, "reason": why} for store, why in judged.set_aside],
    }


def _figure(criterion: Criterion, s: Standing) -> dict[str, object]:
    return {
        "configuration": s.where,
        "mean": s.estimate.mean,
        "low": s.estimate.low,
        "high": s.estimate.high,
        "unit": criterion.unit,
        "n": s.estimate.n,
        "rank": s.rank or None,
        "source_table": criterion.table if s.source_row else None,
        "source_row": s.source_row or None,
    }
