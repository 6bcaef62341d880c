"""Tables that the analysis judged from the measured ones, each with what it says.

A table that is not named here has a section all the same, under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import binary, number, seconds
from storewise.analysis.model.tables import Tables
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Column, Row, Table

#: Heading and caption of each table.
KNOWN: Mapping[str, tuple[str, str]] = {
    "variance": (
        "Analysis of variance",
        "What each factor explains of a measure: sums of squares, F, p and effect sizes",
    ),
    "tukey": (
        "Pairs of engines",
        "Tukey's honestly significant differences, with simultaneous 95 % intervals",
    ),
    "noise": ("Noise", "How steady each trial and setting was"),
    "differences": (
        "Differences",
        "Which engines differ in what, with the interval of the difference",
    ),
    "usl": (
        "Universal Scalability Law",
        "Contention (sigma) and coherency (kappa) fitted to rates over nodes, workers or threads",
    ),
    "knees": ("Knees", "The rate from which on response times rise faster than throughput"),
    "response": (
        "Response and service time",
        "How much of the time of an operation was waiting",
    ),
    "costs": ("Cost", "Node hours, and money where the study has prices"),
    "capacity": ("Capacity", "What the full corpus would need, from the measured scaling"),
    "capacity_curve": (
        "Capacity over nodes",
        "Rate, hours and bytes at each number, measured and modelled",
    ),
    "limits": ("What limited each trial", "Client, disk, processors or network, with figures"),
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


def judged_tables(tables: Tables, skip: Sequence[str] = ()) -> list[tuple[str, Table]]:
    """(heading, table) of every judged table that has rows, the known ones first."""
    names = [
        *(n for n in KNOWN if n in tables.judged),
        *(n for n in tables.judged if n not in KNOWN),
    ]
    return [
        (_heading(name)[0], judged_table(name, tables.judged[name], tables))
        for name in names
        if name not in skip and len(tables.judged[name])
    ]


def _heading(name: str) -> tuple[str, str]:
    words = _words(name)
    words = words[:1].upper() + words[1:]
    return KNOWN.get(name, (words, f"{words} (table {name})"))


def _words(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def judged_table(name: str, table: pd.DataFrame, tables: Tables) -> Table:
    """One judged table: columns without a value or with one level of a factor are left out,
    bounds become intervals, numbers have three digits and their unit."""
    factors = tables.results.factors
    varying = set(varying_factors(tables.trials, factors))
    names = [c for c in map(str, table.columns) if not bool(table[c].map(missing).all())]
    names = [c for c in names if not _constant(table, c, factors, varying)]
    names.sort(key=lambda c: (c not in _KEYS and c not in factors, c not in factors))
    bounds = {low: high for low in names if (high := _upper(low)) in names}
    hidden = {"unit", "resampled", *bounds.values()}

    def column(name: str) -> Column:
        if name in bounds:
            return _interval(name, bounds[name])
        number = pd.api.types.is_numeric_dtype(table[name])
        return Column(_words(name), lambda row: _cell(name, row, factors, numeric=number))

    columns = [column(name) for name in names if name not in hidden]
    return cells.table_of(f"judged-{name}", _heading(name)[1], table, name, columns)


def _constant(
    table: pd.DataFrame, column: str, factors: Sequence[str], varying: Collection[str]
) -> bool:
    if column == "step":
        return bool((table[column] == 0).all())
    return column in factors and column != "engine" and column not in varying


def _upper(low: str) -> str | None:
    """The upper bound of the interval of which a column is the lower one."""
    for end, other in (("low", "high"), ("lower", "upper")):
        if low == end or low.endswith(f"_{end}"):
            return low.removesuffix(end) + other
    return None


def _interval(low: str, high: str) -> Column:
    def cell(row: Row) -> Cell:
        if missing(row[low]) or missing(row[high]):
            return cells.number_cell(None)
        text = f"{_number(low, row[low], row)} to {_number(low, row[high], row)}"
        return Cell(text, float(row[low]), True)

    stem = f" of {_words(low.rpartition('_')[0])}" if "_" in low else ""
    return Column(f"95 % interval{stem}", cell)


def _cell(column: str, row: Row, factors: Sequence[str], *, numeric: bool) -> Cell:
    value = row[column]
    if missing(value) and numeric:
        return cells.number_cell(None)
    if missing(value):
        return Cell("–", "")
    if column == "engine" or (column in ("a", "b") and row.get("factor") == "engine"):
        return cells.text_cell(title(str(value)))
    if isinstance(value, bool):
        return cells.text_cell("yes" if value else "no")
    if isinstance(value, int | float):
        if column in factors or column in _KEYS:
            return cells.level_cell(column, value)
        if math.isinf(value):
            return Cell("unbounded" if value > 0 else "–∞", float(value), True)
        return cells.number_cell(value, lambda number: _number(column, number, row))
    if isinstance(value, list | tuple | set):
        return cells.text_cell(", ".join(map(str, value)))
    return cells.text_cell(value)


def _number(column: str, value: float, row: Row) -> str:
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
