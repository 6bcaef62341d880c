"""Curves: a published one, and those of a study that stand beside it.

Pure functions; ``analysis.references`` compares the curves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from storewise.analysis.common.text import level
from storewise.analysis.measure.points import CLIENTS, Point, geometric, within
from storewise.study.references import Reference, Series, cells

#: A slope of less than this, up or down, counts as flat; a ratio within 10 % of 1 as equal.
FLAT = 0.1
EQUAL = 1.1
#: Levels that are another form of each other: who runs over one does not hold the others fixed.
_CLIENT_LEVELS = ("workers", "processes", "threads")
#: Levels that say when a step ends or how it is set up, not what is measured.
_NO_SETTING = {"warmup", "seconds", "restart"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One system's values of one series; `x` is 0 throughout where it runs over nothing."""

    reference: str
    series: Series
    system: str
    """As published; of a measured curve the one that it stands beside."""
    engine: str
    """Ours; empty in a published curve."""
    same: tuple[tuple[str, str], ...]
    """Levels that a published curve fixes, with their values."""
    setting: str
    """What else our study varied."""
    values: Mapping[float, float]

    def best(self) -> float:
        """The level of the best value."""
        choose = max if self.series.better == "more" else min
        return choose(self.values, key=lambda x: self.values[x])


def published(reference: Reference) -> list[Curve]:
    """The curves of a reference, in our units; equal levels are averaged geometrically."""
    found: dict[tuple[Any, ...], dict[float, list[float]]] = {}
    for cell in cells(reference):
        series, row = cell.series, cell.row
        same = tuple((ours, row[column]) for column, ours in series.same.items())
        x = float(row[series.x.column]) if series.x else 0.0
        key = (series.id, row[reference.system], same)
        found.setdefault(key, {}).setdefault(x, []).append(float(row[series.value]) * series.times)
    by_id = {series.id: series for series in reference.series}
    return [
        Curve(reference.name, by_id[name], system, "", same, "", _sorted(values))
        for (name, system, same), values in found.items()
    ]


def _sorted(values: Mapping[float, list[float]]) -> dict[float, float]:
    return {x: geometric(values[x]) for x in sorted(values)}


def measured(reference: Reference, curve: Curve, points: Sequence[Point]) -> list[Curve]:
    """Our curves that stand beside a published one: one for each engine and setting.

    A curve over something that the study did not vary does not exist.
    """
    series = curve.series
    found: list[Curve] = []
    for target in reference.systems.get(curve.system, [{"engine": curve.system}]):
        wanted = {k: v for k, v in target.items() if k != "engine"} | dict(curve.same)
        own = [
            p
            for p in points
            if p.engine == target["engine"]
            and p.phase in series.phases
            and within(p.levels, series.phases[p.phase])
            and p.measure == series.measure
            and p.operation == (series.operation if series.operation else p.operation)
            and within(p.levels, wanted)
            and (series.x is None or _numeric(p.levels.get(series.x.level)))
        ]
        names = _settings(own, series, wanted)
        groups: dict[str, dict[float, list[float]]] = {}
        for point in own:
            text = ", ".join(f"{n} {level(point.levels[n])}" for n in names if n in point.levels)
            x = float(point.levels[series.x.level]) if series.x else 0.0
            groups.setdefault(text, {}).setdefault(x, []).append(point.value)
        for text, values in sorted(groups.items()):
            if series.x is None or len(values) > 1:
                best = _best_of(own, series, text, names) if series.over else _sorted(values)
                found.append(
                    Curve(
                        reference.name,
                        series,
                        curve.system,
                        str(target["engine"]),
                        curve.same,
                        text,
                        best,
                    )
                )
    return found


def _best_of(
    own: Sequence[Point], series: Series, text: str, names: Sequence[str]
) -> dict[float, float]:
    """The best value over the levels that were tried, each averaged over its repeats first."""
    tried: dict[float, dict[tuple[str, ...], list[float]]] = {}
    for point in own:
        here = ", ".join(f"{n} {level(point.levels[n])}" for n in names if n in point.levels)
        if here == text:
            x = float(point.levels[series.x.level]) if series.x else 0.0
            key = tuple(str(point.levels.get(name)) for name in series.over)
            tried.setdefault(x, {}).setdefault(key, []).append(point.value)
    choose = max if series.better == "more" else min
    return {x: choose(map(geometric, tried[x].values())) for x in sorted(tried)}


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _settings(own: Sequence[Point], series: Series, wanted: Mapping[str, Any]) -> list[str]:
    """Levels that vary among these points and are held fixed neither by the series nor here."""
    free = {"engine", CLIENTS, *_NO_SETTING, *series.over}
    free |= {name for levels in series.phases.values() for name in levels}
    free |= {k for k, v in wanted.items() if not isinstance(v, list | Mapping)}
    if series.x is not None:
        free.add(series.x.level)
        if series.x.level == CLIENTS:
            free |= set(_CLIENT_LEVELS)
    if {*series.over} & {CLIENTS}:
        free |= set(_CLIENT_LEVELS)
    names = dict.fromkeys(name for p in own for name in p.levels if name not in free)
    # That a point does not have a level is a level too: of steps, only some slow a node down.
    return [n for n in names if len({str(p.levels.get(n)) for p in own}) > 1]


def base_of(curve: Curve, others: Iterable[Curve]) -> float:
    """The level at which a curve counts as 1: the lowest that all have, else its own lowest."""
    common = set(curve.values)
    for other in others:
        common &= set(other.values)
    return min(common) if common else min(curve.values)


def slope(values: Mapping[float, float]) -> float:
    """Slope of the least-squares line through the logarithms; nan where there is none."""
    pairs = [(math.log(x), math.log(y)) for x, y in values.items() if x > 0 and y > 0]
    if len(pairs) < 2:
        return math.nan
    x, y = np.asarray(pairs).T
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def trend(found: float) -> str:
    """A slope in a word; empty where there is none."""
    if math.isnan(found):
        return ""
    return "flat" if abs(found) < FLAT else "rises" if found > 0 else "falls"


def side(ratio: float) -> int:
    """On which side of 1 a ratio is; 0 within 10 %."""
    return 0 if 1 / EQUAL < ratio < EQUAL else 1 if ratio > 1 else -1
