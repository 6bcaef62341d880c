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
from storewise.figures.chart import Axis, Chart, Panel, Series, finite
from storewise.figures.style import Style

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


def draw(chart: Chart, style: Style) -> Figure | None:
    """The chart as a figure that pyplot does not know; None where nothing of it is for paper."""
    panels = chart.printed()
    if not panels:
        return None
    with mpl.rc_context(_RC):
        return _Drawing(chart, panels, style).figure


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

    def __init__(self, chart: Chart, panels: Sequence[Panel], style: Style) -> None:
        self.chart = chart
        self.panels = panels
        self.style = style
        self.columns = min(chart.columns, len(panels))
        self.rows: dict[str, float] = {}
        self.texts: list[str] = []
        lines = [one for panel in panels for one in panel.series if panel.sideways and one.engine]
        self.engines = {point.y: one.engine for one in lines for point in one.points}
        if panels[0].sideways:
            self._stand()
        self.height = 1.4 + 0.3 * max(self.rows.values()) if self.rows else chart.height
        height = math.ceil(len(panels) / self.columns)
        self.figure = Figure(figsize=(_WIDTH, self.height * height), layout="constrained")
        FigureCanvasAgg(self.figure)
        shared = chart.shared or bool(self.rows)
        axes = list(self.figure.subplots(height, self.columns, squeeze=False, sharey=shared).flat)
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
        for name in self.panels[0].y.levels:
            engine = self.engines.get(name, "")
            follows = self.chart.tinted and engine == last
            if self.chart.tinted and last is not None and not follows:
                place += _GAP
            self.rows[name], last = place, engine
            self.texts.append(name.removeprefix(f"{title(engine)}, ") if follows else name)
            place += 1

    def _panel(self, axis: Any, panel: Panel) -> None:
        shown = panel.shown("paper")
        if not shown:
            middle = {"ha": "center", "va": "center", "transform": axis.transAxes}
            axis.text(0.5, 0.5, "not measured", **middle)
        together = self.panels if self.chart.shared else [panel]
        x_log = panel.x.logarithmic(panel.values("x", "paper"))
        y_log = panel.y.logarithmic(v for one in together for v in one.values("y", "paper"))
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
        self._scale(axis, "x", panel.x, x_log, _end(panel, "x"))
        if self.rows:
            self._row_names(axis)
        else:
            self._scale(axis, "y", panel.y, y_log, _end(panel, "y"))

    def _colour(self, series: Series) -> str:
        return series.colour or self.style.colour(series.like or series.engine)

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
        look["marker"] = series.marker or (self.style.marker(engine) if engine else "o")
        look["ms"] = _SIZES.get(look["marker"], 3.0 if not look["label"] else None)
        if joined and not look["label"]:
            look["lw"] = 1.0
        if panel.sideways:
            del look["label"]
        if series.published:
            look |= {"lw": 1.3, "alpha": 0.9}
        if series.note:
            look["markevery"] = max(1, len(xs) // 12)
        hollow = [point.hollow or series.published for point in series.points]
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
            "hatch": self.style.hatch(series.engine) if series.engine else "",
            "capsize": 3,
        }
        errors = _errors(series, panel.sideways)
        if not panel.sideways:
            look |= {"ecolor": look["color"], "error_kw": {"elinewidth": 1}}
            axis.bar(xs, ys, series.width, yerr=errors, label=series.name, **look)
            return
        axis.barh(ys, xs, series.width, xerr=errors, edgecolor="white", **look)
        for x, y, point in zip(xs, ys, series.points, strict=True):
            high = x if point.high is None else min(point.high, _end(panel, "x"))
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

    def _scale(self, axis: Any, side: str, spec: Axis, logarithmic: bool, end: float) -> None:
        """Scale, range and ticks of an axis."""
        ticks = getattr(axis, f"{side}axis")
        if spec.levels:
            places = range(len(spec.levels)) if spec.scale == "category" else spec.levels
            texts = spec.texts or [
                f"{v:g}" if isinstance(v, float) else str(v) for v in spec.levels
            ]
            if logarithmic:
                axis.set_xscale("log")
                ticks.set_minor_locator(NullLocator())
            crowded = sum(len(text) + 2 for text in texts) * self.columns > 84
            tilt = {"rotation": 60, "ha": "right"} if crowded else {}
            axis.set_xticks(list(places), list(texts), **tilt)
            return
        if logarithmic:
            getattr(axis, f"set_{side}scale")("log")
        else:
            getattr(axis, f"set_{side}lim")(0, end)
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
            axis.axhspan(*ends, color=self.style.colour(engine), alpha=0.06, lw=0)

    def _name(self, axis: Any, panel: Panel, number: int) -> None:
        """Title and labels; a label is not repeated from panel to panel."""
        axis.set_title(textwrap.fill(panel.title, 84 // self.columns))
        beside = self.panels[number - 1 : number] if number % self.columns else []
        under = self.panels[number + self.columns :][:1]
        if panel.x.label not in [other.x.label for other in under]:
            label = panel.x.title(panel.values("x", "paper"))
            if self.columns > 2:
                label = label.replace(" per second", "/s").replace("(logarithmic)", "(log.)")
            axis.set_xlabel(textwrap.fill(label, 84 // self.columns))
        if panel.y.label not in [other.y.label for other in beside]:
            titles = {one.y.title(one.values("y", "paper")) for one in self.panels}
            label = titles.pop() if len(titles) == 1 else panel.y.label
            axis.set_ylabel(textwrap.fill(label, int(10 * self.height)))

    def _legend(self, axes: Sequence[Any]) -> None:
        """One legend for all panels, below them, each entry once."""
        entries: dict[str, Any] = {}
        for axis in axes:
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
        (value - point.low, point.high - value)
        if point.low is not None and point.high is not None and point.high > point.low
        else (math.nan, math.nan)
        for point in series.points
        for value in (point.x if sideways else point.y,)
    ]
    return np.clip(np.array(ends).T, 0, None)


def _end(panel: Panel, side: Literal["x", "y"]) -> float:
    """The end of a linear axis: the highest interval, at most twice the highest value."""
    axis = panel.x if side == "x" else panel.y
    if axis.top is not None:
        return axis.top
    most = max(finite(panel.values(side, "paper")), default=0.0)
    along = panel.sideways == (side == "x")
    highs = [p.high for one in panel.shown("paper") if one.intervals for p in one.points]
    high = max(finite(highs), default=most) if along else most
    room = 1.15 if any(p.label for one in panel.series for p in one.points) else 1.05
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
