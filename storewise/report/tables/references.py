"""The page's section of published studies: what compares, and what is only listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storewise.analysis.common.text import number
from storewise.analysis.measure.references import finding
from storewise.analysis.model.tables import Tables
from storewise.report.tables import cells
from storewise.report.tables.cells import Column, Table


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
    sentences = finding(tables.reference_agreement) or [
        "Nothing of this study stands beside a published figure: it varied nothing that they "
        "varied, or its phases or engines are others"
    ]
    return Published(
        sentences,
        [
            (r.name, [r.cited(), f"Hardware: {r.hardware}", *([r.note] if r.note else [])])
            for r in references
        ],
        [_agreement(tables)],
    )


def _agreement(tables: Tables) -> Table:
    columns = [
        *cells.texts("reference", "quantity", "of", "setting", title="figure"),
        Column("at", lambda row: cells.text_cell(f"{row['x_name']} {row['at']}".strip())),
        *cells.figures(number, published="published", measured="here"),
        *cells.texts("agree"),
    ]
    caption = (
        "Slopes of curves with both axes in logarithms (1: proportional, 0: flat), and ratios of "
        "two systems, published and here"
    )
    table = tables.reference_agreement
    return cells.table_of("reference-agreement", caption, table, "reference_agreement", columns)
