"""Published curves over measured ones: shapes only, for the hardware is another."""

from __future__ import annotations

import math

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import grouped, records
from storewise.analysis.common.text import level, number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.selection import labelled
from storewise.figures.style import DASHED, DOTTED, GREY, SOLID

_LABELS = {
    "clients": "clients",
    "workers": "worker hosts",
    "nodes": "data nodes",
    "processes": "client processes",
    "operations": "operations",
    "selectivity_pct": "selectivity in %",
}


def published(tables: Tables) -> Chart | None:
    """A panel per published series: each curve as a multiple of its own value at one level.

    Dashed lines with hollow markers are published, full lines measured. Where a series was
    published for several settings, the one with the most measured levels is drawn.
    """
    groups = [
        one_setting(group) for _, group in grouped(tables.reference_curves, ["reference", "series"])
    ]
    if not groups:
        return None
    names = ", ".join(dict.fromkeys(str(group["reference"].iloc[0]) for group in groups))
    note = f"{names}: published on other hardware, so only shapes compare"
    return Chart([_panel(group) for group in groups], note)


def one_setting(group: pd.DataFrame) -> pd.DataFrame:
    """The published curves of one setting, and all measured ones that stand beside them."""
    counts = group[group["source"] == "measured"]["fixed"].value_counts()
    # The last of equals: the largest amount of work, where settings are amounts.
    settings = list(dict.fromkeys(group[group["source"] == "published"]["fixed"]))
    chosen = max(reversed(settings), key=lambda setting: int(counts.get(setting, 0)))
    kept: pd.DataFrame = group[group["fixed"] == chosen]
    return kept


def _panel(curves: pd.DataFrame) -> Panel:
    measured = records(curves[curves["source"] == "measured"])
    engines = {str(row["system"]): str(row["engine"]) for row in reversed(measured)}
    fixed = str(curves["fixed"].iloc[0])
    lines = []
    for (source, system, engine, setting), group in grouped(
        curves, ["source", "system", "engine", "setting"]
    ):
        here = source == "measured"
        name = f"published: {system}"
        if here:
            more = str(setting or "").removeprefix(fixed).strip(", ")
            name = f"here: {title(str(engine))}" + (f" ({more})" if more else "")
        points = []
        for label, row in labelled(group.sort_values("x")):
            if math.isfinite(row["relative"]):
                words = f"{number(row['relative'])} times the value at {level(row['base'])}"
                words += f" ({number(row['value'])} {row['unit']})"
                place = f"reference_curves:{label}"
                points.append(
                    Point(row["x"], row["relative"], words=words, source=place, hollow=not here)
                )
        # A published curve has the looks of what stands beside it here.
        beside = engine if here else engines.get(str(system))
        lines.append(Series(name, points, engine=str(beside or ""), dash=SOLID if here else DASHED))
    one = [Point(curves["x"].min(), 1.0, words="the same")]
    lines.append(Series("", one, "level", colour=GREY, dash=DOTTED))
    first = curves.iloc[0]
    heading = f"{first['title']} ({fixed})" if fixed else str(first["title"])
    bases = {level(float(base)) for base in curves["base"]}
    words = f"value over that at {bases.pop()}" if len(bases) == 1 else "value over its first"
    x = Axis(_LABELS.get(str(first["x_name"]), str(first["x_name"])))
    return Panel(heading, x, Axis(words), lines)
