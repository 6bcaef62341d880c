"""Figures of storage and cost: bytes on disk, money or host hours."""

from __future__ import annotations

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.text import number
from storewise.analysis.model.columns import CORPUS_MONEY, HOURS, MONEY
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.selection import ROWS, by_phase, choose, rows_of_panel
from storewise.figures.style import DASHED, GREY


def storage(tables: Tables) -> Chart | None:
    """Bytes on disk per document of each store, and of the input files for comparison."""
    sizes = tables.storage_summary
    sizes = sizes[(sizes["measure"] == "bytes_per_document") & (sizes["mean"] > 0)]
    sizes = sizes[sizes["engine"] != CEILING]
    if sizes.empty:
        return None
    shown = choose(sizes, tables.results.factors, ROWS)
    label = "bytes on disk per document"
    bars = rows_of_panel(shown.rows, shown.names, label, "summary", "bars")
    names = [bar.name for bar in bars]
    inputs = tables.results.inputs
    if inputs is not None and inputs.documents:
        share = inputs.bytes / inputs.documents
        line = [Point(share, names[0], words=f"{number(share)} {label}")]
        name = "inputs as they lie on disk"
        bars.append(Series(name, line, "level", colour=GREY, dash=DASHED))
    panel = Panel("Storage after the load", Axis(label, "linear"), Axis(), bars, names)
    return Chart([panel], shown.note)


def costs(tables: Tables) -> Chart | None:
    """Costs, a panel per phase with a row per engine and setting: money if the study has prices,
    else host hours."""
    rows = tables.summary
    measure = MONEY if (rows["measure"] == MONEY).any() else HOURS
    rows = rows[rows["measure"].isin([measure, CORPUS_MONEY])]
    if rows.empty:
        return None
    shown = choose(rows, [*tables.results.factors, "step"], ROWS)
    panels = []
    for kind in (measure, CORPUS_MONEY):
        for phase, rows in by_phase(tables, shown.rows[shown.rows["measure"] == kind]):
            what, _, per = str(rows["unit"].iloc[0]).partition("/")
            label = f"{'host hours' if what == 'h' else what} per {per.replace('10^6', 'million')}"
            heading = "keeping the full corpus" if kind == CORPUS_MONEY else phase
            dots = rows_of_panel(rows, shown.names, label, "summary", "markers")
            panels.append(Panel(heading, Axis(label), Axis(), dots, [dot.name for dot in dots]))
    return Chart(panels, shown.note)
