"""Tables of the page about questions: who answered them, and when a store has paid."""

from __future__ import annotations

import math
from typing import Any

from storewise.analysis.breakeven import times_asked
from storewise.analysis.engines import BASELINE, title, varying_factors
from storewise.analysis.frames import records
from storewise.analysis.tables import Tables
from storewise.analysis.text import seconds
from storewise.analysis.verdict import Verdict
from storewise.report.cells import Cell, Table, level_cell, number_cell, text_cell


def verdict_table(found: Verdict, tables: Tables) -> list[Table]:
    """The verdict's figures, choice by criterion, where the files themselves took part: they are
    the first row, then the stores in the order of the soonest to pay."""
    if BASELINE not in set(tables.trials.get("engine", ())) or not found.criteria:
        return []
    choices = list(dict.fromkeys(s.label for c in found.criteria for s in c.standings))
    files = title(BASELINE)
    choices.sort(key=lambda name: (name != files, found.pays.get(name, math.inf)))
    by_name = {c.name: {s.label: s for s in c.standings} for c in found.criteria}
    rows = []
    for name in [files, *(c for c in choices if c != files)]:
        cells = [text_cell(name)]
        for criterion in found.criteria:
            standing = by_name[criterion.name].get(name)
            if standing is not None:
                cells.append(number_cell(standing.estimate.mean))
            elif name == files and criterion.name == "write":
                cells.append(Cell("nothing to load", math.inf, True))
            else:
                cells.append(number_cell(None))
        pays = found.pays.get(name)
        words = "the baseline" if name == files else "–"
        if pays is not None:
            words = times_asked(pays)
        cells.append(Cell(words, -math.inf if pays is None else pays, True))
        rows.append(cells)
    heads = ["choice", *(f"{c.title}, {c.unit}" for c in found.criteria)]
    heads.append("pays from so many questions on (of the kind that pays soonest)")
    caption = "The best configuration of each choice, reading the files again first"
    return [Table("verdict-table", caption, heads, rows)]


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
    return Table("questions", "Questions: who answered them, and how fast", heads, rows)


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
    done: set[tuple[str, str]] = set()
    for row in records(found.sort_values(["phase", "operation"], kind="stable")):
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
    return Table("breakeven", caption, heads, rows)


def _pays(row: dict[str, Any]) -> Cell:
    if not math.isfinite(row["mean"]):
        return Cell("never: the files are faster", math.inf)
    count = times_asked(row["mean"])
    return Cell(f"{count} {'question' if count == '1' else 'questions'} on", float(row["mean"]))


def _interval(row: dict[str, Any]) -> str:
    if row["resampled"] == "none":
        return "none"
    return f"{times_asked(row['low'])} to {times_asked(row['high'])}"
