"""Published curves over measured ones: only shapes compare, because the hardware differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import grouped
from storewise.analysis.common.text import level, number
from storewise.analysis.model.tables import Tables
from storewise.figures.chart import Axis, Chart, Panel, Point, Series
from storewise.figures.selection import points_of
from storewise.figures.style import DASHED, DOTTED, GREY, SOLID

_LABELS = {
    "workers": "worker hosts",
    "nodes": "data nodes",
    "processes": "client processes",
    "selectivity_pct": "selectivity in %",
}


def published(tables: Tables) -> Chart | None:
    """A panel per published series; each curve is divided by its own value at one level.

    Dashed lines with hollow markers are published, full lines measured. If a series was published
    for several settings, the one with the most measured levels is drawn.
    """
    curves = tables.reference_curves
    if curves.empty:
        return None
    names = ", ".join(curves["reference"].unique())
    note = f"{names}: published on other hardware, so only shapes compare"
    groups = grouped(curves, ["reference", "series"])
    return Chart([_panel(one_setting(group)) for _, group in groups], note)


def one_setting(group: pd.DataFrame) -> pd.DataFrame:
    """The published curves of one setting, and the measured curves with the same setting."""
    measured = group["source"] == "measured"
    # Of equal counts the last setting: the largest one, if settings are amounts of work.
    settings = group[~measured]["fixed"].unique()[::-1]
    counts = group[measured]["fixed"].value_counts().reindex(settings, fill_value=0)
    return group[group["fixed"] == counts.idxmax()]


def _panel(curves: pd.DataFrame) -> Panel:
    measured = curves[curves["source"] == "measured"].drop_duplicates("system")
    # A published curve has the colour and marker of the engine that is compared with it.
    engines = dict(zip(measured["system"], measured["engine"], strict=True))
    first = curves.iloc[0]
    lines = []
    keys = ["source", "system", "engine", "setting"]
    for (source, system, engine, setting), group in grouped(curves, keys):
        is_measured = source == "measured"
        name = f"published: {system}"
        if is_measured:
            more = str(setting or "").removeprefix(first["fixed"]).strip(", ")
            name = f"here: {title(engine)}" + (f" ({more})" if more else "")
        rows = group[np.isfinite(group["relative"])].sort_values("x").assign(hollow=not is_measured)
        points = points_of(rows, "x", "relative", _words, "reference_curves")
        engine = engine if is_measured else engines.get(system, "")
        lines.append(Series(name, points, engine=engine, dash=SOLID if is_measured else DASHED))
    lines.append(Series("", [Point(0, 1.0, words="the same")], "level", colour=GREY, dash=DOTTED))
    bases = set(map(level, curves["base"].astype(float)))
    words = f"value over that at {bases.pop()}" if len(bases) == 1 else "value over its first"
    heading = f"{first['title']} ({first['fixed']})" if first["fixed"] else first["title"]
    x = Axis(_LABELS.get(first["x_name"], first["x_name"]))
    return Panel(heading, x, Axis(words), lines)


def _words(row: Mapping[str, Any]) -> str:
    words = f"{number(row['relative'])} times the value at {level(row['base'])}"
    return f"{words} ({number(row['value'])} {row['unit']})"
