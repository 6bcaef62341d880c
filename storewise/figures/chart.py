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
    """``table:row``, where the value comes from."""
    hollow: bool = False

    @property
    def unsure(self) -> bool:
        """Whether its interval is too wide to be useful: the point is drawn hollow, without it."""
        return too_wide(self.low, self.high)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval that is drawn; None where there is none."""
        if self.low is None or self.high is None or self.unsure or not self.high > self.low:
            return None
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together.

    ``lines`` have neither markers nor intervals; ``level`` is one upright or level line through the
    whole panel; ``bars`` of one row and an ``area`` (over seconds) begin where the series before
    ends.
    """

    name: str
    """Its name in the legend and in titles of points; without one it is in no legend."""
    points: Sequence[Point]
    mode: Mode = "lines+markers"
    engine: str = ""
    """The engine whose looks it has; empty for none."""
    colour: str = ""
    marker: str = ""
    """One of Matplotlib's; `colour` and `marker` stand in for those of its engine."""
    dash: int = 0
    """Its place in LINES of `storewise.figures.style`."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis. A ``value`` axis begins at 0, or is logarithmic where its values are spread."""

    label: str = ""
    scale: Scale = "value"
    levels: Sequence[float] = ()
    """Positions of the ticks; empty: chosen by the values."""
    texts: Sequence[str] = ()
    """Texts of the ticks; the levels themselves where there are none."""
    top: float | None = None
    """Its end; None: by the values."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. Where it has `rows`, the `y` of each point is the name of one; the first is at the
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
    """An axis of a numeric factor's levels, which are its ticks; without a `scale` it is
    logarithmic where they span a factor of eight or more."""
    known = sorted({float(v) for v in levels if not missing(v)})
    wide = bool(known) and known[0] > 0 and known[-1] / known[0] >= 8
    return Axis(label, scale or ("log" if wide else "linear"), known)
