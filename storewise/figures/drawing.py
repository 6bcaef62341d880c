"""Charts as pictures, by Matplotlib: each panel is a part (a subfigure) of one picture. The files
have the picture as a whole, the page has its parts, which stand beside or below each other.

Everything is the same byte for byte for the same chart. Margins are counted from the texts, not
laid out: all panels of a chart get the same, in a tenth of the time.
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

#: Of a panel, in points (1/72 inch): 400 pixels, which a phone shows without making it smaller.
WIDTH = 300.0
#: Of the plot in a panel without rows, of a line of text, and of the room around it.
_HEIGHT, _LINE, _ROOM = 165.0, 12.0, 8.0
#: A sign's width, and most signs of a row's name, and of a title or label in a line.
_SIGN, _NAME, _TITLE = 5.3, 19, 46
#: Ratio of the greatest to the least value from which on an axis is logarithmic.
_FAR = 20
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
    # A name with a dollar sign is no formula.
    "text.parse_math": False,
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as drawn; `parts` are its legend and then its panels, as SVG."""

    png: bytes
    svg: str
    parts: Sequence[str] = ()


def styled(name: str) -> AbstractContextManager[None]:
    """Figures as here; `name` keeps the ids of two on one page apart, and the same in each run."""
    return mpl.rc_context({**_RC, "svg.hashsalt": name})


def draw(chart: Chart, name: str) -> Picture:
    """The legend, where there is something in it, then the panels in rows of up to three."""
    panels, signs, note = chart.panels, _signs(chart), _note(chart)
    places = range(len(panels))
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rooms = [_room(panel) for panel in panels]
    heights = [
        max(room.top + room.plot + room.bottom for room in rooms[at : at + columns])
        for at in places[::columns]
    ]
    # Most names that fit beside each other in the width of a panel.
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
    """A figure as PNG and as SVG, and its parts as SVG. Links of the figure are JSON of [what the
    place says, its source]."""
    for place, part in enumerate(parts):
        part.set_gid(f"part-{place}")
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=_DPI)
    figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(svg.getvalue())
    for link in root.iter(f"{_SVG}a"):
        words, source = json.loads(link.attrib[_HREF])
        link.attrib.clear()
        if source:
            table = source.partition(":")[0]
            link.attrib.update({"href": f"../analysis/{table}.csv", "data-source": source})
        title = ElementTree.Element(f"{_SVG}title")
        title.text = words
        link.insert(0, title)
    ElementTree.indent(root, "")
    groups = {group.attrib.pop("id", ""): group for group in root.iter(f"{_SVG}g")}
    # The parts of a page share what is defined once: the first has the areas that are drawn on.
    shared = [one for one in root.iter(f"{_SVG}defs") if one.find(f"{_SVG}clipPath") is not None]
    texts = []
    for place, part in enumerate(parts):
        box = part.bbox.transformed(figure.dpi_scale_trans.inverted())
        x, y = 72 * box.x0, 72 * (figure.get_figheight() - box.y1)
        width, height = 72 * box.width, 72 * box.height
        size = {"width": f"{width:g}", "height": f"{height:g}"}
        view = {"viewBox": f"{x:g} {y:g} {width:g} {height:g}"}
        own = ElementTree.Element(f"{_SVG}svg", size | view)
        own.extend([*(shared if place == 0 else []), groups[f"part-{place}"]])
        texts.append(ElementTree.tostring(own, encoding="unicode"))
    return Picture(png.getvalue(), ElementTree.tostring(root, encoding="unicode"), texts)


def for_page(svg: str) -> str:
    """A part as the page has it: its font is the page's, as are its colours, light or dark, and its
    links lead from the page."""
    page = {INK: "currentColor", "#FFFFFF": "var(--page)", GRID: "var(--line)"}

    def colour(match: re.Match[str]) -> str:
        text = match[0].upper()
        return page.get(text) or themed(text)

    svg = re.sub(r"#[0-9a-fA-F]{6}\b", colour, svg)
    svg = re.sub(r" font-family: [^;\"]*;", "", svg)
    return svg.replace('href="../', 'href="')


