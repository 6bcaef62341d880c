"""Charts on paper: Matplotlib's figures, as PNG and SVG that are the same every time."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from storewise.analysis.common.engines import title
from storewise.figures.chart import Axis, Chart, Panel, Series, finite, spaced
from storewise.figures.style import engine_colour
from storewise.figures.style import look as engine_look

#: Of a figure, in inches: a page of paper is about 7 inches wide.
_WIDTH = 7.0
#: Of PNG files.
_DPI = 160
#: Between the rows of two engines, in rows.
_GAP = 0.35
#: Matplotlib's own of LINES.
_DASHES: Sequence[Any] = ("-", "--", "-.", ":", (0, (8, 3)), (0, (8, 3, 2, 3)))
#: Of markers that are no engine's.
_SIZES = {"|": 9.0, ".": 4.0}
#: Between two labels at the ends of lines, in points, and most characters of one: a longer one, or
#: more of them than a panel is high, are a legend.
_LINE, _LONGEST = 11.5, 34
#: What titles and ticks take of a panel's height, in points.
_AROUND = 62

_RC = {
    "font.family": "sans-serif",
    # Verdana is as wide as DejaVu Sans, for readers of an SVG who have no DejaVu.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "storewise",
    "figure.dpi": 100,
}


def draw(chart: Chart) -> Figure | None:
    """The chart as a figure that pyplot does not know; None where nothing of it is for paper."""
    panels = chart.printed()
    if not panels:
        return None
    with mpl.rc_context(_RC):
        return _Drawing(chart, panels).figure


def to_bytes(figure: Figure, form: str) -> bytes:
    """The figure as ``png`` or ``svg``, byte for byte the same for the same tables.

    The first call lays the figure out; later ones keep that layout. `Figure.savefig` would draw
    everything twice each time, once for the layout only, which is most of a report's time.
    """
    buffer = io.BytesIO()
    with mpl.rc_context(_RC):
        if form == "svg":
            if figure.get_layout_engine() is not None:
                figure.draw_without_rendering()
            FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
        else:
            figure.set_dpi(_DPI)
            canvas = FigureCanvasAgg(figure)
            canvas.print_png(buffer, metadata={"Software": None})
    figure.set_layout_engine("none")
    return buffer.getvalue()


class _Drawing:
    """One chart on its way to paper."""

    def __init__(self, chart: Chart, panels: Sequence[Panel]) -> None:
        self.chart = chart
        self.panels = panels
        self.columns = 2 if len(panels) == 4 else min(chart.columns, len(panels))
        self.rows: dict[str, float] = {}
        self.texts: list[str] = []
        rows = [one for panel in panels if panel.sideways for one in panel.shown("paper")]
        self.engines = {point.y: one.engine for one in reversed(rows) for point in one.points}
        if panels[0].sideways:
            self._stand()
        self.height = 1.4 + 0.3 * max(self.rows.values()) if self.rows else chart.height
        height = math.ceil(len(panels) / self.columns)
        self.figure = Figure(figsize=(_WIDTH, self.height * height), layout="constrained")
        FigureCanvasAgg(self.figure)
        shared = bool(self.rows)
        axes = list(self.figure.subplots(height, self.columns, squeeze=False, sharey=shared).flat)
        self.direct = all(map(self._fits, panels))
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for number, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
            self._panel(axis, panel)
            self._name(axis, panel, number)
        if self.rows:
            axes[0].invert_yaxis()
        self._legend(axes)
        if chart.note:
            self.figure.suptitle(chart.note, fontsize=9)

    def _stand(self) -> None:
        """Place the rows. Where they are tinted, those of two engines are apart, and only the
        first of an engine has its name."""
        place, last = 0.0, None
        for name in filter(self.engines.__contains__, self.panels[0].y.levels):
            engine = self.engines.get(name, "")
            follows = self.chart.tinted and engine == last
            if self.chart.tinted and last is not None and not follows:
                place += _GAP
            self.rows[name], last = place, engine
            self.texts.append(name.removeprefix(f"{title(engine)}, ") if follows else name)
            place += 1

    def _panel(self, axis: Any, panel: Panel) -> None:
        shown = panel.shown("paper")
        x_log = panel.x.logarithmic(self.chart.values(panel, "x", "paper"))
        y_log = panel.y.logarithmic(self.chart.values(panel, "y", "paper"))
        below: Any = 0.0
        for series in shown:
            if series.mode == "stack":
                below = self._stack(axis, panel, series, below)
            elif series.mode == "bars" and not x_log:
                self._bars(axis, panel, series)
            else:
                self._line(axis, panel, series, _shift(panel, series))
        if panel.warmup:
            axis.axvspan(0, panel.warmup, color="#000000", alpha=0.08, lw=0)
        self._scale(axis, "x", panel, x_log)
        if self.rows:
            self._row_names(axis)
        else:
            self._scale(axis, "y", panel, y_log)
        if self.direct:
            self._labels(axis, panel)

    def _fits(self, panel: Panel) -> bool:
        """Whether the lines of a panel can have their names at their ends."""
        lines = _named(panel)
        room = 72 * self.height - _AROUND
        short = all(len(one.label) <= _LONGEST for one in lines)
        return short and len(lines) * _LINE <= room and not panel.sideways and self.columns < 3

    def _labels(self, axis: Any, panel: Panel) -> None:
        """The name of each line at its end, moved apart where ends meet."""
        named = [(one, self._end_of(panel, one)) for one in _named(panel)]
        lines, ends = [one for one, end in named if end], [end for _, end in named if end]
        to_axes = axis.transData + axis.transAxes.inverted()
        at = [tuple(map(float, to_axes.transform(end))) for end in ends]
        gap = _LINE / (72 * self.height - _AROUND)
        places = spaced([y for _, y in at], gap, 1 - gap / 2)
        for one, end, (x, _), place in zip(lines, ends, at, places, strict=True):
            thin = {"arrowstyle": "-", "color": self._colour(one), "lw": 0.8, "shrinkA": 0}
            axis.annotate(
                one.label,
                end,
                xytext=(min(1.0, x) + 0.05, place),
                textcoords="axes fraction",
                va="center",
                fontsize=8.5,
                annotation_clip=False,
                arrowprops={**thin, "shrinkB": 3, "clip_on": False},
                bbox={"boxstyle": "square,pad=0.08", "fc": "#ffffff", "ec": "none", "alpha": 0.75},
                zorder=5,
            )

    def _end_of(self, panel: Panel, series: Series) -> tuple[float, float] | None:
        """The last point of a line, or of what is drawn thin in its colour beyond it; None where
        none is a number (a phase in which no operation ended has no rate)."""
        lines = [one for one in panel.shown("paper") if one is series or _belongs(one, series)]
        places = [
            place
            for one in lines
            for place in zip(*(self._places(panel, one, s) for s in ("x", "y")), strict=True)
        ]
        known = [place for place in places if math.isfinite(place[1])]
        return max(known, key=lambda place: float(place[0]), default=None)

    def _colour(self, series: Series) -> str:
        return series.colour or engine_colour(series.like or series.engine)

    def _places(self, panel: Panel, series: Series, side: str) -> list[Any]:
        """The coordinates of points as numbers."""
        levels = list(panel.x.levels)
        values = [getattr(point, side) for point in series.points]
        places = self.rows if side == "y" else {name: i for i, name in enumerate(levels)}
        return [places[v] if isinstance(v, str) else v for v in values]

    def _line(self, axis: Any, panel: Panel, series: Series, shift: float) -> None:
        xs, ys = (self._places(panel, series, side) for side in ("x", "y"))
        joined = series.mode != "markers"
        look: dict[str, Any] = {
            "color": self._colour(series),
            "ls": _DASHES[series.dash % len(_DASHES)] if joined else "none",
            "label": series.name if series.legend is None else series.legend,
        }
        if series.mode in ("lines", "across"):
            look["lw"] = 1.2 if look["label"] else 1.0
            if series.mode == "lines":
                axis.plot(xs, ys, **look)
            elif len(set(xs)) == 1:
                axis.axvline(xs[0], **look)
            else:
                axis.axhline(ys[0], **look)
            return
        engine = series.like or series.engine
        look["marker"] = series.marker or (engine_look(engine).marker if engine else "o")
        look["ms"] = _SIZES.get(look["marker"], 3.0 if not look["label"] else None)
        if joined and not look["label"]:
            look["lw"] = 1.0
        if panel.sideways:
            del look["label"]
        if series.published:
            look |= {"lw": 1.3, "alpha": 0.9}
        if series.note:
            look["markevery"] = max(1, len(xs) // 12)
        hollow = [point.hollow or point.unsure or series.published for point in series.points]
        if all(hollow):
            look["markerfacecolor"] = "none"
        errors = {"xerr" if panel.sideways else "yerr": _errors(series, panel.sideways)}
        axis.errorbar([x + shift for x in xs], ys, **errors, capsize=3, elinewidth=1.2, **look)
        if any(hollow) and not all(hollow):
            points = [(x, y) for x, y, empty in zip(xs, ys, hollow, strict=True) if empty]
            face = {"markerfacecolor": "white", "zorder": 3, "ls": "none", "label": None}
            axis.plot(*zip(*points, strict=True), **{**look, **face})

    def _bars(self, axis: Any, panel: Panel, series: Series) -> None:
        xs, ys = (self._places(panel, series, side) for side in ("x", "y"))
        look: dict[str, Any] = {
            "color": self._colour(series),
            "hatch": engine_look(series.engine).hatch if series.engine else "",
            "capsize": 3,
        }
        errors = _errors(series, panel.sideways)
        if not panel.sideways:
            look |= {"ecolor": look["color"], "error_kw": {"elinewidth": 1}}
            axis.bar(xs, ys, series.width, yerr=errors, label=series.name, **look)
            return
        axis.barh(ys, xs, series.width, xerr=errors, edgecolor="white", **look)
        for x, y, point in zip(xs, ys, series.points, strict=True):
            high = min(point.ends[1], _end([panel], "x")) if point.ends else x
            beside = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
            axis.annotate(point.label, (high, y), **beside)

    def _stack(self, axis: Any, panel: Panel, series: Series, below: Any) -> Any:
        xs = np.array(self._places(panel, series, "x"))
        values = np.array([point.y for point in series.points], dtype=float)
        look = {"edgecolor": "white", "hatch": series.hatch, "lw": 0, "label": series.name}
        if panel.x.scale == "category":
            axis.bar(xs, values, series.width, bottom=below, color=series.colour, **look)
        else:
            edges = np.append(xs, xs[-1] + 1)
            base = np.broadcast_to(below, values.shape)
            look |= {"baseline": base, "fill": True, "facecolor": series.colour}
            axis.stairs(base + values, edges, **look)
        return below + values

    def _scale(self, axis: Any, side: Literal["x", "y"], panel: Panel, logarithmic: bool) -> None:
        """Scale, range and ticks of an axis."""
        spec: Axis = getattr(panel, side)
        peers = self.chart.peers(panel, side, "paper")
        ticks = getattr(axis, f"{side}axis")
        if spec.levels:
            places = range(len(spec.levels)) if spec.scale == "category" else spec.levels
            texts = spec.texts or [
                f"{v:g}" if isinstance(v, float) else str(v) for v in spec.levels
            ]
            if logarithmic:
                axis.set_xscale("log")
                ticks.set_minor_locator(NullLocator())
            crowded = sum(len(text) + 2 for text in texts if text) * self.columns > 84
            tilt = {"rotation": 60, "ha": "right"} if crowded else {}
            axis.set_xticks(list(places), list(texts), **tilt)
            return
        if logarithmic:
            getattr(axis, f"set_{side}scale")("log")
            ends = [end for one in peers for end in _reach(one, side) if end > 0]
            if ends:
                getattr(axis, f"set_{side}lim")(min(ends) / 1.25, max(ends) * 1.25)
        else:
            getattr(axis, f"set_{side}lim")(0, _end(peers, side))
            if side == "x":
                count = max(2, 10 // self.columns)
                ticks.set_major_locator(MaxNLocator(count, integer=self.chart.time))
        _plain_numbers(ticks)

    def _row_names(self, axis: Any) -> None:
        axis.set_yticks(list(self.rows.values()), self.texts)
        axis.grid(visible=False, axis="y")
        for engine in dict.fromkeys(self.engines.values()) if self.chart.tinted else ():
            places = [place for name, place in self.rows.items() if self.engines[name] == engine]
            ends = min(places) - 0.5, max(places) + 0.5
            axis.axhspan(*ends, color=engine_colour(engine), alpha=0.06, lw=0)

    def _name(self, axis: Any, panel: Panel, number: int) -> None:
        """Title and labels; a label is not repeated from panel to panel."""
        # Names of rows leave less room beside them.
        signs = (84 - max(map(len, self.texts), default=0)) // self.columns
        axis.set_title(textwrap.fill(panel.title, max(14, signs)))
        beside = self.panels[number - 1 : number] if number % self.columns else []
        under = self.panels[number + self.columns :][:1]
        if panel.x.label not in [other.x.label for other in under]:
            label = panel.x.title(self.chart.values(panel, "x", "paper"))
            if self.columns > 2:
                label = label.replace(" per second", "/s").replace("(logarithmic)", "(log.)")
            axis.set_xlabel(textwrap.fill(label, max(14, signs)))
        if panel.y.label not in [other.y.label for other in beside]:
            label = panel.y.title(self.chart.values(panel, "y", "paper"))
            axis.set_ylabel(textwrap.fill(label, int(10 * self.height)))

    def _legend(self, axes: Sequence[Any]) -> None:
        """One legend for all panels, below them, each entry once."""
        entries: dict[str, Any] = {}
        for axis in axes if not self.direct else ():
            for handle, text in zip(*axis.get_legend_handles_labels(), strict=True):
                entries.setdefault(text, handle)
        if entries:
            columns = max(1, min(5, 95 // (max(map(len, entries)) + 8)))
            place = "outside lower center"
            self.figure.legend(list(entries.values()), list(entries), loc=place, ncols=columns)


def _shift(panel: Panel, series: Series) -> float:
    """Points at the same level are a little apart, so that their intervals are seen."""
    lines = [one for one in panel.shown("paper") if one.mode == "lines+markers" and one.intervals]
    if series not in lines or panel.x.scale != "linear" or not panel.x.levels:
        return 0.0
    step = min(0.02, 0.12 / len(lines)) * (panel.x.levels[-1] - panel.x.levels[0])
    return float(step * (lines.index(series) - (len(lines) - 1) / 2))


def _errors(series: Series, sideways: bool) -> Any:
    """Lengths of intervals below and above the values; None where no point has one."""
    if not series.intervals:
        return None
    ends = [
        (value - point.ends[0], point.ends[1] - value)
        if point.ends and point.ends[1] > point.ends[0]
        else (math.nan, math.nan)
        for point in series.points
        for value in (point.x if sideways else point.y,)
    ]
    return np.clip(np.array(ends).T, 0, None)


def _named(panel: Panel) -> list[Series]:
    """The lines of a panel that are told from each other by name, each name once."""
    lines = [one for one in panel.shown("paper") if one.points and one.mode != "stack"]
    named = {one.label: one for one in reversed(lines) if one.label}
    return list(reversed(named.values()))


def _belongs(one: Series, line: Series) -> bool:
    """Whether `one` is drawn thin beside a line of the same setting."""
    same = one.mode == "lines" and (one.engine, one.rank) == (line.engine, line.rank)
    return same and one.legend == ""


def _reach(panel: Panel, side: Literal["x", "y"]) -> list[float]:
    """All that an axis must show: values, and the ends of intervals along it."""
    ends = finite(panel.values(side, "paper"))
    if panel.sideways == (side == "x"):
        lines = [one for one in panel.shown("paper") if one.intervals]
        ends += [end for one in lines for p in one.points for end in p.ends or ()]
    return ends


def _end(panels: Sequence[Panel], side: Literal["x", "y"]) -> float:
    """The end of a linear axis of these panels: the highest interval, at most twice the highest
    value."""
    tops = [axis.top for one in panels for axis in [getattr(one, side)] if axis.top is not None]
    if tops:
        return float(max(tops))
    most = max((v for one in panels for v in finite(one.values(side, "paper"))), default=0.0)
    high = max((end for one in panels for end in _reach(one, side)), default=most)
    points = [p for panel in panels for one in panel.series for p in one.points]
    room = 1.15 if any(p.label for p in points) else 1.05
    return room * max(most, min(high, 2 * most)) or 1.0


def _plain_numbers(axis: Any) -> None:
    """Ticks as people write numbers, on linear and logarithmic axes."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    low, high = sorted(axis.get_view_interval())
    if axis.get_scale() == "log" and high / low < 30:
        # Less than two powers of ten would leave one labelled tick.
        axis.set_minor_formatter(
            FuncFormatter(lambda value, _: tick(value) if f"{value:e}"[0] in "235" else "")
        )
    else:
        axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g} {letter}"
    return f"{value:.4g}"
