"""What interactive figures are made of: panels of Plotly traces and a layout.

A figure is a list of panels, each a plot of its own: the page puts them beside or below each other
by the width that there is. They are plain dicts, as Plotly's JavaScript takes them: its Python
classes would take longer to import than all the rest of a report. Besides Plotly's own keys a trace
has in its ``meta`` what the page chooses by:

- ``f``: the place of its level in each choice (`storewise.report.data.filters`), -1: not concerned;
- ``engine`` and ``rank``: of the settings of one engine in a panel the lowest rank is shown until
  all are asked for (-1: always shown);
- ``ref``: a published curve, shown or not as a whole; ``over``: the choice whose levels are the x
  values, -1: none.

``customdata`` names the source of each point (``table:row``), ``text`` is what hovering tells.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from storewise.analysis.common.engines import title
from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import all_of, number, setting
from storewise.analysis.model.tables import Tables
from storewise.figures.selection import style_of
from storewise.figures.style import spread
from storewise.report.data.evidence import Evidence
from storewise.report.data.filters import Facets

#: Plotly's names of the markers of the printed figures, and of their line styles.
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "^": "triangle-up",
    "D": "diamond",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "<": "triangle-left",
    ">": "triangle-right",
    "p": "pentagon",
    "h": "hexagon",
    "*": "star",
}
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
#: Trials that a hover text names; the source tells all.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a figure."""

    title: str
    data: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]
    rows: int = 0
    """Of a plot with a line per setting: how many, which is how high it must be."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One interactive figure; `lowest`: of the settings of an engine the lowest is shown first;
    `time`: the x axes are seconds and are zoomed together."""

    panels: Sequence[Panel]
    lowest: bool = False
    time: bool = False

    def payload(self) -> dict[str, Any]:
        """As the page's script takes it."""
        return {
            "lowest": self.lowest,
            "time": self.time,
            "panels": [
                {"title": p.title, "data": p.data, "layout": p.layout, "rows": p.rows}
                for p in self.panels
            ],
        }

    def summary(self) -> str:
        """What is seen, in words, for those who cannot see it: the ends of each panel."""
        return " ".join(filter(None, map(_in_words, self.panels)))


def _in_words(panel: Panel) -> str:
    sideways = panel.rows > 0
    points = [
        (float(value), str(trace.get("name", "")))
        for trace in panel.data
        if not trace.get("meta", {}).get("ref")
        for value in trace["x" if sideways else "y"]
        if isinstance(value, int | float) and math.isfinite(value)
    ]
    if not points:
        return ""
    high, low = max(points), min(points)
    axis = panel.layout["xaxis" if sideways else "yaxis"]["title"]["text"]
    names = list(dict.fromkeys(name for _, name in points))
    shown = all_of(names[:4]) if len(names) <= 4 else f"{', '.join(names[:3])} and others"
    return (
        f"{panel.title}: {axis} of {shown}; from {number(low[0])} ({low[1]}) to "
        f"{number(high[0])} ({high[1]})."
    )


@dataclass(slots=True)
class Line:
    """Points of one line, as they are collected."""

    name: str
    record: Mapping[str, Any]
    x: list[Any] = field(default_factory=list)
    y: list[Any] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)

    def add(
        self,
        x: Any,
        y: Any,
        row: Mapping[str, Any] | None = None,
        text: str = "",
        source: str = "",
        scale: float = 1.0,
    ) -> None:
        """A point; its interval is that of `row` (`low`, `high`) times `scale`."""
        self.x.append(x)
        self.y.append(y)
        low, high = interval(row or {})
        self.low.append(None if low is None else low * scale)
        self.high.append(None if high is None else high * scale)
        self.text.append(text)
        self.source.append(source)


