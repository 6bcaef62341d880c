"""Tables of the page about questions: who answered them, and when a store has paid."""

from __future__ import annotations

import math
from typing import Any

from storewise.analysis.common.engines import BASELINE, varying_factors
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import seconds
from storewise.analysis.measure.breakeven import times_asked
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import Mark, marks
from storewise.report.tables.cells import Cell, Table, level_cell, number_cell, text_cell


def tables_of(tables: Tables) -> list[Table]:
    """Those that have rows."""
    return [t for t in (question_table(tables), breakeven_table(tables)) if t.rows]


def question_table(tables: Tables) -> Table:
    """Question by engine: who answered it, by which index, in which time."""
    found = tables.questions
    names = ["engine", *varying_factors(found, tables.results.factors)]
    names += ["step"] if len(found) and found["step"].nunique() > 1 else []
    rows = [
        [
            text_cell(row["question"]),
            *(level_cell(n, row[n]) for n in names),
            text_cell(_who(row)),
            text_cell(row["indexes"] or "none"),
            number_cell(row["median"], seconds(row["median"])),
            number_cell(row["operations"], f"{row['operations']:,.0f}"),
        ]
        if row["median"] is not None and math.isfinite(row["median"])
        else [
            text_cell(row["question"]),
            *(level_cell(n, row[n]) for n in names),
            text_cell(_who(row)),
            text_cell(row["indexes"] or "none"),
            number_cell(None),
            number_cell(0, "0"),
        ]
        for row in records(found)
    ]
    heads = ["question", *names, "answered by", "index that may serve it", "median", "asked"]
    caption = "Questions: who answered them, and how fast"
    return Table("questions", caption, heads, rows, marks("questions", found))


def _who(row: dict[str, Any]) -> str:
    if row["engine"] == BASELINE:
        return "client (reads the files)"
    return f"{row['answered_by']} ({row['by']})"


def breakeven_table(tables: Tables) -> Table:
    """From how many questions on a store pays; the files themselves are the first row."""
    found = tables.breakeven
    names = ["engine", *varying_factors(found, tables.results.factors)]
    names += ["step"] if len(found) and found["step"].nunique() > 1 else []
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    ordered = found.sort_values(["phase", "operation"], kind="stable")
    done: set[tuple[str, str]] = set()
    for row, mark in zip(records(ordered), marks("breakeven", ordered), strict=True):
        if (row["phase"], row["operation"]) not in done:
            done.add((row["phase"], row["operation"]))
            rows.append(
                [
                    text_cell(row["phase"]),
                    text_cell(row["operation"]),
                    *(level_cell(n, BASELINE if n == "engine" else None) for n in names),
                    text_cell("none"),
                    number_cell(row["files_question"], seconds(row["files_question"])),
                    text_cell("the baseline"),
                    text_cell("–"),
                ]
            )
            origins.append(Mark(mark.csv, mark.rows, {"engine": BASELINE, "phase": row["phase"]}))
        origins.append(mark)
        rows.append(
            [
                text_cell(row["phase"]),
                text_cell(row["operation"]),
                *(level_cell(n, row[n]) for n in names),
                number_cell(row["load"], seconds(row["load"])),
                number_cell(row["store_question"], seconds(row["store_question"])),
                _pays(row),
                text_cell(_interval(row)),
            ]
        )
    heads = [
        "phase",
        "question",
        *names,
        "load",
        "time of a question",
        "pays from",
        "95 % interval",
    ]
    caption = (
        "Number of questions from which on a store pays against reading the files again. The time "
        "of a question is its mean over the clients that asked at once"
    )
    return Table("breakeven", caption, heads, rows, origins)


def _pays(row: dict[str, Any]) -> Cell:
    if not math.isfinite(row["mean"]):
        return Cell("never: the files are faster", math.inf)
    count = times_asked(row["mean"])
    return Cell(f"{count} {'question' if count == '1' else 'questions'} on", float(row["mean"]))


def _interval(row: dict[str, Any]) -> str:
    if row["resampled"] == "none":
        return "none"
    return f"{times_asked(row['low'])} to {times_asked(row['high'])}"
