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
from storewise.report.data.embed import columns_of, plain

#: Tables with more rows than this are not in the page; their CSV files are named all the same.
MOST_ROWS = 12_000
#: Long tables per trial that have a value for each repeat of a row, and what names it there.
_PER_TRIAL = {
    "summary": ("measures", KEYS),
}


class Evidence:
    """Trials and values behind the rows of tables; made once per page."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._frames = tables.frames()
        self._trials = records(tables.trials)
        self._place = {row["trial"]: place for place, row in enumerate(self._trials)}
        self._finders: dict[tuple[str, ...], Finder] = {}
        self._values: dict[str, dict[tuple[Any, ...], float]] = {}

    @property
    def frames(self) -> Mapping[str, pd.DataFrame]:
        """All tables by the names of their CSV files."""
        return self._frames

    def trial(self, name: str) -> Mapping[str, Any]:
        """The row of a trial; empty where there is none."""
        return self._trials[self._place[name]] if name in self._place else {}

    def trials_of(self, csv: str, row: Mapping[str, Any]) -> list[int]:
        """The places in `trials` of those behind a row; none where it cannot be told."""
        if "trial" in row:
            return [self._place[row["trial"]]] if row["trial"] in self._place else []
        if missing(row.get("engine")):
            return []
        names = tuple(f for f in self._tables.results.factors if f in row)
        trials = list(self._finder(names).find(row))
        return trials

    def names_of(self, csv: str, row: Mapping[str, Any]) -> list[str]:
        """The ids of the trials behind a row."""
        return [str(self._trials[place]["trial"]) for place in self.trials_of(csv, row)]

    def _finder(self, names: tuple[str, ...]) -> Finder:
        if names not in self._finders:
            self._finders[names] = Finder(self._tables.trials.reset_index(drop=True), names)
        return self._finders[names]

    def values_of(self, csv: str, row: Mapping[str, Any], trials: Iterable[int]) -> list[Any]:
        """The value of each of these trials; empty where the table has none."""
        if csv not in _PER_TRIAL:
            return []
        name, keys = _PER_TRIAL[csv]
        if name not in self._values:
            self._values[name] = {
                (one["trial"], *key_of(one, keys)): one["value"]
                for one in records(self._frames[name])
            }
        key = key_of(row, keys)
        return [self._values[name].get((self._trials[t]["trial"], *key)) for t in trials]

    def payload(self, wanted: Iterable[str]) -> dict[str, Any]:
        """All that the dialog about a source shows: trials with their files, and the rows of the
        wanted tables with their trials and values."""
        line = headlines(self._tables)
        tables: dict[str, Any] = {}
        for csv in dict.fromkeys(wanted):
            frame = self._frames.get(csv)
            if frame is None:
                continue
            entry: dict[str, Any] = {"rows": len(frame)}
            if len(frame) <= MOST_ROWS:
                entry = columns_of(frame)
                rows = records(frame)
                entry["trials"] = [self.trials_of(csv, row) for row in rows]
                if csv in _PER_TRIAL:
                    entry["each"] = [
                        self.values_of(csv, row, trials)
                        for row, trials in zip(rows, entry["trials"], strict=True)
                    ]
                    heads = [line.get((csv, place)) for place in range(len(rows))]
                    if any(heads):
                        entry["headline"] = heads
            tables[csv] = entry
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


def headlines(tables: Tables) -> dict[tuple[str, int], tuple[int, str]]:
    """(table, its row) -> (row of ``summary.csv``, id of that headline figure)."""
    summary = with_ids(tables.summary, tables.results.factors)
    return {("summary", place): (place, str(one)) for place, one in enumerate(summary["id"])}
