"""The evidence for each number of the page: its row of a CSV file, the trials, their files and the
value of each repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import key_of, records
from storewise.analysis.model.columns import KEYS
from storewise.analysis.model.tables import Tables

#: Tables with more rows than this are not in the page; their CSV files are named all the same.
MOST_ROWS = 12_000


def evidence(
    tables: Tables, frames: Mapping[str, pd.DataFrame], wanted: Iterable[str]
) -> dict[str, Any]:
    """All that the dialog about a source shows.

    "trials" with their files, and of the wanted tables of `frames` (but of those with more than
    MOST_ROWS) "columns", "rows", for each row the places of its "trials", and for those of
    `summary` the value of "each".
    """
    trials = tables.trials.reset_index(drop=True)
    names = list(map(str, trials["trial"]))
    values = {(m["trial"], *key_of(m, KEYS)): m["value"] for m in records(frames["measures"])}
    shown: dict[str, Any] = {}
    for csv in wanted:
        frame = frames.get(csv)
        if frame is None or len(frame) > MOST_ROWS:
            continue
        rows = records(frame)
        behind = _trials_of(frame, trials, tables.results.factors)
        shown[csv] = {
            "columns": list(frame.columns),
            "rows": [list(row.values()) for row in rows],
            "trials": behind,
        }
        if csv == "summary":
            shown[csv]["each"] = [
                [values.get((names[place], *key_of(row, KEYS))) for place in places]
                for row, places in zip(rows, behind, strict=True)
            ]
    return {"trials": _files(tables), "tables": shown}


def _trials_of(
    frame: pd.DataFrame, trials: pd.DataFrame, factors: Iterable[str]
) -> list[list[int]]:
    """The places of the trials of each row; none where it cannot be told."""
    if "trial" not in frame and "engine" not in frame:
        return [[]] * len(frame)
    keys = ["trial"] if "trial" in frame else [name for name in factors if name in frame]
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, trial in enumerate(records(trials[keys])):
        places.setdefault(key_of(trial, keys), []).append(place)
    return [places.get(key_of(row, keys), []) for row in records(frame)]


def _files(tables: Tables) -> list[dict[str, Any]]:
    """The trials with the names of their result files."""
    files: dict[str, list[str]] = {}
    for part in tables.results.parts:
        files.setdefault(part.trial, []).append(part.name)
    for log in tables.results.logs:
        files.setdefault(log.trial, []).append(log.name)
    return [
        {
            "id": row["trial"],
            "engine": title(str(row.get("engine", ""))),
            "repeat": row["repeat"],
            "files": sorted(files.get(str(row["trial"]), [])),
        }
        for row in records(tables.trials)
    ]
