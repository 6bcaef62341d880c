"""Stable names of the headline figures: the rows of ``summary.csv``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.frames import missing, records
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.output import summary_table
from storewise.figures.selection import Finder
from storewise.report.data.embed import plain

_KEYS = ("phase", "step", "measure")


def with_ids(summary: pd.DataFrame, factors: tuple[str, ...]) -> pd.DataFrame:
    """The summary with a column `id`: the same as long as factors' levels, phase, step and measure
    are, wherever in the file the row stands."""
    names = [*factors, *_KEYS]
    return summary.assign(id=[headline_id(row, names) for row in records(summary)])


def headline_id(row: Mapping[str, Any], names: list[str]) -> str:
    """``h`` and ten hexadecimal digits of a digest of these columns, missing ones left out."""
    levels = {n: plain(row[n]) for n in names if not missing(row.get(n))}
    text = json.dumps(levels, sort_keys=True)
    return "h" + hashlib.blake2b(text.encode("utf-8"), digest_size=5).hexdigest()


def headlines(tables: Tables) -> dict[tuple[str, int], tuple[int, str]]:
    """(table, its row) -> (row of ``summary.csv``, id of that headline figure)."""
    factors = tables.results.factors
    summary = with_ids(summary_table(tables), factors)
    ids = summary["id"].to_list()
    finder = Finder(summary, [*factors, *_KEYS])
    lines: dict[tuple[str, int], tuple[int, str]] = {}
    for csv, frame in (
        ("summary", tables.summary),
        ("storage_summary", tables.storage_summary),
        ("latency_summary", tables.latency_summary),
    ):
        for place, row in enumerate(records(frame)):
            if csv == "latency_summary":
                if row["time"] != "service":
                    continue
                row["measure"] = f"{row['operation']}_service_time_{row['percentile']}"
            for line in finder.find(row)[:1]:
                lines[csv, place] = (line, str(ids[line]))
    return lines
