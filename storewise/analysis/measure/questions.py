"""Who answered each question, from what its phase's clients noted, with the median time."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from storewise.analysis.common.engines import BASELINE
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
    notes: dict[tuple[str, str, int, str], tuple[str, str, str]] = {}
    for part in results.parts:
        for note in part.conditions.get("notes") or ():
            if isinstance(note, Mapping) and "question" in note:
                key = (part.trial, part.phase, int(note.get("step", 0)), str(note["question"]))
                indexes = ", ".join(map(str, note.get("indexes") or ()))
                notes[key] = (str(note.get("answered_by", "")), str(note.get("by", "")), indexes)
    columns = ["trial", "phase", "step", "question", "answered_by", "by", "indexes"]
    table = pd.DataFrame([(*key, *note) for key, note in notes.items()], columns=columns)
    table = results.trials[["trial", *factors]].merge(table, on="trial")
    if table.empty:
        return pd.DataFrame(columns=[*factors, *COLUMNS])
    # Repeats say the same.
    table = table.drop(columns="trial").drop_duplicates()
    medians = latency_summary[
        (latency_summary["time"] == "service") & (latency_summary["percentile"] == "p50")
    ].rename(columns={"operation": "question", "value": "median", "count": "operations"})
    keys = [*factors, "phase", "step", "question"]
    table = table.merge(medians[[*keys, "median", "operations", "n"]], on=keys, how="left")
    order = {name: place for place, name in enumerate(dict.fromkeys(key[3] for key in notes))}
    table["_order"], table["_later"] = table["question"].map(order), table["engine"] != BASELINE
    table = table.sort_values(["phase", "step", "_order", "_later", "engine"], kind="stable")
    return table[[*factors, *COLUMNS]].reset_index(drop=True)
