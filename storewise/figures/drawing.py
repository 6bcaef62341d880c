"""Charts as pictures, by Matplotlib: each panel is a part (a subfigure) of one picture. The files
have the picture as a whole, the page has its parts, which stand beside or below each other.

Equal charts give identical bytes. Margins are computed from the lengths of texts, not by
Matplotlib's layout, which would take ten times as long.
"""

from __future__ import annotations

import io
import json
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from matplotlib.transforms import ScaledTranslation

from storewise.figures.chart import Chart, Panel, Point, Series
from storewise.figures.style import GRID, INK, LINES, look, themed

#: Width of a panel in points (1/72 inch): 400 pixels, which fit on a phone.
WIDTH = 300.0
#: Height of a plot without rows, height of a line of text, and margin, in points.
_HEIGHT, _LINE, _ROOM = 165.0, 12.0, 8.0
#: Width of a character in points; most characters per line of a row's name, and of a title.
_SIGN, _NAME, _TITLE = 5.3, 19, 46
#: An axis is logarithmic if its largest value is more than this many times the smallest.
_LOG_RATIO = 20
_HOLLOW = "Hollow: not measured well enough (an interval of more than a factor of ten)."
#: Dots per inch of PNG files.
_DPI = 160
_SVG, _HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
_RC = {
    "font.family": "sans-serif",
    # Verdana is as wide as DejaVu Sans, for readers of an SVG who have no DejaVu.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "svg.fonttype": "none",
    # Dollar signs in names do not begin a formula.
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn figure; `parts` are the SVG of its legend, then of each panel."""

    png: bytes
    svg: str
    parts: Sequence[str] = ()


def styled(name: str) -> AbstractContextManager[None]:
    """The style of all figures. `name` makes a figure's SVG ids unique and reproducible."""
    return mpl.rc_context({**_RC, "svg.hashsalt": name})


def draw(chart: Chart, name: str) -> Picture:
    """A picture of the legend, if there is one, and of the panels in rows of up to three."""
    panels, signs, note = chart.panels, _signs(chart), _note(chart)
    places = range(len(panels))
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rooms = [_room(panel) for panel in panels]
    heights = [
        max(room.top + room.plot + room.bottom for room in rooms[at : at + columns])
        for at in places[::columns]
    ]
    # The number of names that fit into the width of a panel.
    beside = int(WIDTH // (max(map(len, signs), default=1) * _SIGN + 38)) or 1
    lines = len(note) + 1.15 * math.ceil(len(signs) / beside)
    heights.insert(0, _ROOM + _LINE * lines)
    with styled(name):
        figure = Figure(figsize=(columns * WIDTH / 72, sum(heights) / 72))
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        legend = figure.add_subfigure(grid[0, 0])
        legend.legend(
            list(signs.values()),
            [textwrap.shorten(one, 60) for one in signs],
            title="\n".join(note),
            loc="upper left",
            alignment="left",
            ncols=beside,
            frameon=False,
            fontsize=8.5,
            title_fontsize=8.5,
            borderaxespad=0.2,
            borderpad=0.1,
            labelspacing=0.35,
            columnspacing=1.2,
        )
        parts = [figure.add_subfigure(grid[1 + n // columns, n % columns]) for n in places]
        plots = [_plot(*of) for of in zip(parts, panels, rooms, strict=True)]
        for panel, axes in zip(panels, plots, strict=True):
            for side in ("x",) if panel.rows else ("x", "y"):
                _scale(chart, plots, panel, axes, side)
        return picture_of(figure, [legend, *parts])


def picture_of(figure: Figure, parts: Sequence[SubFigure] = ()) -> Picture:
    """A figure as PNG and SVG, and its parts as SVG. A link in the figure is JSON: [tooltip,
    source]."""
    for place, part in enumerate(parts):
        part.set_gid(f"part-{place}")
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=_DPI)
    figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(svg.getvalue())
    for link in root.iter(f"{_SVG}a"):
        tooltip, source = json.loads(link.attrib[_HREF])
        link.attrib.clear()
        if source:
            table = source.partition(":")[0]
            link.attrib.update({"href": f"../analysis/{table}.csv", "data-source": source})
        title = ElementTree.Element(f"{_SVG}title")
        title.text = tooltip
        link.insert(0, title)
    ElementTree.indent(root, "")
    groups = {group.attrib.pop("id", ""): group for group in root.iter(f"{_SVG}g")}
    # The first part has the clip paths of all parts; the page has unique ids.
    shared = [defs for defs in root.iter(f"{_SVG}defs") if defs.find(f"{_SVG}clipPath") is not None]
    texts = []
    for place, part in enumerate(parts):
        box = part.bbox.transformed(figure.dpi_scale_trans.inverted())
        x, y = 72 * box.x0, 72 * (figure.get_figheight() - box.y1)
        width, height = 72 * box.width, 72 * box.height
        size = {"width": f"{width:g}", "height": f"{height:g}"}
        view = {"viewBox": f"{x:g} {y:g} {width:g} {height:g}"}
        element = ElementTree.Element(f"{_SVG}svg", size | view)
        element.extend([*(shared if place == 0 else []), groups[f"part-{place}"]])
        texts.append(ElementTree.tostring(element, encoding="unicode"))
    return Picture(png.getvalue(), ElementTree.tostring(root, encoding="unicode"), texts)


def for_page(svg: str) -> str:
    """The SVG of a part with the font and the colours (light or dark) of the page, and with links
    relative to the page."""
    page = {INK: "currentColor", "#FFFFFF": "var(--page)", GRID: "var(--line)"}

    def colour(match: re.Match[str]) -> str:
        text = match[0].upper()
        return page.get(text) or themed(text)

    svg = re.sub(r"#[0-9a-fA-F]{6}\b", colour, svg)
    svg = re.sub(r" font-family: [^;\"]*;", "", svg)
    return svg.replace('href="../', 'href="')


def _note(chart: Chart) -> list[str]:
    """Lines of text above the legend."""
    points = [point for panel in chart.panels for series in panel.series for point in series.points]
    hollow = _HOLLOW if any(point.unsure for point in points) else ""
    return textwrap.wrap(f"{chart.note} {hollow}".strip(), 56)


def _signs(chart: Chart) -> Mapping[str, Any]:
    """Name of a series -> its sign in the legend, except for names of rows."""
    signs: dict[str, Any] = {}
    for panel in chart.panels:
        for series in panel.series:
            if series.name and series.name not in panel.rows:
                signs.setdefault(series.name, _sign(series))
    return signs


def _sign(series: Series) -> Any:
    colour, marker = _looks(series)
    if series.mode in ("bars", "area"):
        return Patch(facecolor=colour)
    return Line2D(
        [], [],
        color=colour,
        ls="none" if series.mode == "markers" else LINES[series.dash % len(LINES)],
        marker="" if series.mode == "level" else marker,
        markerfacecolor="#FFFFFF" if all(point.hollow for point in series.points) else colour,
    )  # fmt: skip


def _looks(series: Series) -> tuple[str, str]:
    """(colour, marker) of a series."""
    of_engine = look(series.engine)
    return series.colour or of_engine.colour, series.marker or of_engine.marker


class _Room(NamedTuple):
    """Sizes of a panel in points: margin left of the plot, above it, its height, margin below."""

    left: float
    top: float
    plot: float
    bottom: float


def _room(panel: Panel) -> _Room:
    """The sizes that the texts of a panel need."""
    names = [line for name in panel.rows for line in textwrap.wrap(name, _NAME)]
    top = _ROOM + 1.1 * _LINE * len(textwrap.wrap(panel.title, _TITLE))
    label = f"{panel.x.label} (log)" if panel.x.scale == "value" else panel.x.label
    bottom = 18 + _LINE * len(textwrap.wrap(label, _TITLE - 6))
    if names:
        lines = max(len(textwrap.wrap(name, _NAME)) for name in panel.rows)
        plot = len(panel.rows) * (_LINE * lines + 6) + 6
        return _Room(_SIGN * max(map(len, names)) + _ROOM, top, plot, bottom)
    low = any(series.mode == "area" for series in panel.series)
    return _Room(50, top, 0.6 * _HEIGHT if low else _HEIGHT, bottom)


def _plot(part: SubFigure, panel: Panel, room: _Room) -> Axes:
    """Add the axes of a panel and draw its series, without scales."""
    wide, high = WIDTH - room.left - 12, 72 * part.bbox.height / part.dpi
    place = (room.left / WIDTH, 1 - (room.top + room.plot) / high, wide / WIDTH, room.plot / high)
    axes = part.add_axes(place)
    title = textwrap.fill(panel.title, _TITLE)
    part.text(3 / WIDTH, 1 - 4 / high, title, va="top", fontsize=9.5, fontweight="bold")
    if panel.rows:
        names = [textwrap.fill(name, _NAME) for name in panel.rows]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
    else:
        axes.yaxis.set_label_coords((3 - room.left) / wide, 0.5)
        axes.yaxis.label.set_verticalalignment("top")
    below: dict[float, float] = {}
    several = [s for s in panel.series if any(point.ends for point in s.points)]
    for series in panel.series:
        # Intervals of several lines at one level are drawn beside each other.
        shifted = series in several and panel.x.levels
        aside = 3 * (several.index(series) - (len(several) - 1) / 2) if shifted else 0.0
        _draw(axes, panel, series, below, aside)
    return axes


def _draw(
    axes: Axes, panel: Panel, series: Series, below: dict[float, float], aside: float
) -> None:
    """Draw a series in its panel. `below` maps row or second to the start of the next stacked bar
    or area, and is updated; `aside` shifts a series to the right, in points."""
    points, (colour, marker) = series.points, _looks(series)
    dash = LINES[series.dash % len(LINES)]
    xs = [point.x for point in points]
    ys = [panel.rows.index(point.y) for point in points] if panel.rows else [p.y for p in points]
    links = [
        json.dumps(["\n".join(filter(None, [series.name, point.words])), point.source])
        for point in points
    ]
    if series.mode == "level":
        line = axes.axvline(xs[0]) if panel.rows else axes.axhline(ys[0])
        line.set(color=colour, ls=dash, lw=1.2, url=links[0])
    elif series.mode == "lines":
        axes.plot(xs, ys, color=colour, ls=dash, lw=1, url=links[0])
    elif series.mode == "area":
        base = np.array([below.get(x, 0.0) for x in xs])
        edges = [*xs, 2 * xs[-1] - xs[-2]]
        axes.stairs(base + ys, edges, baseline=base, fill=True, fc=colour, url=links[0])
        below.update(zip(xs, base + ys, strict=True))
    elif series.mode == "bars":
        base = np.array([below.get(y, 0.0) for y in ys])
        for bar, link in zip(axes.barh(ys, xs, 0.7, left=base, color=colour), links, strict=True):
            bar.set_url(link)
        below.update(zip(ys, base + xs, strict=True))
        _whiskers(axes, panel, points, xs, ys, ecolor=INK)
    else:
        moved = ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
        place: dict[str, Any] = {"transform": axes.transData + moved}
        axes.update_datalim(list(zip(xs, ys, strict=True)))
        if series.mode == "lines+markers":
            axes.plot(xs, ys, color=colour, ls=dash, lw=1.6, **place)
        _whiskers(axes, panel, points, xs, ys, ecolor=colour, **place)
        faces: dict[str, Any] = {"color": colour}
        if marker not in ("|", "."):
            inside = ["#FFFFFF" if one.hollow or one.unsure else colour for one in points]
            faces = {"facecolors": inside, "edgecolors": colour, "linewidths": 1.2}
        size = {"|": 90, ".": 25}.get(marker, 32)
        dots = axes.scatter(xs, ys, size, marker=marker, zorder=3, clip_on=False, **faces, **place)
        dots.set_urls(links)


def _whiskers(
    axes: Axes, panel: Panel, points: Sequence[Point], xs: Any, ys: Any, **look: Any
) -> None:
    """Draw the intervals of the points that have one."""
    ends = np.array([point.ends or (np.nan, np.nan) for point in points]).T
    if np.isfinite(ends).any():
        values = np.array(xs if panel.rows else ys)
        lengths = np.clip([values - ends[0], ends[1] - values], 0, None)
        for end in ends:
            axes.update_datalim(np.column_stack([end, ys] if panel.rows else [xs, end]))
        errors = {"xerr" if panel.rows else "yerr": lengths}
        axes.errorbar(xs, ys, **errors, fmt="none", capsize=3, elinewidth=1.1, **look)


def _scale(chart: Chart, plots: Sequence[Axes], panel: Panel, axes: Axes, side: str) -> None:
    """Set scale, range, ticks and label of an axis, ``x`` or ``y``. Panels with the same label have
    the same scale, so that they can be compared."""
    spec, axis = getattr(panel, side), getattr(axes, f"{side}axis")
    limits = [
        plot.dataLim
        for one, plot in zip(chart.panels, plots, strict=True)
        if getattr(one, side).label == spec.label
    ]
    low = min(getattr(one, f"minpos{side}") for one in limits)
    high = max(getattr(one, f"interval{side}")[1] for one in limits)
    log = spec.scale == "log" or (spec.scale == "value" and high > _LOG_RATIO * low)
    label = f"{spec.label} (log)" if log and not spec.levels else spec.label
    axis.set_label_text(textwrap.fill(label, _TITLE - 6 if side == "x" else 34))
    if log:
        getattr(axes, f"set_{side}scale")("log")
    if spec.levels:
        low, high = spec.levels[0], spec.levels[-1]
        room = (high / low) ** 0.07 if log else 0.07 * (high - low) or 1
        ends = (low / room, high * room) if log else (low - room, high + room)
        axis.set_minor_locator(NullLocator())
        axis.set_major_locator(FixedLocator(spec.levels, nbins=9))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        if spec.texts:
            axis.set_ticks(spec.levels, spec.texts)
    elif log:
        ends = (low / 1.25, high * 1.25)
        # Powers of ten alone would be one or two ticks.
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(tick))
    else:
        ends = (0, spec.top or (1.05 * high if high > 0 and math.isfinite(high) else 1))
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(tick))
    getattr(axes, f"set_{side}lim")(*ends)


def tick(value: float, _: Any = None) -> str:
    """A number as people write it: ``2.5 k``."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {letter}"
    return f"{value:.4g}"
