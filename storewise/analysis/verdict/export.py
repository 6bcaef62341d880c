"""The verdict as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from storewise.analysis.common.frames import json_value
from storewise.analysis.model.tables import Judged, Tables
from storewise.analysis.verdict.criteria import Criterion, Standing
from storewise.analysis.verdict.decision import Verdict, verdict
from storewise.study.criteria import KEYS

COLUMNS = (
    *("choice", "criterion", "title", "about", "configuration"),
    *("mean", "low", "high", "unit", "n", "resampled"),
    *("rank", "weight", "note", "source_table", "source_row"),
)


def verdict_table(tables: Tables) -> Judged:
    """Table `verdict`: COLUMNS, one row per criterion and choice, by rank and figure.

    `rank` is empty for the baseline; `weight` is the criterion's share in the scores;
    `source_row` has the rows (from 0, ``3-5,9``) of ``analysis/<source_table>.csv`` behind it.
    """
    return Judged(table_of(verdict(tables)))


def table_of(judged: Verdict) -> pd.DataFrame:
    """The verdict as a long table."""
    rows = [
        {
            "choice": s.label,
            "criterion": c.name,
            "title": c.title,
            "about": c.about,
            "configuration": s.configuration,
            "mean": s.estimate.mean,
            "low": s.estimate.low,
            "high": s.estimate.high,
            "unit": c.unit,
            "n": s.estimate.n,
            "resampled": s.estimate.resampled,
            "rank": s.rank or None,
            "weight": c.weight,
            "note": s.note,
            "source_table": c.table if s.source_row else "",
            "source_row": s.source_row,
        }
        for c in judged.criteria
        for s in c.standings
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"rank": "Int64"})


def verdict_data(judged: Verdict) -> dict[str, object]:
    """The verdict as JSON values."""
    recommendation, turn = judged.recommendation, judged.recommendation.turn
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
        "finding": judged.finding,
        "recommendation": {
            "choice": recommendation.choice or None,
            "among": list(recommendation.among),
            "sentences": list(recommendation.sentences),
        },
        "text": list(judged.text),
        "weights": {
            "given": judged.weighted,
            "shares": {c.name: c.weight for c in judged.criteria},
        },
        "scores": [
            {
                "choice": s.choice,
                "rank": s.rank or None,
                "relative": s.relative.mean,
                "low": json_value(s.relative.low),
                "high": json_value(s.relative.high),
                "resampled": s.relative.resampled,
                "lacks": list(s.lacks),
            }
            for s in judged.scores
        ],
        "sensitivity": {
            "turn": None
            if turn is None
            else json_value({**asdict(turn), "then": turn.then or None}),
            "repeats": recommendation.repeats,
            "not_measured": [key for key in KEYS if key not in {c.name for c in judged.criteria}],
        },
        "criteria": [
            {
                "name": c.name,
                "title": c.title,
                "about": c.about,
                "unit": c.unit,
                "more_is_better": c.more,
                "weight": c.weight,
                "leaders": list(c.leaders),
                "standings": [_standing_data(c, s) for s in c.standings],
            }
            for c in judged.criteria
        ],
        "pays_from": {k: json_value(v) for k, v in judged.pays.items()},
        "set_aside": [{"choice": label, "reason": reason} for label, reason in judged.set_aside],
    }


def _standing_data(criterion: Criterion, s: Standing) -> dict[str, object]:
    return {
        "choice": s.label,
        "topology": s.topology,
        "configuration": s.where,
        "n": s.estimate.n,
        "mean": s.estimate.mean,
        "low": json_value(s.estimate.low),
        "high": json_value(s.estimate.high),
        "unit": criterion.unit,
        "resampled": s.estimate.resampled,
        "rank": s.rank or None,
        "baseline": s.baseline,
        "note": s.note,
        "source_table": criterion.table if s.source_row else None,
        "source_row": s.source_row or None,
    }
