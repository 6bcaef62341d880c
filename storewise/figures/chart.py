"""A figure as a value: panels, axes, series and points, without the library that draws it.

One function per figure builds a `Chart` from the tables. `storewise.figures.paper` draws it with
Matplotlib, `storewise.report.graphs` with Plotly. Numbers are in the unit of their axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

from storewise.analysis.common.frames import missing
from storewise.analysis.stats.intervals import too_wide

Scale = Literal["value", "linear", "log", "category"]
Mode = Literal["lines", "across", "markers", "lines+markers", "bars", "stack"]
Medium = Literal["both", "page", "paper"]


@dataclass(frozen=True, slots=True)
class Point:
    """One value, its interval, and what is said of it."""

    x: Any
    y: Any
    low: float | None = None
    high: float | None = None
    words: str = ""
    """The value in words; lines are separated by ``\\n``."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """Its row of a table: repeats, kind of interval, and the factors that lead to its trials."""
    source: str = ""
    """``table:row``, where the value comes from."""
    label: str = ""
    """A text beside it on paper."""
    hollow: bool = False

    @property
    def unsure(self) -> bool:
        """Whether its interval is too wide to say anything: the point is drawn hollow, without
        it."""
        return too_wide(self.low, self.high)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval that is drawn; None where there is none."""
        if self.low is None or self.high is None or self.unsure:
            return None
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together.

    ``lines`` have neither markers nor intervals; ``across`` is one upright or level line, on paper
    through the whole panel; ``stack`` stands on the series before it.
    """

    name: str
    points: Sequence[Point]
    mode: Mode = "lines+markers"
    record: Mapping[str, Any] = field(default_factory=dict)
    """What a reader of the page chooses it by: engine, phase, factors."""
    on: Medium = "both"
    legend: str | None = None
    """Its name on paper where that is another; without one (``""``) it is drawn thin."""
    size: str = ""
    """How many observations it stands on, said at its end."""
    like: str = ""
    """The engine whose looks it has, where that is not its own."""
    colour: str = ""
    marker: str = ""
    """One of Matplotlib's; `colour` and `marker` stand in for those of an engine."""
    hatch: str = ""
    dash: int = 0
    """Its place in LINES of `storewise.figures.style`."""
    rank: int = -1
    """Among the settings of its engine in its panel; -1: always shown."""
    over: str = ""
    """The factor whose levels are the x values."""
    published: bool = False
    note: str = ""
    """What is said of each point of a long series over time."""
    width: float = 0.7
    """Of upright bars."""

    @property
    def engine(self) -> str:
        """The engine that was measured; empty for a curve of none."""
        return str(self.record.get("engine", ""))

    @property
    def label(self) -> str:
        """What stands at its end on paper; nothing where it is drawn thin."""
        name = self.name if self.legend is None else self.legend
        return ", ".join(filter(None, (name, self.size))) if name else ""

    @property
    def intervals(self) -> bool:
        """Whether intervals are drawn."""
        return self.mode not in ("lines", "across") and any(
            point.ends is not None for point in self.points
        )


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
    unit: str = ""
    """Unit of a time: its ticks get no prefix of their own."""
    gaps: bool = False
    """Values of 0 may be missing on a logarithmic axis; else they keep it linear."""
    own: bool = False
    """Its range is its panel's own, whatever other panels show."""

    def logarithmic(self, values: Iterable[Any]) -> bool:
        """Whether it is logarithmic with these values."""
        if self.scale != "value":
            return self.scale == "log"
        known = finite(values)
        return spread(known) and (self.gaps or min(known) > 0)

    def title(self, values: Iterable[Any]) -> str:
        """Its label; that of a value axis tells where it is logarithmic."""
        if self.scale == "value" and self.logarithmic(values):
            return f"{self.label} (logarithmic)"
        return self.label


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. Where `y` has categories, each row is one, the first at the top."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    warmup: float = 0.0
    """Seconds from 0 on that are shaded."""
    on: Medium = "both"

    @property
    def sideways(self) -> bool:
        return self.y.scale == "category"

    def shown(self, medium: Medium) -> list[Series]:
        """The series of one medium."""
        return [one for one in self.series if one.on in ("both", medium)]

    def values(self, side: Literal["x", "y"], medium: Medium) -> list[Any]:
        """The coordinates of all points of one medium."""
        return [getattr(point, side) for one in self.shown(medium) for point in one.points]


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure. `height` is that of a row of panels on paper, in inches."""

    panels: Sequence[Panel]
    height: float = 3.4
    columns: int = 3
    """Panels beside each other on paper."""
    most: int = 6
    """Panels on paper; more are no longer read."""
    note: str = ""
    """A line above all panels, on paper."""
    lowest: bool = False
    """The page shows the lowest setting of each engine first."""
    time: bool = False
    """The x axes are seconds and are zoomed together."""
    tinted: bool = False
    """Rows of one engine stand together on a tint of its colour."""
    still: bool = False
    """The page shows it as printed."""

    def printed(self) -> list[Panel]:
        """The panels on paper."""
        return self.seen("paper")[: self.most]

    def seen(self, medium: Medium) -> list[Panel]:
        """The panels of one medium that show anything."""
        kept = [one for one in self.panels if one.on in ("both", medium)]
        return [one for one in kept if any(line.points for line in one.shown(medium))]

    def peers(self, panel: Panel, side: Literal["x", "y"], medium: Medium) -> list[Panel]:
        """The panels whose axis shows the same measure: one scale for all of them, so that they
        can be compared."""
        axis = getattr(panel, side)
        alone = axis.own or not axis.label or axis.levels or axis.scale == "category"
        if alone or (side == "x" and axis.top is not None):
            return [panel]
        return [one for one in self.seen(medium) if getattr(one, side).label == axis.label]

    def values(self, panel: Panel, side: Literal["x", "y"], medium: Medium) -> list[Any]:
        """The coordinates of all points that share an axis."""
        return [v for one in self.peers(panel, side, medium) for v in one.values(side, medium)]


def point(
    x: Any, y: Any, row: Mapping[str, Any], words: str, source: str = "", *, scale: float = 1.0
) -> Point:
    """The point of a row; its interval is that of the row times `scale`."""
    low, high = interval(row)
    if low is not None and high is not None:
        low, high = low * scale, high * scale
    return Point(x, y, low, high, words, row, source)


def interval(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The interval of a row, (None, None) where it has none."""
    low, high = row.get("low"), row.get("high")
    if missing(low) or missing(high) or row.get("resampled") == "none":
        return None, None
    low, high = float(low or 0.0), float(high or 0.0)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)


def finite(values: Iterable[Any]) -> list[float]:
    """Those of some values that are finite numbers."""
    return [float(v) for v in values if isinstance(v, Real) and math.isfinite(v)]


def spread(values: Iterable[float]) -> bool:
    """Whether values differ by more than a factor of 20, so that they need a logarithmic axis."""
    positive = [v for v in values if v > 0]
    return bool(positive) and max(positive) / min(positive) > 20


def spaced(places: Sequence[float], gap: float, top: float = 1.0) -> list[float]:
    """Places between 0 and `top`, moved as little as need be so that no two are closer than `gap`
    (closer where they are too many)."""
    if not places:
        return []
    gap = min(gap, top / len(places))
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    last = -math.inf
    for place in order:
        last = moved[place] = max(places[place], last + gap, 0.0)
    limit = top
    for place in reversed(order):
        limit = moved[place] = min(moved[place], limit)
        limit -= gap
    return moved


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
        room = place - last > (places[-1] - places[0]) / 12
        texts.append(f"{value:,.10g}" if room else "")
        last = place if room else last
    return Axis(label, scale, known, texts)


def rows_axis(names: Iterable[str]) -> Axis:
    """An axis with a row for each name."""
    return Axis("", "category", list(dict.fromkeys(names)))
