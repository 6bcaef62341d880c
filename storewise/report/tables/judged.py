"""Tables that the analysis judged from the measured ones, each with what it says."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from storewise.analysis.common.engines import CEILING, title, varying_factors
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
    "pairs": (
        "Pairs of engines",
        "Tukey's honestly significant differences, with simultaneous 95 % intervals",
    ),
    "usl": (
        "Universal Scalability Law",
        "Contention (sigma) and coherency (kappa) fitted to rates over nodes, workers or threads",
    ),
    "costs": ("Cost", "Node hours, and money where the study has prices"),
    "capacity": ("Capacity", "What the full corpus would need, from the measured scaling"),
    "limits": ("What limited each trial", "Client, disk, processors or network, with figures"),
}
#: What is shown of a table besides keys and factors; all else is behind the source of its row.
_READ: Mapping[str, Sequence[str]] = {
    "variance": ("engines", "term", "df", "f", "p", "eta_sq_partial", "omega_sq", "n"),
    "pairs": ("engines", "factor", "a", "b", "ratio", "p_adj", "reject"),
    "usl": ("factor", "lambda", "sigma", "kappa", "peak", "peak_rate", "r2", "flags"),
    "costs": ("mean", "n", "note"),
    "capacity": ("over", "count", "hours", "bytes", "model", "needed", "needed_hours", "limits"),
    "limits": ("limited_by", "also", "evidence", "host"),
}
#: Whose interval columns `low` and `high` are.
_OWNERS = ("mean", "value", "ratio", "documents_per_s")
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
}
#: A column of these units is shown with them.
_SHOWN = {"B": binary, "bytes": binary, "s": seconds}


def judged_tables(tables: Tables) -> list[tuple[str, Table]]:
    """(heading, table) of the judged tables that have rows."""
    rows = {name: _telling(name, tables.judged[name]) for name in KNOWN if name in tables.judged}
    return [
        (KNOWN[name][0], judged_table(name, table, tables))
        for name, table in rows.items()
        if len(table)
    ]


def _telling(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table without rows that only say why there is nothing, and without costs of the null
    engine, which stores nothing."""
    if table.empty:
        return table
    if name == "usl":
        return table[table["lambda"].notna()]
    return table[table["engine"] != CEILING] if name == "costs" else table


def _words(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def judged_table(name: str, table: pd.DataFrame, tables: Tables) -> Table:
    """One judged table: columns without a value, with one level of a factor or that nobody reads
    are left out, intervals are under their value, numbers have three digits and their unit."""
    factors = tables.results.factors
    varying = set(varying_factors(tables.trials, factors))
    names = [c for c in map(str, table.columns) if not bool(table[c].map(missing).all())]
    names = [c for c in names if not _constant(table, c, factors, varying)]
    bounds = {_owner(low, names): (low, high) for low in names if (high := _upper(low)) in names}
    ends = {end for pair in bounds.values() for end in pair}
    read = _READ.get(name)
    keys = [c for c in names if c in _KEYS or c in factors]
    values = [c for c in names if c not in keys and c not in ends | {"unit", "resampled"}]
    keys.sort(key=lambda c: c not in factors)

    def column(name: str) -> Column:
        number = pd.api.types.is_numeric_dtype(table[name])
        head = _words(name) + (cells.WITH_INTERVAL if name in bounds else "")
        return Column(
            head, lambda row: _cell(name, row, factors, numeric=number, ends=bounds.get(name))
        )

    columns = [column(c) for c in (*keys, *(c for c in values if read is None or c in read))]
    return cells.table_of(f"judged-{name}", KNOWN[name][1], table, name, columns)


def _owner(low: str, names: Sequence[str]) -> str:
    """The value that an interval is of."""
    stem = low.rpartition("_")[0]
    return stem or next((name for name in _OWNERS if name in names), "")


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


def _cell(
    column: str,
    row: Row,
    factors: Sequence[str],
    *,
    numeric: bool,
    ends: tuple[str, str] | None,
) -> Cell:
    cell = _value(column, row, factors, numeric=numeric)
    if ends is None or missing(row[ends[0]]) or missing(row[ends[1]]):
        return cell
    low, high = (float(row[end]) for end in ends)
    return replace(cell, note=cells.interval_words(low, high, lambda v: _number(column, v, row)))


def _value(column: str, row: Row, factors: Sequence[str], *, numeric: bool) -> Cell:
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
