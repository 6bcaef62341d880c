"""What documents cost: bytes on disk, money or hours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING, varying_factors
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Medium, Panel, Point, Series, point, rows_axis
from storewise.figures.selection import (
    labelled,
    line_name,
    lines_in,
    on_paper,
    phase_title,
    setting_note,
)
from storewise.figures.style import DASHED, GREY

#: Of what was judged, what is drawn: money where the study has prices, else hours of hosts.
_MONEY, _HOURS, _YEAR = "money_per_million", "host_hours_per_million", "corpus_money_per_year"
_INPUTS = "inputs as they lie on disk"


def storage(tables: Tables) -> Chart | None:
    """Bytes on disk per document, against what the inputs take as they lie on disk."""
    sizes = tables.storage_summary
    sizes = sizes[(sizes["measure"] == "bytes_per_document") & (sizes["mean"] > 0)]
    sizes = sizes[sizes["engine"] != CEILING] if len(sizes) else sizes
    if sizes.empty:
        return None
    names = varying_factors(sizes, tables.results.factors)
    printed = on_paper(sizes, names)
    many = len(printed) < len(sizes)
    bars = []
    for rank, (label, row) in enumerate(labelled(sizes)):
        on: Medium = "both" if label in printed.index else "page"
        name, words = line_name(row, names), f"{number(row['mean'])} bytes per document"
        size = point(row["mean"], name, row, words, f"summary:{label}")
        look: dict[str, Any] = {"on": on, "rank": rank if many else -1}
        size = replace(size, label=f"{row['mean']:.0f}")
        bars.append(Series(name, [size], "bars", row, **look))
    rows = rows_axis(line_name(r, names) for r in records(sizes.sort_values(["engine", *names])))
    inputs = tables.results.inputs
    if inputs is not None and inputs.documents:
        share = inputs.bytes / inputs.documents
        words = f"{number(share)} bytes/document"
        points = [Point(share, bar.name, words=words) for bar in bars if bar.on == "both"]
        bars.append(Series(_INPUTS, points, "across", colour=GREY, dash=DASHED))
    x = Axis("bytes on disk per document", "linear")
    note = setting_note(printed, names) if many else ""
    return Chart([Panel("Storage after the load", x, rows, bars)], lowest=many, note=note)


def costs(tables: Tables) -> Chart | None:
    """A point per engine and setting with its interval, a panel per phase."""
    judged = tables.judged.get("costs")
    if judged is None or judged.empty:
        return None
    # Where the study set the rate it was not the store that made the costs.
    judged = judged[judged["engine"] != CEILING]
    judged = judged[~judged["paced"].fillna(value=False).astype(bool) & (judged["mean"] > 0)]
    measure = _MONEY if (judged["measure"] == _MONEY).any() else _HOURS
    running = judged[judged["measure"] == measure]
    parts = []
    for phase in tables.phases_of(running):
        rows = running[running["phase"] == phase]
        what, _, per = str(rows["unit"].iloc[0]).partition("/")
        label = f"{'host hours' if what == 'h' else what} per {per.replace('10^6', 'million')}"
        parts.append((phase_title(phase), label, rows))
    yearly = judged[judged["measure"] == _YEAR]
    if len(yearly):
        label = str(yearly["unit"].iloc[0]).replace("/", " per ")
        parts.append(("keeping the full corpus", label, yearly))
    if not parts:
        return None
    drawn = pd.concat([rows for *_, rows in parts])
    names = varying_factors(drawn, tables.results.factors)
    printed = on_paper(drawn, names)
    many = len(printed) < len(drawn)
    axis = rows_axis(
        line_name(row, names)
        for _, group in lines_in(drawn, [])
        for row in records(group.sort_values(names) if names else group)
    )
    panels = []
    for heading, label, rows in parts:
        dots = []
        for _, group in lines_in(rows, []):
            for rank, (place, row) in enumerate(labelled(group)):
                look: dict[str, Any] = {"on": "both" if place in printed.index else "page"}
                look["rank"] = rank if many else -1
                name, words = line_name(row, names), f"{number(row['mean'])} {label}"
                cost = point(row["mean"], name, row, words, f"costs:{place}")
                dots.append(Series(name, [cost], "markers", row, **look))
        panels.append(Panel(heading, Axis(label), axis, dots))
    note = setting_note(printed, names) if many else ""
    return Chart(panels, tinted=True, lowest=many, note=note)
