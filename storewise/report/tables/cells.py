"""Tables of the page, their columns and cells: what is shown, and what it sorts by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title, varying_factors
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import level, number
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.intervals import too_wide
from storewise.report.data.rows import Mark, marks

#: Characters from which on a cell's text is broken into lines.
_LONG = 60


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `order` is what it sorts by, `numeric` puts it to the right.

    `note` is a second line; `source` (``table:row``) and its `label` are of a cell that comes from
    another row of a file than the rest of its row.
    """

    text: str
    order: str | float
    numeric: bool = False
    note: str = ""
    source: str = ""
    label: str = ""
    best: bool = False
    """Whether it is of the best group of its column, which its note says too."""

    @property
    def long(self) -> bool:
        """Whether its text must be broken into lines."""
        return len(self.text) > _LONG


#: A row of a table of the analysis.
Row = Mapping[str, Any]
#: How a number is written.
Show = Callable[[Any], str]
whole: Show = "{:,.0f}".format
plain: Show = "{:g}".format
percent: Show = "{:.0%}".format


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, and the cell that it has in a row."""

    head: str
    cell: Callable[[Row], Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the page."""

    id: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    marks: Sequence[Mark] = ()
    """Where each row comes from; none where it is no row of a file."""

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return bool(self.rows) and all(row[column].numeric for row in self.rows)

    @classmethod
    def of(
        cls,
        id_: str,
        caption: str,
        rows: Sequence[Row],
        columns: Sequence[Column],
        marks: Sequence[Mark],
    ) -> Table:
        """The table that has the columns' cells of some rows."""
        cells = [[column.cell(row) for column in columns] for row in rows]
        return cls(id_, caption, [column.head for column in columns], cells, marks).condensed()

    def condensed(self) -> Table:
        """The table without columns that say the same in all rows: these are in its caption, empty
        ones nowhere."""
        alike = [
            place
            for place in range(len(self.columns))
            if len(self.rows) > 1 and len({row[place] for row in self.rows}) == 1
        ]
        first = self.rows[0] if self.rows else ()
        alike = [place for place in alike if not (first[place].note or first[place].source)]
        if not alike:
            return self
        said = [(self.columns[place], first[place].text) for place in alike]
        words = ", ".join(f"{head} {text}" for head, text in said if text not in ("–", ""))
        kept = [place for place in range(len(self.columns)) if place not in alike]
        return replace(
            self,
            caption=f"{self.caption}; all rows: {words}" if words else self.caption,
            columns=[self.columns[place] for place in kept],
            rows=[[row[place] for place in kept] for row in self.rows],
        )


def text_cell(value: Any) -> Cell:
    """A cell of text; missing values are shown as a dash."""
    if missing(value):
        return Cell("–", "")
    return Cell(str(value), str(value))


def number_cell(value: float | None, show: Show = number) -> Cell:
    """A cell of a number in the form of `show`; missing and infinite ones are shown as a dash."""
    if value is None or missing(value) or not math.isfinite(value):
        return Cell("–", -math.inf, True)
    return Cell(show(value), float(value), True)


def level_cell(name: str, value: Any) -> Cell:
    """A cell of a factor's level."""
    if name == "engine":
        return text_cell(title(str(value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_cell(value, level)
    return text_cell(value)


def mean_cell(row: Row) -> Cell:
    """The mean of a row, under it its 95 % interval with what it stands on."""
    cell = number_cell(row["mean"])
    if missing(row["low"]) or not math.isfinite(row["low"]):
        return replace(cell, note="no interval")
    return replace(cell, note=interval_words(row["low"], row["high"]))


def interval_words(low: float, high: float, show: Show = number) -> str:
    """An interval in words; one that says too little is said to."""
    words = f"{show(low)} to {show(high)}"
    return f"{words}: not measured well enough" if too_wide(low, high) else words


def load_cell(row: Row | None, show: Show = number) -> Cell:
    """A load of a host: its mean over a phase, under it the maximum."""
    if row is None:
        return number_cell(None)
    return replace(number_cell(row["mean"], show), note=f"max. {show(row['max'])}")


def texts(*names: str, **heads: str) -> list[Column]:
    """Columns of text by name, those of the second kind with a heading of their own."""
    return _columns(names, heads, lambda name, row: text_cell(row[name]))


def figures(show: Show, *names: str, **heads: str) -> list[Column]:
    """Columns of numbers in one form by name, those of the second kind with a heading."""
    return _columns(names, heads, lambda name, row: number_cell(row[name], show))


def levels(names: Iterable[str]) -> list[Column]:
    """The columns of some factors."""
    return _columns(names, {}, lambda name, row: level_cell(name, row[name]))


def _columns(
    names: Iterable[str], heads: Mapping[str, str], cell: Callable[[str, Row], Cell]
) -> list[Column]:
    every = {name: name for name in names} | {**heads}
    return [Column(head, partial(cell, name)) for name, head in every.items()]


#: What the heading of a column says whose cells have their interval under them.
WITH_INTERVAL = ", 95 % interval"


def mean(head: str = "mean") -> Column:
    """The column of `mean` with its interval."""
    return Column(head + WITH_INTERVAL, mean_cell)


def row_keys(table: pd.DataFrame, tables: Tables) -> list[str]:
    """What tells a table's rows from each other: the engine, factors that vary, and the step."""
    names = ["engine", *varying_factors(table, tables.results.factors)]
    several = "step" in table and table["step"].nunique() > 1
    return [*names, "step"] if several else names


def table_of(
    id_: str,
    caption: str,
    table: pd.DataFrame,
    csv: str,
    columns: Sequence[Column],
) -> Table:
    """A table of the page, one row for each row of `table`, a part of ``analysis/<csv>.csv``."""
    return Table.of(id_, caption, records(table), columns, marks(csv, table))


def in_order_of_phases(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """The rows in the order in which the study has its phases."""
    place = {phase: place for place, phase in enumerate(tables.phases_of(table))}
    return table.sort_values("phase", key=lambda names: names.map(place), kind="stable")
