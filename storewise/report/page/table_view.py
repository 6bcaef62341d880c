"""Tables as the template and the page's script take them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from storewise.report.data.filters import Facets
from storewise.report.data.rows import Mark, source_id, source_label
from storewise.report.tables.cells import Cell, Table

#: Rows of a table that stand in the page's text; more are drawn by its script.
SHOWN = 25


@dataclass(frozen=True, slots=True)
class RowView:
    """One row as text."""

    cells: Sequence[Cell]
    source: str
    label: str


@dataclass(frozen=True, slots=True)
class TableView:
    """One table as text, its first rows only, and whole as data."""

    id: str
    caption: str
    columns: Sequence[str]
    numeric: Sequence[bool]
    sources: bool
    first: Sequence[RowView]
    count: int
    data: dict[str, Any]

    @property
    def more(self) -> int:
        """Rows that are not in the page's text."""
        return self.count - len(self.first)


def view(table: Table, facets: Facets, shown: int = SHOWN) -> TableView:
    """One table, ready for the template; its first `shown` rows stand in the page's text."""
    count = len(table.rows)
    marks: Sequence[Mark | None] = table.marks or [None] * count
    ids = [source_id(m) if m is not None and m.rows else "" for m in marks]
    first = [
        RowView(row, source, source_label(source) if source else "")
        for row, source in zip(table.rows[:shown], ids[:shown], strict=True)
    ]
    numeric = [table.numeric(place) for place in range(len(table.columns))]
    data: dict[str, Any] = {
        "caption": table.caption,
        "columns": list(table.columns),
        "numeric": numeric,
        "rows": [[_compact(c) for c in row] for row in table.rows],
    }
    if any(ids):
        data["source"] = ids
        data["f"] = [facets.of(m.record) if m is not None else [] for m in marks]
    return TableView(table.id, table.caption, table.columns, numeric, any(ids), first, count, data)


def _compact(cell: Cell) -> Any:
    """The text alone, or [text, what it sorts by, note, source, label, 1 if of the best]."""
    order: Any = cell.order
    if isinstance(order, float) and math.isinf(order):
        # JSON has no infinity; beyond all that is measured is far enough to sort by.
        order = math.copysign(1e300, order)
    if cell.best or cell.note or cell.source:
        return [cell.text, order, cell.note, cell.source, cell.label, *([1] if cell.best else [])]
    return cell.text if order == cell.text else [cell.text, order]


class TableViews:
    """The tables of one page, with what its script needs of them."""

    def __init__(self, facets: Facets) -> None:
        self._facets = facets
        self.data: dict[str, Any] = {}
        self.sources: list[str] = []
        """The CSV files that rows and cells come from."""

    def one(self, table: Table, shown: int = SHOWN) -> TableView:
        """The view of a table, of which the first `shown` rows stand in the page's text."""
        made = view(table, self._facets, shown)
        self.data[table.id] = made.data
        self.sources += [mark.csv for mark in table.marks]
        self.sources += [c.source.split(":")[0] for row in table.rows for c in row if c.source]
        return made

    def all_of(self, tables: Iterable[Table]) -> list[TableView]:
        """The views of some tables."""
        return [self.one(table) for table in tables]
