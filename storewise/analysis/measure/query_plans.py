"""How stores answered questions: who did, by which plan, in what time; from what clients noted.

Of workload `measures` (``mv > ?``) there is one note per client, step, query and selectivity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE
from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.columns import ALL
from storewise.analysis.model.results import Results

#: Of one query at one selectivity, in one step of one trial.
KEYS = ("trial", "query", "step", "selectivity_pct")
PLAN_COLUMNS = (
    *(*KEYS, "threshold", "rows", "matched", "found", "executions"),
    *("seconds", "answered_by", "verb", "uses_index", "plan"),
)
SUMMARY_COLUMNS = (
    *("query", "selectivity_pct", "threshold", "rows", "matched", "found", "n"),
    *("mean", "low", "high", "answered_by", "uses_index", "plan"),
)
COLUMNS = ["phase", "step", "question", "answered_by", "by", "indexes", "median", "operations", "n"]


def plans(results: Results) -> pd.DataFrame:
    """One row per trial, query, step and selectivity.

    Columns: KEYS; ``threshold`` (mv above which readings are looked for), ``rows`` (readings that
    are stored), ``matched`` (how many of them are above, by the generator; missing where that is
    only known of a sample), ``found`` (by the store), ``executions``, ``seconds`` (mean over
    executions of all clients), ``answered_by`` (store or client), ``verb``, ``uses_index`` (True
    or False by the plan, missing where it does not tell) and ``plan``, in the store's words.
    """
    gathered: dict[tuple[Any, ...], dict[str, Any]] = {}
    times: dict[tuple[Any, ...], list[float]] = {}
    for part in results.parts:
        for note in part.conditions.get("notes") or ():
            if {"query", "selectivity_pct"} <= note.keys():
                key = (part.trial, note["query"], note["step"], note["selectivity_pct"])
                row = gathered.setdefault(key, {})
                row.update({k: v for k, v in note.items() if v is not None or k not in row})
                times.setdefault(key, []).extend(note["seconds"])
    rows = [
        {
            **gathered[key],
            **dict(zip(KEYS, key, strict=True)),
            "executions": len(times[key]),
            "seconds": sum(times[key]) / len(times[key]) if times[key] else None,
        }
        for key in sorted(gathered)
    ]
    table = pd.DataFrame(rows, columns=list(PLAN_COLUMNS))
    numbers = ("threshold", "rows", "matched", "found", "seconds", "selectivity_pct")
    return table.astype(dict.fromkeys(numbers, float))


def plan_summary(planned: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Over the repeats and steps of equal factors: one row per factors' levels, query and
    selectivity. Columns: factors, then SUMMARY_COLUMNS; ``mean``, ``low`` (least) and ``high``
    (greatest) of the trials' seconds, ``uses_index`` missing where trials differ."""
    factors = list(results.factors)
    keys = [*factors, "query", "selectivity_pct"]
    rows = []
    for key, group in grouped(planned.merge(results.trials[["trial", *factors]], on="trial"), keys):
        used = set(group["uses_index"].dropna())
        seconds = group["seconds"]
        rows.append(
            {
                **group.iloc[0],
                **dict(zip(keys, key, strict=True)),
                "n": int(seconds.notna().sum()),
                "mean": seconds.mean(),
                "low": seconds.min(),
                "high": seconds.max(),
                "uses_index": used.pop() if len(used) == 1 else None,
            }
        )
    return pd.DataFrame(rows, columns=[*factors, *SUMMARY_COLUMNS])


def plan_warnings(planned: pd.DataFrame, results: Results) -> Iterator[StudyWarning]:
    """Stores that found other numbers than there are."""
    # Not every part tells of the engine: that of the verification does not.
    keeps_none = {p.trial for p in results.parts if not _stores(p.conditions)}
    for (trial,), group in grouped(planned, ["trial"]):
        both = group.dropna(subset=["found", "matched"])
        wrong = records(both[both["found"] != both["matched"]])
        if wrong and trial not in keeps_none:
            row = wrong[0]
            yield StudyWarning(
                "wrong_number",
                str(trial),
                f"{row['query']} at {row['selectivity_pct']:g} % found {row['found']:.0f} "
                f"readings, there are {row['matched']:.0f} (in {len(wrong)} cases)",
                "see the trial's verification: what is lost cannot be found",
            )


def _stores(conditions: Mapping[str, Any]) -> bool:
    engine = conditions.get("engine")
    return not isinstance(engine, Mapping) or bool(engine.get("stores", True))


def questions(results: Results, summary: pd.DataFrame) -> pd.DataFrame:
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
    medians = summary[(summary["measure"] == "service_p50") & (summary["operation"] != ALL)].rename(
        columns={"operation": "question", "mean": "median", "count": "operations"}
    )
    keys = [*factors, "phase", "step", "question"]
    table = table.merge(medians[[*keys, "median", "operations", "n"]], on=keys, how="left")
    order = {name: place for place, name in enumerate(dict.fromkeys(key[3] for key in notes))}
    table["_order"], table["_later"] = table["question"].map(order), table["engine"] != BASELINE
    table = table.sort_values(["phase", "step", "_order", "_later", "engine"], kind="stable")
    return table[[*factors, *COLUMNS]].reset_index(drop=True)
