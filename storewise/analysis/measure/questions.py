"""Who answered each question, from what its phase's clients noted, with the median time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.common.frames import records
from storewise.analysis.model.results import Results

COLUMNS = ["phase", "step", "question", "answered_by", "by", "indexes", "median", "operations", "n"]


def questions(results: Results, latency_summary: pd.DataFrame) -> pd.DataFrame:
    """One row per factors' levels, phase, step and question.

    Columns: factors, then COLUMNS: `answered_by` is store or client, `by` the verb, `indexes` the
    secondary indexes that may serve the question (empty: none), `median` the median service time
    in s over all repeats, `operations` how often it was asked, `n` the repeats. The baseline (the
    files themselves) comes first among a question's rows.
    """
    factors = list(results.factors)
    names = [*factors, *COLUMNS]
    noted: dict[tuple[str, str, int, str], Mapping[str, Any]] = {}
    for part in results.parts:
        for note in part.conditions.get("notes") or ():
            if isinstance(note, Mapping) and "question" in note:
                key = (part.trial, part.phase, int(note.get("step", 0)), str(note["question"]))
                noted[key] = note
    if not noted:
        return pd.DataFrame(columns=names)
    levels = results.trials.set_index("trial")
    medians = latency_summary[
        (latency_summary["time"] == "service") & (latency_summary["percentile"] == "p50")
    ]
    medians = medians.rename(columns={"operation": "question", "value": "median"})
    medians = medians[[*factors, "phase", "step", "question", "median", "count", "n"]]
    rows = [
        {
            **{name: levels.loc[trial, name] for name in factors},
            "phase": phase,
            "step": step,
            "question": question,
            "answered_by": str(note.get("answered_by", "")),
            "by": str(note.get("by", "")),
            "indexes": ", ".join(map(str, note.get("indexes") or ())),
        }
        for (trial, phase, step, question), note in noted.items()
        if trial in levels.index
    ]
    if not rows:
        return pd.DataFrame(columns=names)
    # Repeats say the same.
    table = pd.DataFrame(rows).drop_duplicates()
    keys = [*factors, "phase", "step", "question"]
    found = _merged(table, medians.rename(columns={"count": "operations"}), keys)
    order = {name: place for place, name in enumerate(dict.fromkeys(k[3] for k in noted))}
    found = found.assign(
        _order=found["question"].map(order), _later=found["engine"].ne(BASELINE).astype(int)
    )
    found = found.sort_values(["phase", "step", "_order", "_later", "engine"], kind="stable")
    return found.reindex(columns=names).reset_index(drop=True)


def _merged(left: pd.DataFrame, right: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """A left join in which missing levels equal each other, whatever type a level has."""

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(None if pd.isna(row[name]) else row[name] for name in keys)

    values = {key(row): row for row in records(right)}
    more = [name for name in right.columns if name not in keys]
    return pd.DataFrame(
        [
            {**row, **{name: values.get(key(row), {}).get(name) for name in more}}
            for row in records(left)
        ]
    )
