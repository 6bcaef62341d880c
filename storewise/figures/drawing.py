"""Charts as pictures, by Matplotlib: each panel a picture of its own, which the page puts beside or
below the others, and all of them together as one PNG and one SVG file.

Everything is the same byte for byte for the same chart. Margins are counted from the texts, not
laid out: all panels of a chart get the same, in a tenth of the time.
"""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import imsave
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from storewise.figures.chart import Axis, Chart, Panel, Point, Series, Side
from storewise.figures.style import GREY, GRID, INK, LINES, engine_colour, look, themed

#: Of a panel, in points (1/72 inch): 400 pixels, which a phone shows without making it smaller.
WIDTH = 300.0
#: Of the plot in a panel without rows, of a line of text, and of the room around it.
_HEIGHT, _LINE, _ROOM = 165.0, 12.0, 8.0
#: A sign's width, and most signs of a row's name and of a title in a line.
_SIGN, _NAME, _TITLE = 5.3, 19, 48
_HOLLOW = "Hollow: not measured well enough (an interval of more than a factor of ten)."
#: Of PNG files.
_DPI = 160
_SPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_RC = {
    "font.family": "sans-serif",
    # Verdana is as wide as DejaVu Sans, for readers of an SVG who have no DejaVu.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
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
    """A panel, or the legend, as drawn."""

    svg: str
    pixels: Any
    size: tuple[float, float]
    panel: bool = False


def styled(name: str) -> AbstractContextManager[None]:
    """Figures as here; `name` keeps the ids of two on one page apart, and the same in each run."""
    return mpl.rc_context({**_RC, "svg.hashsalt": name})


def draw(chart: Chart, name: str) -> list[Picture]:
    """The legend, where there is something in it, then a picture of each panel."""
    points = [point for panel in chart.panels for one in panel.series for point in one.points]
    if any(point.unsure for point in points):
        chart = replace(chart, note=f"{chart.note} {_HOLLOW}".strip())
    with styled(name):
        pictures = [_legend(chart)] if chart.note or _entries(chart) else []
        for place, panel in enumerate(chart.panels):
            mpl.rcParams["svg.hashsalt"] = f"{name}-{place}"
            pictures.append(_PanelDrawing(chart, panel).picture)
    return pictures


def to_png(pictures: Sequence[Picture]) -> bytes:
    """All pictures as one PNG file."""
    scale = _DPI / 72
    places, (width, height) = _arranged(pictures)
    sheet = np.full((math.ceil(height * scale), math.ceil(width * scale), 4), 255, np.uint8)
    for picture, (x, y) in zip(pictures, places, strict=True):
        top, left = round(y * scale), round(x * scale)
        part = sheet[top : top + len(picture.pixels), left : left + picture.pixels.shape[1]]
        part[:] = picture.pixels[: len(part), : part.shape[1]]
    buffer = io.BytesIO()
    imsave(buffer, sheet, format="png", dpi=_DPI)
    return buffer.getvalue()


def to_svg(pictures: Sequence[Picture]) -> str:
    """All pictures as one SVG file."""
    places, (width, height) = _arranged(pictures)
    inner = [
        one.svg.replace("<svg", f'<svg x="{x:g}" y="{y:g}"', 1)
        for one, (x, y) in zip(pictures, places, strict=True)
    ]
    size = f'width="{width:g}pt" height="{height:g}pt" viewBox="0 0 {width:g} {height:g}"'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    ground += "<style>*{stroke-linejoin:round;stroke-linecap:butt}</style>"
    return "\n".join([f"<svg {_SPACES} {size}>", ground, *inner, "</svg>\n"])


def for_page(svg: str) -> str:
    """A picture as the page has it: its colours are the page's, light or dark, and its links lead
    from the page."""
    page = {INK: "currentColor", "#FFFFFF": "var(--page)", GRID: "var(--line)"}

    def colour(match: re.Match[str]) -> str:
        text = match[0].upper()
        return page.get(text) or themed(text)

    svg = re.sub(r"#[0-9a-fA-F]{6}\b", colour, svg)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    return svg.replace('href="../', 'href="')


def _arranged(pictures: Sequence[Picture]) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """(place of each picture, size of all), in points: the legend above, the panels in rows."""
    heads = [one for one in pictures if not one.panel]
    panels = [one for one in pictures if one.panel]
    columns = len(panels) if len(panels) < 2 else 2 if len(panels) in (2, 4) else 3
    rows = [[one] for one in heads]
    rows += [panels[at : at + columns] for at in range(0, len(panels), columns or 1)]
    places, wide, y = [], 0.0, 0.0
    for row in rows:
        x = 0.0
        for one in row:
            places.append((x, y))
            x += one.size[0]
        wide, y = max(wide, x), y + max(one.size[1] for one in row)
    return places, (wide, y)


def _entries(chart: Chart) -> dict[str, Any]:
    """Name -> its sign in the legend, each name once."""
    entries: dict[str, Any] = {}
    for panel in chart.panels:
        for one in panel.series:
            own_row = any(point.y == one.name for point in one.points)
            if one.name and not own_row and one.name not in entries:
                entries[one.name] = _sign(one)
    return entries


def _sign(series: Series) -> Any:
    if series.mode in ("bars", "stack", "area"):
        return Patch(facecolor=_colour(series))
    joined = series.mode != "markers"
    marker = "" if series.mode == "level" else _marker(series)
    hollow = any(point.hollow for point in series.points) and all(p.hollow for p in series.points)
    return Line2D(
        [], [],
        color=_colour(series),
        ls=LINES[series.dash % len(LINES)] if joined else "none",
        marker=marker,
        markerfacecolor="#FFFFFF" if hollow else _colour(series),
    )  # fmt: skip


def _legend(chart: Chart) -> Picture:
    """The legend and the note of a chart."""
    entries = _entries(chart)
    longest = max(map(len, entries), default=1)
    columns = max(1, min(len(entries), int(WIDTH // (longest * _SIGN + 38))))
    note = textwrap.wrap(chart.note, 56)
    lines = math.ceil(len(entries) / columns) if entries else 0
    height = _ROOM + _LINE * len(note) + 1.25 * _LINE * lines
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    if note:
        figure.text(0.02, 1 - 3 / height, "\n".join(note), va="top", fontsize=8.5)
    if entries:
        names = [textwrap.shorten(one, 60) for one in entries]
        top = 1 - (2 + _LINE * len(note)) / height
        figure.legend(
            list(entries.values()),
            names,
            loc="upper left",
            bbox_to_anchor=(0, top),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            borderpad=0.1,
            labelspacing=0.35,
            columnspacing=1.2,
        )
    return picture_of(figure)


def picture_of(
    figure: Figure, said: Sequence[tuple[str, str]] = (), *, panel: bool = False
) -> Picture:
    """A figure as SVG and pixels. `said` are (words, source) of the places that a link names."""

    def link(match: re.Match[str]) -> str:
        words, source = said[int(match[1])]
        table = source.partition(":")[0]
        way = f' href="../analysis/{table}.csv" data-source="{source}"' if source else ""
        return f"<a{way}><title>{html.escape(words)}</title>"

    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    svg = buffer.getvalue().decode()
    svg = re.sub(r"<!--.*?-->\s*|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    # Beside others it is measured in the units of what is around it.
    svg = re.sub(r'="([\d.]+)pt"', r'="\1"', svg[svg.index("<svg") :])
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'<a xlink:href="(\d+)" target="_blank">', link, svg)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    figure.set_dpi(_DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    size = (72 * figure.get_figwidth(), 72 * figure.get_figheight())
    return Picture(svg, np.asarray(canvas.buffer_rgba()), size, panel)


def _colour(series: Series) -> str:
    return series.colour or (engine_colour(series.engine) if series.engine else GREY)


def _marker(series: Series) -> str:
    return series.marker or (look(series.engine).marker if series.engine else "o")


class _PanelDrawing:
    """One panel on its way to a picture."""

    def __init__(self, chart: Chart, panel: Panel) -> None:
        self.panel = panel
        self.said: list[tuple[str, str]] = []
        self.x_log = panel.x.logarithmic(chart.reach(panel, "x")) and not _from_zero(panel)
        self.y_log = panel.y.logarithmic(chart.reach(panel, "y"))
        self.figure, self.axes = self._frame()
        below: Any = 0.0
        for series in panel.series:
            if series.mode in ("bars", "stack"):
                below = self._bars(series, below)
            elif series.mode == "area":
                below = self._area(series, below)
            elif series.mode == "level":
                self._level(series)
            else:
                self._line(series)
        self._scale(panel.x, chart.reach(panel, "x"), self.x_log, "x")
        if not panel.sideways:
            self._scale(panel.y, chart.reach(panel, "y"), self.y_log, "y")
        self.picture = picture_of(self.figure, self.said, panel=True)

    def _frame(self) -> tuple[Figure, Any]:
        """The figure with its axes, title and labels: margins by their texts."""
        panel = self.panel
        names = [textwrap.fill(name, _NAME) for name in panel.y.levels if panel.sideways]
        title = textwrap.wrap(panel.title, _TITLE)
        x_label = f"{panel.x.label} (logarithmic)" if self.x_log and not panel.x.levels else ""
        below = textwrap.wrap(x_label or panel.x.label, _TITLE - 8)
        longest = max((len(line) for name in names for line in name.split("\n")), default=0)
        left = _SIGN * longest + _ROOM if names else 50.0
        top, bottom = _ROOM + 1.1 * _LINE * len(title), 18 + _LINE * len(below)
        lines = max((name.count("\n") + 1 for name in names), default=0)
        low = any(one.mode == "area" for one in panel.series)
        plot = len(names) * (_LINE * lines + 6) + 6 if names else 0.6 * _HEIGHT if low else _HEIGHT
        height = top + plot + bottom
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        wide = WIDTH - left - 12
        axes = figure.add_axes((left / WIDTH, bottom / height, wide / WIDTH, plot / height))
        figure.text(3 / WIDTH, 1 - 4 / height, "\n".join(title), va="top", fontweight="bold")
        axes.set_xlabel("\n".join(below))
        if names:
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.grid(visible=False, axis="y")
        else:
            y_label = f"{panel.y.label} (log.)" if self.y_log else panel.y.label
            axes.set_ylabel(textwrap.fill(y_label, 20 if low else 34), va="top")
            axes.yaxis.set_label_coords((3 - left) / wide, 0.5)
        return figure, axes

    def _mark(self, series: Series, point: Point) -> str:
        """The link of a point, which `picture_of` fills."""
        words = "\n".join(filter(None, [series.name, point.words]))
        self.said.append((words, point.source))
        return str(len(self.said) - 1)

    def _places(self, series: Series) -> tuple[list[Any], list[Any]]:
        """The coordinates of points as numbers."""
        xs, ys = [point.x for point in series.points], [point.y for point in series.points]
        return xs, [self.panel.y.levels.index(y) for y in ys] if self.panel.sideways else ys

    def _whiskers(self, series: Series, xs: list[Any], ys: list[Any], colour: str) -> None:
        way = "xerr" if self.panel.sideways else "yerr"
        for point, x, y in zip(series.points, xs, ys, strict=True):
            if point.ends:
                value, (low, high) = x if self.panel.sideways else y, point.ends
                ends = {way: [[max(0.0, value - low)], [max(0.0, high - value)]]}
                look = {"fmt": "none", "ecolor": colour, "capsize": 3, "elinewidth": 1.1}
                self.axes.errorbar([x], [y], **ends, **look)

    def _line(self, series: Series) -> None:
        xs, ys = self._places(series)
        colour, dash = _colour(series), LINES[series.dash % len(LINES)]
        marker, wide = _marker(series), 1.0 if series.mode == "lines" else 1.6
        if series.mode == "lines":
            (line,) = self.axes.plot(xs, ys, color=colour, ls=dash, lw=wide)
            line.set_url(self._mark(series, series.points[0]))
            return
        xs = self._aside(series, xs)
        if series.mode == "lines+markers":
            self.axes.plot(xs, ys, color=colour, ls=dash, lw=wide)
        self._whiskers(series, xs, ys, colour)
        look: dict[str, Any] = {"color": colour}
        if marker not in ("|", "."):
            hollow = [one.hollow or one.unsure for one in series.points]
            faces = ["#FFFFFF" if empty else colour for empty in hollow]
            look = {"facecolors": faces, "edgecolors": colour, "linewidths": 1.2}
        size = {"|": 90, ".": 25}.get(marker, 32)
        dots = self.axes.scatter(xs, ys, size, marker=marker, zorder=3, clip_on=False, **look)
        dots.set_urls([self._mark(series, point) for point in series.points])

    def _aside(self, series: Series, xs: list[Any]) -> list[Any]:
        """Places of points, moved a little so that the intervals of several lines at one level are
        seen."""
        lines = [one for one in self.panel.series if any(point.ends for point in one.points)]
        levels = self.panel.x.levels
        if not levels or series not in lines:
            return xs
        share = min(0.01, 0.06 / len(lines)) * (lines.index(series) - (len(lines) - 1) / 2)
        if self.x_log:
            return [x * (levels[-1] / levels[0]) ** share for x in xs]
        return [x + share * (levels[-1] - levels[0]) for x in xs]

    def _level(self, series: Series) -> None:
        point = series.points[0]
        look = {"color": _colour(series), "ls": LINES[series.dash % len(LINES)], "lw": 1.2}
        line = self.axes.axvline if self.panel.sideways else self.axes.axhline
        drawn = line(point.x if self.panel.sideways else point.y, **look)
        drawn.set_url(self._mark(series, point))

    def _bars(self, series: Series, below: Any) -> Any:
        """Bars of rows; where they are stacked they begin at `below`, and their ends are given
        back."""
        xs, ys = self._places(series)
        left = below if series.mode == "stack" else 0.0
        bars = self.axes.barh(ys, xs, 0.7, left=left, color=_colour(series))
        for patch, point in zip(bars, series.points, strict=True):
            patch.set_url(self._mark(series, point))
        self._whiskers(series, xs, ys, INK)
        return left + np.array(xs)

    def _area(self, series: Series, below: Any) -> Any:
        """Means over equal times as an area on `below`; its top is given back."""
        xs, ys = self._places(series)
        base = np.broadcast_to(below, len(ys))
        look = {"baseline": base, "fill": True, "facecolor": _colour(series)}
        steps = self.axes.stairs(base + ys, [*xs, 2 * xs[-1] - xs[-2]], **look)
        steps.set_url(self._mark(series, Point(None, None)))
        return base + ys

    def _scale(self, spec: Axis, reach: Sequence[float], logarithmic: bool, side: Side) -> None:
        """Scale, range and ticks of an axis that shows all of `reach`."""
        ticks = getattr(self.axes, f"{side}axis")
        limits = getattr(self.axes, f"set_{side}lim")
        if logarithmic:
            getattr(self.axes, f"set_{side}scale")("log")
        if spec.levels:
            ticks.set_minor_locator(NullLocator())
            ticks.set_ticks(list(spec.levels), list(spec.texts))
            low, high = spec.levels[0], spec.levels[-1]
            if logarithmic:
                limits(low / (high / low) ** 0.07, high * (high / low) ** 0.07)
            elif high > low:
                limits(low - 0.07 * (high - low), high + 0.07 * (high - low))
            return
        known = [value for value in reach if value > 0] or [1.0]
        if logarithmic:
            limits(min(known) / 1.25, max(known) * 1.25)
        else:
            limits(0, spec.top or 1.05 * max(known))
            ticks.set_major_locator(MaxNLocator(5))
        _plain_numbers(ticks)


def _from_zero(panel: Panel) -> bool:
    """Whether it has bars, which begin at 0: a logarithmic axis has none."""
    return any(one.mode in ("bars", "stack") for one in panel.series)


def _plain_numbers(axis: Any) -> None:
    """Ticks as people write numbers, on linear and logarithmic axes."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log" and high / low < 100:
        # Powers of ten alone would be one or two labels.
        axis.set_minor_formatter(
            FuncFormatter(lambda value, _: tick(value) if f"{value:e}"[0] in "25" else "")
        )
    else:
        axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {letter}"
    return f"{value:.4g}"
