"""Charts on the page: panels of Plotly traces and a layout.

A figure is a list of panels, each a plot of its own: the page puts them beside or below each other
by the width that there is. They are plain dicts, as Plotly's JavaScript takes them: its Python
classes would take longer to import than all the rest of a report. Besides Plotly's own keys a trace
has in its ``meta`` what the page chooses by:

- ``f``: the place of its level in each choice (`storewise.report.data.filters`), -1: not concerned;
- ``engine`` and ``rank``: of the settings of one engine in a panel the lowest rank is shown until
  all are asked for (-1: always shown);
- ``short`` and ``size``: what stands at the end of its line; ``aside``: it is of no engine;
- ``ref``: a published curve, shown or not as a whole; ``over``: the choice whose levels are the x
  values, -1: none.

``customdata`` names the source of each point (``table:row``), ``text`` is what hovering shows.
"""

from __future__ import annotations

import html
import re
from typing import Any, Literal

from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import all_of, number, some_of
from storewise.figures.chart import Axis, Chart, Panel, Point, Series, finite
from storewise.figures.style import DARK, LINES, engine_colour, look
from storewise.report.data.evidence import Evidence
from storewise.report.data.filters import Facets

#: Plotly's names of Matplotlib's markers.
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
    "8": "octagon",
    "*": "star",
    "d": "diamond-tall",
    "|": "line-ns-open",
}
#: Most panels of an interactive figure; choosing phases does not bring back those beyond it.
_MOST = 24
_SIDES: tuple[Literal["x"], Literal["y"]] = ("x", "y")
#: Lines over time of fewer points have markers.
_FEW = 20
#: Trials that a hover text names; the source tells all.
_NAMED = 3


def shown(chart: Chart) -> list[Panel]:
    """The panels of a chart on the page."""
    return chart.seen("page")[:_MOST]


def themed(svg: bytes) -> bytes:
    """A printed figure that takes the colours of a dark page where its reader has one: its ground
    becomes clear, and what could not be seen on a dark one gets another colour."""
    colours = {
        "#ffffff": "transparent",
        "#dddddd": "#3A424D",
        **{k.lower(): v for k, v in DARK.items()},
    }
    place = {colour: f"var(--c{number})" for number, colour in enumerate(colours)}
    text = re.sub(r"#[0-9a-fA-F]{6}", lambda m: place.get(m[0].lower(), m[0]), svg.decode())
    light = "".join(f"--c{n}:{colour};" for n, colour in enumerate(colours))
    dark = "".join(f"--c{n}:{colour};" for n, colour in enumerate(colours.values()))
    style = (
        f"<style>svg{{{light}}}text{{fill:{place['#000000']}}}"
        f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    )
    return text.replace("<defs>", f"{style}<defs>", 1).encode()


def summary(chart: Chart) -> str:
    """What is seen, in words, for those who cannot see it: the ends of each panel."""
    return " ".join(filter(None, (_in_words(chart, panel) for panel in shown(chart))))


def _in_words(chart: Chart, panel: Panel) -> str:
    points = [
        (value, series.name)
        for series in panel.shown("page")
        if not series.published
        for value in finite(p.x if panel.sideways else p.y for p in series.points)
    ]
    if not points:
        return ""
    high, low = max(points), min(points)
    names = list(dict.fromkeys(name for _, name in points))
    lines = all_of(names[:4]) if len(names) <= 4 else f"{', '.join(names[:3])} and others"
    axis = _axis(chart, panel, "x" if panel.sideways else "y")["title"]["text"]
    return (
        f"{panel.title}: {axis} of {lines}; from {number(low[0])} ({low[1]}) to "
        f"{number(high[0])} ({high[1]})."
    )


def _axis(chart: Chart, panel: Panel, side: Literal["x", "y"]) -> dict[str, Any]:
    """An axis as Plotly takes it."""
    axis: Axis = getattr(panel, side)
    if axis.scale == "category":
        if panel.sideways:
            return {"type": "category", "autorange": "reversed"}
        order = {"categoryorder": "array", "categoryarray": axis.levels}
        return {"title": {"text": axis.label}, "type": "category", **order}
    # Bars begin at 0, which a logarithmic axis does not have.
    bars = any(series.mode == "bars" for series in panel.series)
    values = [] if bars else chart.values(panel, side, "page")
    layout: dict[str, Any] = {"title": {"text": axis.title(values)}, "type": "linear"}
    if axis.logarithmic(values):
        layout["type"] = "log"
    elif not axis.levels:
        layout["rangemode"] = "tozero"
    if axis.levels:
        layout |= {"tickvals": axis.levels, "ticktext": axis.texts}
    peers = [getattr(one, side) for one in chart.peers(panel, side, "page")]
    tops = [one.top for one in peers if one.top is not None]
    if tops:
        layout["range"] = [0, max(tops)]
    if axis.unit:
        # A unit that has a prefix already gets no second one at its ticks.
        layout["exponentformat"] = "none"
    return layout