def _note(chart: Chart) -> list[str]:
    """The lines of text above the legend."""
    points = [point for panel in chart.panels for one in panel.series for point in one.points]
    hollow = _HOLLOW if any(point.unsure for point in points) else ""
    return textwrap.wrap(f"{chart.note} {hollow}".strip(), 56)


def _signs(chart: Chart) -> Mapping[str, Any]:
    """Name -> its sign in the legend; names of rows stand beside their rows."""
    signs: dict[str, Any] = {}
    for panel in chart.panels:
        for one in panel.series:
            if one.name and one.name not in panel.rows:
                signs.setdefault(one.name, _sign(one))
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
    """Room of a panel, in points: left of the plot, above it, its height, and below it."""

    left: float
    top: float
    plot: float
    bottom: float


def _room(panel: Panel) -> _Room:
    """Space that the texts of a panel need."""
    names = [line for name in panel.rows for line in textwrap.wrap(name, _NAME)]
    top = _ROOM + 1.1 * _LINE * len(textwrap.wrap(panel.title, _TITLE))
    label = f"{panel.x.label} (log)" if panel.x.scale == "value" else panel.x.label
    bottom = 18 + _LINE * len(textwrap.wrap(label, _TITLE - 6))
    if names:
        most = max(len(textwrap.wrap(name, _NAME)) for name in panel.rows)
        plot = len(panel.rows) * (_LINE * most + 6) + 6
        return _Room(_SIGN * max(map(len, names)) + _ROOM, top, plot, bottom)
    low = any(one.mode == "area" for one in panel.series)
    return _Room(50, top, 0.6 * _HEIGHT if low else _HEIGHT, bottom)


def _plot(part: SubFigure, panel: Panel, room: _Room) -> Axes:
    """The plot of a panel without its scales."""
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
    several = [one for one in panel.series if any(point.ends for point in one.points)]
    for series in panel.series:
        # Intervals of several lines at one level stand beside each other.
        moved = series in several and panel.x.levels
        aside = 3 * (several.index(series) - (len(several) - 1) / 2) if moved else 0.0
        _draw(axes, panel, series, below, aside)
    return axes


def _draw(
    axes: Axes, panel: Panel, series: Series, below: dict[float, float], aside: float
) -> None:
    """Draw a series in its panel. `below` has where stacked bars (by row) and areas (by second)
    begin; `aside` shifts a series to the side, in points."""
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
    """The intervals of those points that have one."""
    ends = np.array([point.ends or (np.nan, np.nan) for point in points]).T
    if np.isfinite(ends).any():
        values = np.array(xs if panel.rows else ys)
        lengths = np.clip([values - ends[0], ends[1] - values], 0, None)
        for end in ends:
            axes.update_datalim(np.column_stack([end, ys] if panel.rows else [xs, end]))
        way = {"xerr" if panel.rows else "yerr": lengths}
        axes.errorbar(xs, ys, **way, fmt="none", capsize=3, elinewidth=1.1, **look)


def _scale(chart: Chart, plots: Sequence[Axes], panel: Panel, axes: Axes, side: str) -> None:
    """Scale, range, ticks and label of an axis, ``x`` or ``y``. All panels that show the same
    measure have one scale, so that they can be compared."""
    spec, axis = getattr(panel, side), getattr(axes, f"{side}axis")
    reach = [
        plot.dataLim
        for one, plot in zip(chart.panels, plots, strict=True)
        if getattr(one, side).label == spec.label
    ]
    low = min(getattr(one, f"minpos{side}") for one in reach)
    high = max(getattr(one, f"interval{side}")[1] for one in reach)
    log = spec.scale == "log" or (spec.scale == "value" and high > _FAR * low)
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
