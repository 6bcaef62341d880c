"""Where the rows of the page come from: rows of CSV files, and through these trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import records
from storewise.analysis.common.text import rows_as_text

#: Column of `wide` tables that keeps the rows that one was made of.
ROWS = "_rows"


@dataclass(frozen=True, slots=True)
class Mark:
    """The rows of ``analysis/<csv>.csv`` (from 0, without the heading) behind one row of the page;
    `record` has what that row can be chosen by (engine, phase, trial, factors)."""

    csv: str
    rows: tuple[int, ...]
    record: Mapping[str, Any] = field(default_factory=dict)


def marks(csv: str, table: pd.DataFrame) -> list[Mark]:
    """One mark per row of a part of a table, which keeps the table's index."""
    return [
        Mark(csv, (int(label),), row)
        for label, row in zip(table.index, records(table), strict=True)
    ]


def wide_marks(csv: str, table: pd.DataFrame) -> list[Mark]:
    """One mark per row of a table that keeps its rows in the column ROWS."""
    return [Mark(csv, tuple(row[ROWS]), row) for row in records(table)]


def mark_of(csv: str, group: pd.DataFrame, **record: Any) -> Mark:
    """The mark of a row that was made of a group of rows."""
    return Mark(csv, tuple(map(int, group.index)), record)


def with_trials(table: pd.DataFrame, trials: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """Rows with the columns of their trials; the index stays that of `table`."""
    kept = table.rename_axis(index=ROWS).reset_index()
    return kept.merge(trials, on="trial", **options).set_index(ROWS)


def source_id(mark: Mark) -> str:
    """``table:rows``, the rows from 0 with runs joined: ``summary:3-5,9``."""
    return f"{mark.csv}:{rows_as_text(mark.rows)}"


def source_label(source: str) -> str:
    """What a source is called: the table, and its rows as people count them (from 1)."""
    csv, rows = source.split(":", 1)
    ends = [[int(end) + 1 for end in run.split("-")] for run in rows.split(",")]
    parts = [f"{run[0]}" if len(run) == 1 else f"{run[0]}–{run[1]}" for run in ends]
    more = ", …" if len(parts) > 2 else ""
    return f"{csv} {', '.join(parts[:2])}{more}"