class Graphs:
    """The figures of one page, with what they share: evidence and choices."""

    def __init__(self, evidence: Evidence, facets: Facets) -> None:
        self._evidence = evidence
        self._facets = facets

    def payload(self, chart: Chart) -> dict[str, Any]:
        """A chart as the page's script takes it."""
        return {
            "lowest": chart.lowest,
            "time": chart.time,
            "note": chart.note,
            "panels": [self._panel(chart, panel) for panel in shown(chart)],
        }

    def _panel(self, chart: Chart, panel: Panel) -> dict[str, Any]:
        data = [self._trace(series, panel) for series in panel.shown("page")]
        layout: dict[str, Any] = {f"{side}axis": _axis(chart, panel, side) for side in _SIDES}
        if panel.warmup:
            layout["shapes"] = [_band(panel.warmup)]
        # Of a plot with a row per setting: how many, which is how high it must be.
        rows = len(data) if panel.sideways else 0
        # Axes of one measure have one scale: the first panel that has it is its name.
        share = {
            side: chart.panels.index(chart.peers(panel, side, "page")[0])
            for side in _SIDES
            if getattr(panel, side).scale != "category"
        }
        made = {"title": panel.title, "data": data, "layout": layout, "rows": rows}
        return {**made, "share": share}

    def _trace(self, series: Series, panel: Panel) -> dict[str, Any]:
        points = series.points
        engine = series.like or series.engine
        colour = series.colour or engine_colour(engine)
        symbol = SYMBOLS[series.marker or look(engine).marker]
        if series.published:
            symbol = "circle-open"
        hollow = [f"{symbol}-open" if p.hollow or p.unsure else symbol for p in points]
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines" if series.mode == "across" else series.mode,
            "name": series.name,
            "x": [point.x for point in points],
            "y": [point.y for point in points],
            "line": {"color": colour, "dash": LINES[series.dash % len(LINES)], "width": 2},
            "marker": {
                "color": colour,
                "symbol": hollow if len(set(hollow)) > 1 else (*hollow, symbol)[0],
                "size": 14 if series.marker == "|" else 8,
            },
            "meta": {
                "f": self._facets.of(series.record),
                "engine": series.engine,
                "rank": series.rank,
                "short": series.name if series.legend is None else series.legend,
                "size": series.size,
                "aside": bool(series.colour),
                "ref": series.published,
                "over": self._facets.place(series.over),
            },
        }
        if series.note:
            # A line of one second would not be seen.
            trace["mode"] = "lines+markers" if len(points) < _FEW else "lines"
            rate = panel.y.label.replace(" per second", "/s")
            trace["hoverinfo"] = "all"
            trace["hovertemplate"] = (
                f"%{{y:,.3~s}} {rate} in second %{{x:.0f}}<br>{series.note}"
                "<extra>%{fullData.name}</extra>"
            )
        else:
            trace["hoverinfo"] = "text"
            trace["text"] = [self._hover(series.name, point, panel) for point in points]
            trace["customdata"] = [point.source for point in points]
        errors = _errors(series, panel.sideways, colour)
        if series.mode == "bars":
            for key in ("mode", "line"):
                del trace[key]
            trace |= {"type": "bar", "orientation": "h", "textposition": "none"}
            trace["marker"] = {"color": colour}
            if any(point.unsure for point in points):
                trace["marker"]["pattern"] = {"shape": "/"}
            if errors and not (errors["array"][0] or errors["arrayminus"][0]):
                errors = None
        if errors:
            trace["error_x" if panel.sideways else "error_y"] = errors
        return trace

    def _hover(self, name: str, point: Point, panel: Panel) -> str:
        """Name, value, interval, n and trials of a point; markup in names stays text."""
        row = point.row
        lines = [f"<b>{html.escape(name)}</b>", *html.escape(point.words).split("\n")]
        if point.low is not None and point.high is not None and point.high > point.low:
            unit = f" {panel.y.unit}" if panel.y.unit else ""
            which = {"pooled": ", spread of all settings", "seconds": ", seconds of one run"}
            lines.append(
                f"95 % interval {number(point.low)} to {number(point.high)}{unit}"
                f"{which.get(str(row.get('resampled', '')), '')}"
                f"{': not measured well enough' if point.unsure else ''}"
            )
        elif "low" in row:
            counted = row.get("resampled") == "counted"
            lines.append("counted, not timed" if counted else "no interval")
        if not missing(row.get("n")):
            lines.append(f"n = {int(row['n'])}")
        trials = self._evidence.names_of(point.source.split(":")[0], row)
        if trials:
            one = "trial" if len(trials) == 1 else "trials"
            lines.append(html.escape(f"{one} {some_of(trials, _NAMED)}"))
        return "<br>".join(lines)


def _errors(series: Series, sideways: bool, colour: str) -> dict[str, Any] | None:
    """Intervals as Plotly takes them; None where no point has one."""
    if not series.intervals:
        return None
    ends = [(p.x if sideways else p.y, *(p.ends or (None, None))) for p in series.points]
    return {
        "type": "data",
        "symmetric": False,
        "array": [None if high is None else max(0.0, high - at) for at, _, high in ends],
        "arrayminus": [None if low is None else max(0.0, at - low) for at, low, _ in ends],
        # In a bar's own colour it could not be seen: the page gives it that of its text.
        "color": "#000000" if series.mode == "bars" else colour,
        "thickness": 1.2,
        "width": 4,
    }


def _band(end: float) -> dict[str, Any]:
    """Shaded seconds of warm-up."""
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": 0,
        "x1": end,
        "y0": 0,
        "y1": 1,
        "fillcolor": "rgba(128,128,128,0.2)",
        "line": {"width": 0},
        "layer": "below",
    }
