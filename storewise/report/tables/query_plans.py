"""The table of the page about plans: where stores used their index, and in what time."""

from __future__ import annotations

import re

from storewise.analysis.common.engines import varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import seconds
from storewise.analysis.measure.query_plans import index_word, leavings
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import marks
from storewise.report.tables.cells import Table, level_cell, number_cell, text_cell

#: Lines of the drawn plans of DuckDB: in a cell they leave no room for words.
_BOXES = re.compile(r"[\u2500-\u257f]+")
#: Characters of a plan in a cell; all of it is in ``analysis/plans.csv``.
_SHOWN = 160


def tables_of_plans(tables: Tables) -> list[Table]:
    """The table that a study of workload `measures` has; none otherwise."""
    found = tables.plan_summary
    if found.empty:
        return []
    factors = tables.results.factors
    names = ["engine", *varying_factors(found, factors)]
    rows = []
    for row in records(found):
        plan = "" if missing(row["plan"]) else " ".join(_BOXES.sub(" ", str(row["plan"])).split())
        rows.append(
            [
                text_cell(row["query"]),
                *(level_cell(n, row[n]) for n in names),
                number_cell(row["selectivity_pct"], f"{row['selectivity_pct']:g} %"),
                number_cell(row["threshold"], f"{row['threshold']:.6g}"),
                number_cell(row["found"], _count(row["found"])),
                number_cell(row["mean"], "–" if missing(row["mean"]) else seconds(row["mean"])),
                text_cell(index_word(row)),
                text_cell(plan[:_SHOWN] + ("…" if len(plan) > _SHOWN else "") or None),
            ]
        )
    heads = ["query", *names, "selectivity", "mv above", "readings found"]
    heads += ["mean time", "plan uses the index", "plan"]
    told = " ".join(leavings(found, factors))
    caption = "Readings above a value: times and plans" + (f". {told}" if told else "")
    return [Table("plans", caption, heads, rows, marks("plan_summary", found))]


def _count(value: float) -> str:
    return "–" if missing(value) else f"{value:,.0f}"
