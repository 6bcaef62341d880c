"""Tables of the page about questions: who answered them, by which plan, and when a store pays."""

from __future__ import annotations

import math
import re

from storewise.analysis.common.engines import BASELINE, varying_factors
from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import seconds
from storewise.analysis.measure.derived import times_asked
from storewise.analysis.measure.query_plans import index_use_sentences, index_word
from storewise.analysis.model.columns import PAYS_FROM
from storewise.analysis.model.tables import Tables
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Column, Row, Table

#: Lines of the drawn plans of DuckDB: in a cell they leave no room for words.
_BOXES = re.compile(r"[\u2500-\u257f]+")
#: Characters of a plan in a cell; all of it is in ``analysis/plans.csv``.
_SHOWN = 160


def question_tables(tables: Tables) -> list[Table]:
    """Those that have rows."""
    return [t for t in (_questions(tables), _breakeven(tables)) if t.rows]


def _questions(tables: Tables) -> Table:
    """Question by engine: who answered it, by which index, in which time."""

    def who(row: Row) -> str:
        if row["engine"] == BASELINE:
            return "client (reads the files)"
        return f"{row['answered_by']} ({row['by']})"

    def times(row: Row) -> float:
        return 0 if missing(row["median"]) else row["operations"]

    columns = [
        *cells.levels(["question", *cells.row_keys(tables.questions, tables)]),
        Column("answered by", lambda row: cells.text_cell(who(row))),
        Column("index that may serve it", lambda row: cells.text_cell(row["indexes"] or "none")),
        *cells.figures(seconds, "median"),
        Column("asked", lambda row: cells.number_cell(times(row), cells.whole)),
    ]
    caption = "Questions: who answered them, and how fast"
    return cells.table_of("questions", caption, tables.questions, "questions", columns)


def _breakeven(tables: Tables) -> Table:
    """From how many questions on loading pays."""
    rows = tables.summary[tables.summary["measure"] == PAYS_FROM]
    rows = rows.sort_values(["phase", "operation"], kind="stable")
    columns = [
        *cells.texts("phase", operation="question"),
        *cells.levels(cells.row_keys(rows, tables)),
        Column(f"pays from{cells.WITH_INTERVAL}", _pays),
    ]
    caption = "Number of questions from which on loading pays against reading the files again"
    return cells.table_of("breakeven", caption, rows, "summary", columns)


def _pays(row: Row) -> Cell:
    if not math.isfinite(row["mean"]):
        return Cell("never: the files are faster", math.inf)
    count = times_asked(row["mean"])
    words = f"{count} {'question' if count == '1' else 'questions'} on"
    if missing(row["low"]):
        return Cell(words, float(row["mean"]), note="no interval")
    note = f"{times_asked(row['low'])} to {times_asked(row['high'])}"
    return Cell(words, float(row["mean"]), note=note)


def plan_tables(tables: Tables) -> list[Table]:
    """The table that a study of workload `measures` has; none otherwise."""
    plans = tables.plan_summary
    if plans.empty:
        return []
    sentences = " ".join(index_use_sentences(plans, tables.results.factors))
    columns = [
        *cells.levels(["query", "engine", *varying_factors(plans, tables.results.factors)]),
        *cells.figures("{:g} %".format, selectivity_pct="selectivity"),
        *cells.figures("{:.6g}".format, threshold="mv above"),
        *cells.figures(cells.whole, found="readings found"),
        *cells.figures(seconds, mean="mean time"),
        Column("plan uses the index", lambda row: cells.text_cell(index_word(row))),
        Column("plan", lambda row: cells.text_cell(_plan(row) or None)),
    ]
    caption = "Readings above a value: times and plans" + (f". {sentences}" if sentences else "")
    return [cells.table_of("plans", caption, plans, "plan_summary", columns)]


def _plan(row: Row) -> str:
    plan = "" if missing(row["plan"]) else " ".join(_BOXES.sub(" ", str(row["plan"])).split())
    return plan[:_SHOWN] + ("…" if len(plan) > _SHOWN else "")
