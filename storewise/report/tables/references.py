"""The page's section of published studies: what compares, and what is only listed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import number
from storewise.analysis.measure.references import finding
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import marks
from storewise.report.tables.cells import Cell, Table, number_cell, text_cell


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
        [_shapes(tables), _ratios(tables), _values(tables)],
    )


def _slope(value: float, trend: str) -> Cell:
    if math.isnan(value):
        return Cell("–", -math.inf)
    return Cell(f"{trend} ({value:+.2f})", value)


def _shapes(tables: Tables) -> Table:
    rows = [
        [
            text_cell(row["reference"]),
            text_cell(row["title"]),
            text_cell(row["system"]),
            text_cell(title(str(row["engine"]))),
            text_cell(row["setting"]),
            text_cell(f"{row['x_name']} {row['levels']}"),
            _slope(row["published_slope"], str(row["published_trend"])),
            _slope(row["measured_slope"], str(row["measured_trend"])),
            number_cell(row["published_best"]),
            number_cell(row["measured_best"]),
            text_cell(row["agree"]),
        ]
        for row in records(tables.reference_shapes)
    ]
    heads = ["reference", "figure", "published", "here", "setting", "levels", "published slope"]
    heads += ["slope here", "published best at", "best here at", "agree"]
    caption = "Shapes: slope of each curve with both axes in logarithms (1: proportional, 0: flat)"
    origins = marks("reference_shapes", tables.reference_shapes)
    return Table("reference-shapes", caption, heads, rows, origins)


def _ratios(tables: Tables) -> Table:
    rows = [
        [
            text_cell(row["reference"]),
            text_cell(row["title"]),
            text_cell(row["setting"]),
            text_cell(f"{row['x_name']} {row['at']}".strip()),
            text_cell(row["over"]),
            text_cell(row["under"]),
            number_cell(row["published"]),
            number_cell(row["measured"]),
            text_cell(row["agree"]),
        ]
        for row in records(tables.reference_ratios)
    ]
    heads = ["reference", "figure", "setting", "at", "value of", "over that of"]
    heads += ["published ratio", "ratio here", "same side of 1"]
    caption = "Ratios of two systems, published and here"
    origins = marks("reference_ratios", tables.reference_ratios)
    return Table("reference-ratios", caption, heads, rows, origins)


def _values(tables: Tables) -> Table:
    rows = [
        [
            text_cell(row["reference"]),
            number_cell(row["line"], str(row["line"])),
            text_cell(row["series"]),
            text_cell(row["system"]),
            text_cell(row["setting"]),
            text_cell("" if math.isnan(row["x"]) else f"{row['x_name']} {number(row['x'])}"),
            number_cell(row["value"]),
            text_cell(row["unit"]),
            text_cell(row["compared"]),
        ]
        for row in records(tables.reference_values)
    ]
    heads = ["reference", "line", "figure", "system", "setting", "level"]
    heads += ["published value (other hardware)", "unit", "compared"]
    caption = (
        "Published values as they are, on other hardware: listed, never to be set against "
        "values of this page"
    )
    origins = marks("reference_values", tables.reference_values)
    return Table("reference-values", caption, heads, rows, origins)
