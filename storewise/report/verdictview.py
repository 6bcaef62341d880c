"""The verdict's table on the page: choices by criteria, each cell with figure, interval and source.

Where the analysis has judged a table ``verdict``, that is shown; it has one row per choice and
criterion with the columns

- ``choice``, ``criterion`` (heading of the column), ``unit``, ``n``, ``mean``, ``low``, ``high``;
- ``rank`` (1: not worse than any other; choices of one rank do not differ), ``with`` (the rest of
  the configuration in words), ``note`` (why there is no figure);
- ``table`` and ``row``: the row of ``analysis/<table>.csv`` (from 0) that the figure is;
- what the choices above the figures choose by (``engine``, factors).

Columns that are not there are not shown. Without the table the criteria of
`storewise.analysis.verdict` are shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.breakeven import times_asked
from storewise.analysis.engines import BASELINE, title
from storewise.analysis.frames import missing, records
from storewise.analysis.standings import Standing
from storewise.analysis.tables import Tables
from storewise.analysis.text import number
from storewise.analysis.verdict import Verdict
from storewise.report.cells import Cell, Table, text_cell
from storewise.report.views import source_label

#: The judged table that is shown here and not among the others.
NAME = "verdict"
_CAPTION = (
    "Choices by criteria: the best measured configuration of each with its 95 % interval. Rank 1 "
    "are those that do not differ from the best"
)


def verdict_tables(found: Verdict, tables: Tables) -> list[Table]:
    """The table of the verdict; none where nothing could be judged."""
    judged = tables.judged.get(NAME)
    if judged is not None and len(judged) and {"choice", "criterion"} <= set(judged.columns):
        return [_of_judged(judged)]
    return [_of_criteria(found, tables)] if found.criteria else []


def _of_judged(judged: pd.DataFrame) -> Table:
    rows = records(judged)
    criteria = list(dict.fromkeys(str(r["criterion"]) for r in rows))
    choices = list(dict.fromkeys(str(r["choice"]) for r in rows))
    cells = {(str(r["choice"]), str(r["criterion"])): r for r in rows}
    units = {str(r["criterion"]): str(r["unit"]) for r in rows if not missing(r.get("unit"))}
    lines = [
        [text_cell(choice), *(_judged_cell(cells.get((choice, c))) for c in criteria)]
        for choice in choices
    ]
    heads = [f"{c}, {units[c]}" if units.get(c) else c for c in criteria]
    return Table("verdict-table", _CAPTION, ["choice", *heads], lines)


def _judged_cell(row: Mapping[str, Any] | None) -> Cell:
    if row is None:
        return Cell("not measured", -math.inf, True)
    if missing(row.get("mean")):
        why = row.get("note")
        return Cell(str(why) if not missing(why) and why else "not measured", -math.inf, True)
    notes = _interval(row.get("low"), row.get("high"))
    if not missing(row.get("rank")):
        notes.append(f"rank {int(row['rank'])}")
    notes += [str(row[n]) for n in ("with", "note") if not missing(row.get(n)) and row[n]]
    source = ""
    if not missing(row.get("table")) and not missing(row.get("row")) and row["table"]:
        source = f"{row['table']}:{int(row['row'])}"
    return _filled(float(row["mean"]), notes, source)


def _interval(low: Any, high: Any) -> list[str]:
    if missing(low) or missing(high) or not math.isfinite(low):
        return ["no interval"]
    return [f"{number(float(low))} to {number(float(high))}"] if high > low else []


def _filled(mean: float, notes: Sequence[str], source: str) -> Cell:
    label = source_label(source) if source else ""
    return Cell(number(mean), mean, True, "; ".join(notes), source, label)


def _of_criteria(found: Verdict, tables: Tables) -> Table:
    files = title(BASELINE)
    choices = list(dict.fromkeys(s.label for c in found.criteria for s in c.standings))
    asked = BASELINE in set(tables.trials.get("engine", ()))
    if asked:
        # Files first: what one has without any store; then those that pay for their load soonest.
        choices = [files, *(c for c in choices if c != files)]
        choices.sort(key=lambda name: (name != files, found.pays.get(name, math.inf)))
    by_name = {c.name: {s.label: s for s in c.standings} for c in found.criteria}
    rows = []
    for name in choices:
        cells = [text_cell(name)]
        for criterion in found.criteria:
            standing = by_name[criterion.name].get(name)
            if standing is not None:
                cells.append(_standing(standing, tables))
            elif name == files and criterion.name == "write":
                cells.append(Cell("nothing to load", math.inf, True))
            else:
                cells.append(Cell("not measured", -math.inf, True))
        if asked:
            pays = found.pays.get(name)
            words = "the baseline" if name == files else "–"
            if pays is not None:
                words = times_asked(pays)
            cells.append(Cell(words, -math.inf if pays is None else pays, True))
        rows.append(cells)
    heads = ["choice", *(f"{c.title}, {c.unit}" for c in found.criteria)]
    if asked:
        heads.append("pays from so many questions on (of the kind that pays soonest)")
    return Table("verdict-table", _CAPTION, heads, rows)


def _standing(standing: Standing, tables: Tables) -> Cell:
    known = standing.estimate
    notes = _interval(known.low, known.high) if known.known() else ["no interval"]
    if standing.leads:
        notes.append("rank 1")
    notes += [text for text in (standing.topology, standing.where) if text]
    return _filled(known.mean, notes, _row_of(standing, tables))


def _row_of(standing: Standing, tables: Tables) -> str:
    """The row that a standing was made of: its very mean, at an engine that is called so."""
    for csv in ("summary", "storage_summary", "highest_rates"):
        frame = tables.frames()[csv]
        same = frame[frame["mean"] == standing.estimate.mean] if len(frame) else frame
        for label, row in zip(same.index, records(same), strict=True):
            if standing.label.startswith(title(str(row["engine"]))):
                return f"{csv}:{label}"
    return ""
