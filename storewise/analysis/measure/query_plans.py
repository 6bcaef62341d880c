"""Query plans: whether the store or the client answered a query, by which call, with which index.

Clients record it: in the workload named `measures` once per client, step, query and
selectivity (the share of readings above a threshold).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.results import Results

#: Key of one query at one selectivity in one step of one trial.
KEYS = ("trial", "phase", "step", "query", "selectivity_pct")
_NUMBERS = ("threshold", "rows", "matched", "found", "executions", "seconds")
COLUMNS = [*KEYS, *_NUMBERS, "answered_by", "verb", "uses_index", "plan"]


def plans(results: Results) -> pd.DataFrame:
    """One row per trial, step, query and selectivity (missing for queries without one).

    Columns: KEYS; ``threshold`` (the query selects readings with a larger mv), ``rows`` (stored
    readings), ``matched`` (those above the threshold, by the generator; missing if only a sample is
    known), ``found`` (by the store), ``executions``, ``seconds`` (mean over executions of all
    clients), ``answered_by`` (store or client), ``verb``, ``uses_index`` (by the plan; missing if
    the plan does not show it) and ``plan``, as the store printed it.
    """
    gathered: dict[tuple[Any, ...], dict[str, Any]] = {}
    times: dict[tuple[Any, ...], list[float]] = {}
    for part in results.parts:
        for note in part.conditions.get("notes") or ():
            query = note.get("query", note.get("question"))
            if query is None:
                continue
            key = (part.trial, part.phase, note["step"], query, note.get("selectivity_pct"))
            row = gathered.setdefault(key, dict(zip(KEYS, key, strict=True)))
            told = {name: value for name, value in note.items() if name not in KEYS}
            row |= {name: value for name, value in told.items() if value is not None}
            row["verb"] = note.get("verb", note.get("by"))
            if "seconds" in note:
                times.setdefault(key, []).extend(note["seconds"])
    for key, seconds in times.items():
        mean = sum(seconds) / len(seconds) if seconds else None
        gathered[key] |= {"executions": len(seconds), "seconds": mean}
    table = pd.DataFrame(list(gathered.values()), columns=COLUMNS)
    table = table.astype(dict.fromkeys([*_NUMBERS, "selectivity_pct"], float))
    return table.sort_values(list(KEYS), ignore_index=True)


def plan_warnings(planned: pd.DataFrame, results: Results) -> Iterator[StudyWarning]:
    """Warnings about stores that found another number of readings than exist."""
    # The part of the verification has no engine.
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
                "see the trial's verification: it lists lost readings",
            )


def _stores(conditions: Mapping[str, Any]) -> bool:
    engine = conditions.get("engine")
    return not isinstance(engine, Mapping) or bool(engine.get("stores", True))