def interval(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The interval of a row, (None, None) where it has none."""
    low, high = row.get("low"), row.get("high")
    if missing(low) or missing(high) or row.get("resampled") == "none":
        return None, None
    low, high = float(low or 0.0), float(high or 0.0)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)


class Drawing:
    """What the figures of one page share: tables, evidence, choices, colours."""

    def __init__(self, tables: Tables, evidence: Evidence, facets: Facets) -> None:
        self.tables = tables
        self.evidence = evidence
        self.facets = facets
        self.style = style_of(tables)

    def line_name(self, row: Mapping[str, Any], names: Sequence[str]) -> str:
        """Engine and setting."""
        words = setting(row, names)
        name = title(str(row["engine"]))
        return f"{name}, {words}" if words else name

    def hover(
        self,
        name: str,
        row: Mapping[str, Any],
        csv: str,
        told: str,
        *,
        interval_of: str = "",
        scale: float = 1.0,
    ) -> str:
        """Name, value, interval, n and trials of a point; markup in names stays text."""
        lines = [f"<b>{html.escape(name)}</b>", html.escape(told)]
        low, high = interval(row)
        if low is not None and high is not None and high > low:
            basis = row.get("resampled", "")
            which = {"pooled": ", spread of all settings", "seconds": ", seconds of one run"}
            lines.append(
                f"95 % interval {number(low * scale)} to {number(high * scale)}{interval_of}"
                f"{which.get(str(basis), '')}"
            )
        elif "low" in row:
            lines.append(
                "counted, not timed" if row.get("resampled") == "counted" else "no interval"
            )
        if not missing(row.get("n")):
            lines.append(f"n = {int(row['n'])}")
        trials = self.evidence.names_of(csv, row)
        if trials:
            more = f" and {len(trials) - _NAMED} more" if len(trials) > _NAMED else ""
            one = "trial" if len(trials) == 1 else "trials"
            lines.append(html.escape(f"{one} {', '.join(trials[:_NAMED])}{more}"))
        return "<br>".join(lines)

    def trace(
        self,
        line: Line,
        *,
        mode: str = "lines+markers",
        dash: int = 0,
        rank: int = -1,
        over: str = "",
        sideways: bool = False,
        colour: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """A scatter trace of a line; errors are drawn where any of its points has an interval."""
        engine = str(line.record.get("engine", ""))
        colour = colour or self.style.colour(engine)
        values = line.x if sideways else line.y
        found: dict[str, Any] = {
            "type": "scatter",
            "mode": mode,
            "name": line.name,
            "x": line.x,
            "y": line.y,
            "text": line.text,
            "customdata": line.source,
            "hoverinfo": "text",
            "line": {"color": colour, "dash": DASHES[dash % len(DASHES)], "width": 2},
            "marker": {
                "color": colour,
                "symbol": SYMBOLS.get(self.style.marker(engine), "circle"),
                "size": 8,
            },
            "meta": {
                "f": self.facets.of(line.record),
                "engine": engine,
                "rank": rank,
                "ref": False,
                "over": self.facets.place(over),
            },
        }
        if any(low is not None for low in line.low):
            found["error_x" if sideways else "error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": [_gap(h, v) for h, v in zip(line.high, values, strict=True)],
                "arrayminus": [_gap(v, lo) for lo, v in zip(line.low, values, strict=True)],
                "color": colour,
                "thickness": 1.2,
                "width": 4,
            }
        found.update(more)
        return found


def _gap(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else max(0.0, high - low)


def value_axis(label: str, values: Sequence[Any]) -> dict[str, Any]:
    """An axis of positive values: logarithmic where they differ by more than a factor of 20."""
    known = [float(v) for v in values if not missing(v) and math.isfinite(float(v))]
    # A unit that has a prefix already gets no second one at its ticks.
    plain_ticks = {"exponentformat": "none"} if label.endswith((" ms", "seconds")) else {}
    if spread(known) and all(v > 0 for v in known):
        return {"title": {"text": f"{label} (logarithmic)"}, "type": "log", **plain_ticks}
    return {"title": {"text": label}, "type": "linear", "rangemode": "tozero", **plain_ticks}


def level_axis(label: str, levels: Sequence[Any]) -> dict[str, Any]:
    """An axis of a numeric factor's levels, which are its ticks; logarithmic where they span a
    factor of eight or more."""
    known = sorted({float(v) for v in levels if not missing(v)})
    axis: dict[str, Any] = {
        "title": {"text": label},
        "tickvals": known,
        "ticktext": [f"{v:,.4g}" for v in known],
        "type": "linear",
    }
    if known and known[0] > 0 and known[-1] / known[0] >= 8:
        axis["type"] = "log"
    return axis
