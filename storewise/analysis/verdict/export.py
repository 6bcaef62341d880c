"""The verdict as a table and as JSON."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.frames import json_value, records
from storewise.analysis.verdict.criterion import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict

COLUMNS = (
    *("choice", "criterion", "title", "about", "configuration"),
    *("mean", "low", "high", "unit", "n"),
    *("rank", "weight", "source_table", "source_row"),
)


def verdict_table(judged: Verdict) -> pd.DataFrame:
    """Table `verdict`: COLUMNS, one row per criterion and store, the best first.

    `low` and `high` are the interval of the ratio to the best store, times the best figure. `rank`
    is 1 for the best and stores not significantly worse, 2 for worse ones, and empty for the
    baseline and for single runs. `weight` is the criterion's share in the scores; `source_row` has
    the rows (from 0, ``3-5,9``) of ``analysis/<source_table>.csv`` behind the figure.
    """
    rows = [_row(c, s) for c in judged.criteria for s in c.standings]
    table = pd.DataFrame(rows, columns=COLUMNS).astype({"rank": "Int64"})
    return table.fillna({"source_table": "", "source_row": ""})


def _row(criterion: Criterion, s: Standing) -> dict[str, object]:
    cells = (
        *(s.label, criterion.name, criterion.title, criterion.about, s.where),
        *(s.estimate.mean, s.estimate.low, s.estimate.high, criterion.unit, s.estimate.n),
        *(s.rank or None, criterion.weight),
        *((criterion.table, s.source_row) if s.source_row else (None, None)),
    )
    return dict(zip(COLUMNS, cells, strict=True))


def verdict_data(judged: Verdict) -> dict[str, object]:
    """The verdict as JSON values."""
    answer, decision = judged.answer, judged.decision
    return {
        "answer": {
            "sentence": answer.sentence,
            "beside": answer.beside,
            "use": answer.use,
            "change": answer.change,
            "sure": answer.sure,
            "reasons": list(answer.reasons),
            "lines": answer.lines,
            "uses": [
                {
                    "mostly": choice.use.words,
                    "take": list(choice.stores),
                    "weights": dict(choice.shares),
                }
                for choice in answer.uses
            ],
        },
        "decision": {
            "sentence": decision.sentence,
            "sure": decision.sure,
            "reasons": list(decision.reasons),
            "chance": json_value(decision.chance),
            "stores": [
                json_value({"store": store, **row})
                for store, row in zip(decision.table.index, records(decision.table), strict=True)
            ],
        },
        "text": list(judged.text),
        "criteria": [
            {
                "name": c.name,
                "title": c.title,
                "about": c.about,
                "weight": c.weight,
                "leaders": list(c.leaders),
                "standings": json_value([_row(c, s) for s in c.standings]),
            }
            for c in judged.criteria
        ],
        "pays_from": json_value(judged.pays),
        "set_aside": [{"store": store, "reason": reason} for store, reason in judged.set_aside],
    }
