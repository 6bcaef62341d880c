"""Tables that the analysis judged from the measured ones, each with what it says.

A table that is not named here has a section all the same, under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import binary, number, seconds
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import marks
from storewise.report.tables.cells import Cell, Table, level_cell, number_cell, text_cell


@dataclass(frozen=True, slots=True)
class Known:
    """How a table is called and what its columns mean."""

    heading: str
    caption: str
    hidden: Sequence[str] = ()


KNOWN: Mapping[str, Known] = {
    "variance": Known(
        "Analysis of variance",
        "What each factor explains of a measure: sums of squares, F, p and effect sizes",
    ),
    "tukey": Known(
        "Pairs of engines",
        "Tukey's honestly significant differences, with simultaneous 95 % intervals",
    ),
    "noise": Known("Noise", "How steady each trial and setting was"),
    "differences": Known(
        "Differences", "Which engines differ in what, with the interval of the difference"
    ),
    "usl": Known(
        "Universal Scalability Law",
        "Contention (sigma) and coherency (kappa) fitted to rates over nodes, workers or threads",
    ),
    "knees": Known("Knees", "The rate from which on response times rise faster than throughput"),
    "response": Known(
        "Response and service time", "How much of the time of an operation was waiting"
    ),
    "costs": Known("Cost", "Node hours, and money where the study has prices"),
    "capacity": Known("Capacity", "What the full corpus would need, from the measured scaling"),
    "capacity_curve": Known(
        "Capacity over nodes", "Rate, hours and bytes at each number, measured and modelled"
    ),
    "limits": Known("What limited each trial", "Client, disk, processors or network, with figures"),
}
#: Columns that are factors' levels or keys and come first.
_KEYS = ("phase", "step", "measure", "operation", "trial")
_WORDS = {
    "df": "df",
    "sum_sq": "sum of squares",
    "f": "F",
    "p": "p",
    "p_adj": "p, adjusted",
    "eta_sq_partial": "partial η²",
    "omega_sq": "ω²",
    "n": "n",
    "a": "one",
    "b": "the other",
    "log": "logarithms",
    "cv": "coefficient of variation",
}
#: A column of these units is shown with them.
_SHOWN = {"B": binary, "bytes": binary, "s": seconds}


def tables_of_judged(tables: Tables, skip: Sequence[str] = ()) -> list[tuple[str, Table]]:
    """(heading, table) of every judged table that has rows, the known ones first."""
    names = [n for n in KNOWN if n in tables.judged]
    names += [n for n in tables.judged if n not in KNOWN]
    return [
        (known_of(name).heading, judged_table(name, tables.judged[name], tables))
        for name in names
        if name not in skip and len(tables.judged[name])
    ]


def known_of(name: str) -> Known:
    """What is known of a table, or its name made readable."""
    if name in KNOWN:
        return KNOWN[name]
    words = _words(name)
    return Known(words[:1].upper() + words[1:], f"{words[:1].upper()}{words[1:]} (table {name})")


def _words(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def judged_table(name: str, table: pd.DataFrame, tables: Tables) -> Table:
    """One judged table: columns without a value or with one level of a factor are left out,
    bounds become intervals, numbers have three digits and their unit."""
    known = known_of(name)
    factors = tables.results.factors
    columns = [c for c in map(str, table.columns) if c not in known.hidden and _told(table, c)]
    varying = set(varying_factors(tables.trials, factors))
    columns = [c for c in columns if not _constant(table, c, factors, varying)]
    columns.sort(key=lambda c: (c not in _KEYS and c not in factors, c not in factors))
    bounds = {c: _bounds(c, columns) for c in columns}
    upper = {high for pair in bounds.values() if pair for high in (pair[1],)}
    shown = [c for c in columns if c not in upper and c not in ("unit", "resampled")]
    numbers = {c for c in shown if pd.api.types.is_numeric_dtype(table[c])}
    rows = [
        [
            number_cell(None)
            if c in numbers and missing(row[c])
            else _cell(c, row, bounds.get(c), factors)
            for c in shown
        ]
        for row in records(table)
    ]
    heads = [_interval_name(c) if bounds.get(c) else _words(c) for c in shown]
    return Table(f"judged-{name}", known.caption, heads, rows, marks(name, table))


def _told(table: pd.DataFrame, column: str) -> bool:
    return bool((~table[column].map(missing)).any())


def _constant(
    table: pd.DataFrame, column: str, factors: Sequence[str], varying: Collection[str]
) -> bool:
    if column == "step":
        return bool((table[column] == 0).all())
    return column in factors and column != "engine" and column not in varying


def _bounds(column: str, columns: Sequence[str]) -> tuple[str, str] | None:
    """The lower and upper bound of an interval, where a column is the lower one."""
    for low, high in (("low", "high"), ("lower", "upper")):
        if column == low or column.endswith(f"_{low}"):
            other = column[: -len(low)] + high
            if other in columns:
                return column, other
    return None


def _interval_name(column: str) -> str:
    stem = column.rsplit("_", 1)[0] if "_" in column else ""
    return f"95 % interval of {_words(stem)}" if stem else "95 % interval"


def _cell(
    column: str, row: Mapping[str, Any], bounds: tuple[str, str] | None, factors: Sequence[str]
) -> Cell:
    value = row[column]
    if bounds is not None:
        low, high = row[bounds[0]], row[bounds[1]]
        if missing(low) or missing(high):
            return number_cell(None)
        return Cell(
            f"{_number(column, low, row)} to {_number(column, high, row)}", float(low), True
        )
    if missing(value):
        return Cell("–", "")
    if column == "engine" or (column in ("a", "b") and row.get("factor") == "engine"):
        return text_cell(title(str(value)))
    if isinstance(value, bool):
        return text_cell("yes" if value else "no")
    if isinstance(value, int | float):
        if column in factors or column in _KEYS:
            return level_cell(column, value)
        if math.isinf(value):
            return Cell("unbounded" if value > 0 else "–∞", float(value), True)
        return number_cell(float(value), _number(column, value, row))
    if isinstance(value, list | tuple | set):
        return text_cell(", ".join(map(str, value)))
    return text_cell(value)


def _number(column: str, value: float, row: Mapping[str, Any]) -> str:
    if not math.isfinite(value):
        return "unbounded"
    stem = column.removesuffix("_low").removesuffix("_high")
    if stem in ("p", "p_adj") or stem.endswith("_p"):
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    unit = row.get("unit")
    if unit in _SHOWN and stem in ("value", "mean", "low", "high"):
        return _SHOWN[str(unit)](value)
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:,.0f}"
    text = number(value)
    if unit and not missing(unit) and unit != "1" and stem in ("value", "mean", "low", "high"):
        return f"{text} {unit}"
    return text
