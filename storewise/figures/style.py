"""How every figure looks: colours, markers and sizes, and files that are the same every time.

Colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any common
colour blindness tell apart; markers, hatches and line styles carry the same distinction in black
and white.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from storewise.analysis.common.engines import CEILING

#: Okabe-Ito without the yellow, which is too light for lines on white; then, for studies of more
#: than seven engines, the dark ones of Paul Tol's "muted" scheme (SRON/EPS/TN/09-002).
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"),
    *("#882255", "#999933", "#332288", "#44AA99"),
)
GREY = "#7A7A7A"
#: What stands for colours of figures on a dark page, where they could not be told from it.
DARK = {
    "#0072B2": "#4AA3DF",
    "#000000": "#F0F0F0",
    "#882255": "#D4356F",
    "#332288": "#9C8CF2",
    "#7A7A7A": "#A6A6A6",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "oo", "||", "**", "OO", "//..")
LINES = ("-", "--", "-.", ":")

#: Of one panel, in inches; a page of paper is about 7 inches wide.
WIDTH, HEIGHT = 7.0, 3.4
#: Of PNG files.
_DPI = 160

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


class Style:
    """Colour, marker and hatch of each engine: the same in all figures of a study."""

    def __init__(self, engines: Iterable[str]) -> None:
        names = sorted(set(engines) - {CEILING})
        self._place = {name: i for i, name in enumerate(names)}

    def colour(self, engine: str) -> str:
        if engine not in self._place:
            return GREY
        return COLOURS[self._place[engine] % len(COLOURS)]

    def marker(self, engine: str) -> str:
        return MARKERS[self._place[engine] % len(MARKERS)] if engine in self._place else "*"

    def hatch(self, engine: str) -> str:
        return HATCHES[self._place[engine] % len(HATCHES)] if engine in self._place else "---"


def new_figure(
    rows: int = 1, columns: int = 1, *, height: float = HEIGHT, **options: Any
) -> tuple[Figure, list[Any]]:
    """A figure with its panels in reading order; nothing is kept by pyplot."""
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(grid.flat)


def drawing() -> Any:
    """The context in which figures are made, so that all of the style holds."""
    return mpl.rc_context(_RC)


def legend_outside(figure: Figure, axes: Sequence[Any], columns: int = 4) -> None:
    """One legend for all panels, below them, each entry once."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, text in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(text, handle)
    if entries:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside lower center",
            ncols=min(columns, len(entries)),
        )


def plain_numbers(axis: Any) -> None:
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


def spread(values: Iterable[float]) -> bool:
    """Whether values differ by more than a factor of 20, so that they need a logarithmic axis."""
    positive = [v for v in values if v > 0]
    return bool(positive) and max(positive) / min(positive) > 20


def to_bytes(figure: Figure, form: str) -> bytes:
    """The figure as ``png`` or ``svg``, byte for byte the same for the same tables.

    The first call lays the figure out; later ones keep that layout. `Figure.savefig` would draw
    everything twice each time, once for the layout only, which is most of a report's time.
    """
    buffer = io.BytesIO()
    with drawing():
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
