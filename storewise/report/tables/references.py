"""The page's section of published studies: what compares, and what is only listed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from storewise.analysis.common.text import number
from storewise.analysis.measure.references import finding
from storewise.analysis.model.tables import Tables
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Column, Row, Table


@dataclass(frozen=True, slots=True)
class Published:
    """What the section shows."""

    sentences: Sequence[str]
    sources: Sequence[tuple[str, Sequence[str]]]
    """Each reference with its citation, hardware and note."""
    tables: Sequence[Table]


def section(tables: Tables) -> Published | None:
    """All about published figures; None where the study names no reference."""
    references = tables.results.references
    if not references:
        return None
    sentences = finding(tables.reference_shapes, tables.reference_ratios) or [
        "Nothing of this study stands beside a published figure: it varied nothing that they "
        "varied, or its phases or engines are others"
    ]
    return Published(
        sentences,
        [
            (r.name, [r.cited(), f"Hardware: {r.hardware}", *([r.note] if r.note else [])])
            for r in references
        ],
        [_shapes(tables), _ratios(tables)],
    )


def _slope(kind: str, head: str) -> Column:
    def cell(row: Row) -> Cell:
        slope = float(row[f"{kind}_slope"])
        if math.isnan(slope):
            return Cell("–", -math.inf)
        return Cell(f"{row[f'{kind}_trend']} ({slope:+.2f})", slope)

    return Column(head, cell)


def _shapes(tables: Tables) -> Table:
    columns = [
        *cells.texts("reference", title="figure", system="published"),
        Column("here", lambda row: cells.level_cell("engine", row["engine"])),
        *cells.texts("setting"),
        Column("levels", lambda row: cells.text_cell(f"{row['x_name']} {row['levels']}")),
        _slope("published", "published slope"),
        _slope("measured", "slope here"),
        *cells.figures(number, published_best="published best at", measured_best="best here at"),
        *cells.texts("agree"),
    ]
    caption = "Shapes: slope of each curve with both axes in logarithms (1: proportional, 0: flat)"
    shapes = tables.reference_shapes
    return cells.table_of("reference-shapes", caption, shapes, "reference_shapes", columns)


def _ratios(tables: Tables) -> Table:
    columns = [
        *cells.texts(reference="reference", title="figure", setting="setting"),
        Column("at", lambda row: cells.text_cell(f"{row['x_name']} {row['at']}".strip())),
        *cells.texts(over="value of", under="over that of"),
        *cells.figures(number, published="published ratio", measured="ratio here"),
        *cells.texts(agree="same side of 1"),
    ]
    caption, ratios = "Ratios of two systems, published and here", tables.reference_ratios
    return cells.table_of("reference-ratios", caption, ratios, "reference_ratios", columns)
