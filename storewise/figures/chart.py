"""A figure as a value: panels, axes, series and points, without the library that draws it.

One function per figure builds a `Chart` from the tables; `storewise.figures.drawing` draws it, for
the page and for files. Numbers are in the unit of their axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

from storewise.analysis.common.frames import missing
from storewise.analysis.common.text import number
from storewise.analysis.stats.intervals import too_wide

Scale = Literal["value", "linear", "log", "category"]
Mode = Literal["lines", "level", "markers", "lines+markers", "bars", "stack", "area"]
Side = Literal["x", "y"]
#: Ratio of the greatest to the least value from which on an axis is logarithmic.
FAR = 20


@dataclass(frozen=True, slots=True)
class Point:
    """One value, its interval, and what is said of it."""

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
        """Whether its interval is too wide to say anything: the point is drawn hollow, without
        it."""
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
    whole panel; ``stack`` (of bars) and ``area`` (of seconds) begin where the series before ends.
    """

    name: str
    """What the legend and the titles of points call it; without one it is in no legend."""
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
    levels: Sequence[Any] = ()
    """Ticks, or the order of categories."""
    texts: Sequence[str] = ()
    """Texts of the ticks."""
    top: float | None = None
    """Its end; None: by the values."""

    def logarithmic(self, values: Iterable[Any]) -> bool:
        """Whether it is logarithmic with these values."""
        if self.scale != "value":
            return self.scale == "log"
        known = [v for v in finite(values) if v != 0]
        return bool(known) and min(known) > 0 and max(known) / min(known) > FAR


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. Where `y` has categories, each row is one, the first at the top."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]

    @property
    def sideways(self) -> bool:
        """Whether values go from left to right, a row for each name."""
        return self.y.scale == "category"

    def reach(self, side: Side) -> list[float]:
        """All that an axis must show: values, and the ends of their intervals along it."""
        points = [point for one in self.series for point in one.points]
        ends = [getattr(point, side) for point in points]
        if self.sideways == (side == "x"):
            drawn = [
                p for one in self.series if one.mode not in ("lines", "level") for p in one.points
            ]
            ends += [end for point in drawn for end in point.ends or ()]
        return finite(ends)


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure."""

    panels: Sequence[Panel]
    note: str = ""
    """What holds for all panels."""

    def reach(self, panel: Panel, side: Side) -> list[float]:
        """`Panel.reach` of all panels whose axis shows the same measure: one scale for all of
        them, so that they can be compared."""
        axis: Axis = getattr(panel, side)
        alone = not axis.label or axis.levels or axis.top is not None
        peers = [one for one in self.panels if getattr(one, side).label == axis.label]
        return [end for one in ([panel] if alone else peers) for end in one.reach(side)]


def point(
    x: Any, y: Any, row: Mapping[str, Any], words: str, source: str = "", *, scale: float = 1.0
) -> Point:
    """The point of a row with its value in words; its interval is that of the row times
    `scale`."""
    low, high = (
        math.nan if missing(row.get(end)) else scale * float(row[end]) for end in ("low", "high")
    )
    made = Point(x, y, low, high, source=source) if low <= high else Point(x, y, source=source)
    lines = [words]
    if low < high:
        lines.append(f"95 % interval {number(low)} to {number(high)}")
        lines += ["not measured well enough"] if made.unsure else []
    if not missing(row.get("n")):
        lines.append(f"n = {int(row['n'])}")
    return replace(made, words="\n".join(lines))


def finite(values: Iterable[Any]) -> list[float]:
    """Those of some values that are finite numbers."""
    return [float(v) for v in values if isinstance(v, Real) and math.isfinite(v)]


def level_axis(label: str, levels: Iterable[Any], scale: Scale | None = None) -> Axis:
    """An axis of a numeric factor's levels, which are its ticks; without a `scale` it is
    logarithmic where they span a factor of eight or more. Texts that would lie on the one before
    are empty."""
    known = sorted({float(v) for v in levels if not missing(v)})
    wide = bool(known) and known[0] > 0 and known[-1] / known[0] >= 8
    scale = scale or ("log" if wide else "linear")
    places = [math.log(v) if scale == "log" else v for v in known]
    texts: list[str] = []
    last = -math.inf
    for place, value in zip(places, known, strict=True):
        room = place - last > (places[-1] - places[0]) / 9
        texts.append(f"{value:,.10g}" if room else "")
        last = place if room else last
    return Axis(label, scale, known, texts)


def rows_axis(names: Iterable[str]) -> Axis:
    """An axis with a row for each name."""
    return Axis("", "category", list(dict.fromkeys(names)))
