"""A figure as a value: panels, axes, series and points, without the library that draws it.

One function per figure builds a `Chart` from the tables; `storewise.figures.drawing` draws it, for
the page and for files. Numbers are in the unit of their axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from storewise.analysis.common.frames import missing
from storewise.analysis.stats.intervals import too_wide

Scale = Literal["value", "linear", "log"]
Mode = Literal["lines", "level", "markers", "lines+markers", "bars", "area"]


@dataclass(frozen=True, slots=True)
class Point:
    """One value with its interval and its tooltip."""

    x: Any
    y: Any
    low: float | None = None
    high: float | None = None
    words: str = ""
    """Value, interval and repeats, lines separated by ``\\n``."""
    source: str = ""
    """``table:row`` of the value."""
    hollow: bool = False

    @property
    def unsure(self) -> bool:
        """Whether the interval is too wide to be useful: then it is not drawn."""
        return too_wide(self.low, self.high)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the drawn interval; None if none is drawn."""
        if self.low is None or self.high is None or self.unsure or not self.high > self.low:
            return None
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line, bar or area.

    ``lines`` have neither markers nor intervals. ``level`` is one horizontal line (vertical in a
    panel with rows). ``bars`` of one row and an ``area`` (over seconds) are stacked on the series
    before.
    """

    name: str
    """The name in the legend and in tooltips; a series without a name is not in the legend."""
    points: Sequence[Point]
    mode: Mode = "lines+markers"
    engine: str = ""
    """The engine whose colour and marker it has; empty for none."""
    colour: str = ""
    marker: str = ""
    """A marker of Matplotlib; `colour` and `marker` replace those of the engine."""
    dash: int = 0
    """Index of the line style in `storewise.figures.style.LINES`."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis. A ``value`` axis begins at 0, or is logarithmic if its values differ by much."""

    label: str = ""
    scale: Scale = "value"
    levels: Sequence[float] = ()
    """Positions of the ticks; empty: chosen by the values."""
    texts: Sequence[str] = ()
    """Texts of the ticks; empty: the levels."""
    top: float | None = None
    """Upper end of the axis; None: chosen by the values."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. If it has `rows`, `y` of each point is the name of a row; the first row is at the
    top."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    rows: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure."""

    panels: Sequence[Panel]
    note: str = ""
    """A note on all panels."""


def level_axis(label: str, levels: Iterable[Any], scale: Scale | None = None) -> Axis:
    """The axis of a numeric factor, with a tick at each level. Default `scale`: logarithmic if the
    levels differ by a factor of eight or more."""
    known = sorted({float(v) for v in levels if not missing(v)})
    wide = bool(known) and known[0] > 0 and known[-1] / known[0] >= 8
    return Axis(label, scale or ("log" if wide else "linear"), known)
