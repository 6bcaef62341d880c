"""What is behind every number of the page: its row of a CSV file, the trials, their files and the
values of each repeat; and the headline figures, the rows of ``summary.csv``, by stable names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import key_of, missing, records
from storewise.analysis.model.columns import KEYS
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import Finder
from storewise.report.data.embed import plain

#: Tables with more rows than this are not in the page; their CSV files are named all the same.
MOST_ROWS = 12_000


class Evidence:
    """Trials and values behind the rows of tables; made once per page."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._frames = tables.frames()
        self._trials = records(tables.trials)
        self._place = {row["trial"]: place for place, row in enumerate(self._trials)}
        self._finders: dict[tuple[str, ...], Finder] = {}
        self._values: dict[tuple[Any, ...], float] = {}

    @property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """All tables by the names of their CSV files."""
        return self._frames

    def trial(self, name: str) -> Mapping[str, Any]:
        """The row of a trial; empty where there is none."""
        return self._trials[self._place[name]] if name in self._place else {}

    def trials_of(self, row: Mapping[str, Any]) -> list[int]:
        """The places in `trials` of those behind a row; none where it cannot be told."""
        if "trial" in row:
            return [self._place[row["trial"]]] if row["trial"] in self._place else []
        if missing(row.get("engine")):
            return []
        names = tuple(f for f in self._tables.results.factors if f in row)
        return list(self._finder(names).find(row))

    def _finder(self, names: tuple[str, ...]) -> Finder:
        if names not in self._finders:
            self._finders[names] = Finder(self._tables.trials.reset_index(drop=True), names)
        return self._finders[names]

    def values_of(self, row: Mapping[str, Any], trials: Iterable[int]) -> list[Any]:
        """The value of each of these trials."""
        if not self._values:
            self._values = {
                (one["trial"], *key_of(one, KEYS)): one["value"]
                for one in records(self._frames["measures"])
            }
        key = key_of(row, KEYS)
        return [self._values.get((self._trials[t]["trial"], *key)) for t in trials]

    def payload(self, wanted: Iterable[str]) -> dict[str, Any]:
        """All that the dialog about a source shows: trials with their files, and the rows of the
        wanted tables (but of those with more than MOST_ROWS) with their trials and values."""
        tables: dict[str, Any] = {}
        for csv in wanted:
            frame = self._frames.get(csv)
            if frame is None or len(frame) > MOST_ROWS:
                continue
            rows = records(frame)
            trials = [self.trials_of(row) for row in rows]
            tables[csv] = {
                "columns": list(frame.columns),
                "rows": [list(row.values()) for row in rows],
                "trials": trials,
            }
            if csv == "summary":  # over repeats: `measures` has the value of each
                pairs = zip(rows, trials, strict=True)
                tables[csv]["each"] = [self.values_of(row, of) for row, of in pairs]
        return {"trials": self._files(), "tables": tables}

    def _files(self) -> list[dict[str, Any]]:
        files: dict[str, list[str]] = {}
        for part in self._tables.results.parts:
            files.setdefault(part.trial, []).append(part.name)
        for log in self._tables.results.logs:
            files.setdefault(log.trial, []).append(log.name)
        return [
            {
                "id": row["trial"],
                "engine": title(str(row.get("engine", ""))),
                "repeat": row["repeat"],
                "files": sorted(files.get(str(row["trial"]), [])),
            }
            for row in self._trials
        ]


def with_ids(summary: pd.DataFrame, factors: tuple[str, ...]) -> pd.DataFrame:
    """The summary with a column `id`: the same as long as factors' levels, phase, step and measure
    are, wherever in the file the row stands."""
    names = [*factors, *KEYS]
    return summary.assign(id=[headline_id(row, names) for row in records(summary)])


def headline_id(row: Mapping[str, Any], names: list[str]) -> str:
    """``h`` and ten hexadecimal digits of a digest of these columns, missing ones left out."""
    levels = {n: plain(row[n]) for n in names if not missing(row.get(n))}
    text = json.dumps(levels, sort_keys=True)
    return "h" + hashlib.blake2b(text.encode("utf-8"), digest_size=5).hexdigest()
