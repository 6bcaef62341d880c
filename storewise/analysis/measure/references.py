"""Published figures compared with measured ones: shapes and ratios, never absolute values.

Hardware, versions and clients of a published study differ from ours. Still comparable are:

- *shape*: how a value changes over the levels of one variable. Both curves are divided by their own
  value at the lowest level that both have (else at their own lowest), and each gets the slope of
  its least-squares line in logarithms of both axes: 1 is proportional, 0 is flat.
- *ratio*: one system's value over another's at the same level, and of the best values of both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common import engines
from storewise.analysis.common.text import level
from storewise.analysis.measure.points import CLIENTS, Point, geometric, within
from storewise.study.references import Reference, Series, cells

CURVES = ["reference", "series", "title", "source", "system", "engine", "fixed", "setting"]
CURVES += ["x_name", "x", "value", "unit", "base", "relative"]
AGREEMENT = ["reference", "series", "title", "quantity", "of", "setting", "x_name", "at"]
AGREEMENT += ["published", "measured", "agree"]
#: The two kinds of rows of AGREEMENT.
SLOPE, RATIO = "slope", "ratio"

#: An absolute slope below FLAT counts as flat; a ratio within 10 % of 1 as equal.
FLAT = 0.1
EQUAL = 1.1
#: Levels that all change the number of clients: a curve over one of them does not fix the others.
_CLIENT_LEVELS = ("workers", "processes", "threads")
#: Levels that set the end or setup of a step and do not distinguish curves.
_NO_SETTING = {"warmup", "seconds", "restart"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One system's values of one series, by x; a series without an x axis has one value at 0."""

    reference: str
    series: Series
    system: str
    """The system as published; for a measured curve the system it is compared with."""
    same: tuple[tuple[str, str], ...]
    """The fixed levels of a published curve, with their values."""
    values: Mapping[float, float]
    engine: str = ""
    """The engine of a measured curve; empty for a published one."""
    setting: str = ""
    """The levels of further factors of our study, in words."""

    def best(self) -> float:
        """The level of the best value."""
        choose = max if self.series.better == "more" else min
        return choose(self.values, key=lambda x: self.values[x])


def published(reference: Reference) -> list[Curve]:
    """The curves of a reference, in s and 1/s; geometric means at equal levels."""
    curves: dict[tuple[Any, ...], dict[float, list[float]]] = {}
    for cell in cells(reference):
        series, row = cell.series, cell.row
        same = tuple((level, row[column]) for column, level in series.same.items())
        x = float(row[series.x.column]) if series.x else 0.0
        values = curves.setdefault((series.id, row[reference.system], same), {})
        values.setdefault(x, []).append(float(row[series.value]) * series.times)
    by_id = {series.id: series for series in reference.series}
    return [
        Curve(
            reference.name,
            by_id[name],
            system,
            same,
            {x: geometric(v) for x, v in sorted(values.items())},
        )
        for (name, system, same), values in curves.items()
    ]


def measured(reference: Reference, curve: Curve, points: Sequence[Point]) -> list[Curve]:
    """Our curves to compare with a published one: one for each engine and setting.

    There is none if the study did not vary the x axis. Each level has the best value over the
    levels of the series' key `over`, after averaging over repeats.
    """
    series = curve.series
    best = max if series.better == "more" else min
    curves: list[Curve] = []
    for target in reference.systems.get(curve.system, [{"engine": curve.system}]):
        wanted = {**target, **dict(curve.same)}
        alike = [
            p
            for p in points
            if p.measure == series.measure
            and p.operation == (series.operation or p.operation)
            and p.phase in series.phases
            and within(p.levels, series.phases[p.phase])
            and within(p.levels, wanted)
            # bool is an int in Python, but a flag is no number.
            and (series.x is None or type(p.levels.get(series.x.level)) in (int, float))
        ]
        names = _settings(alike, series, wanted)
        settings: dict[str, dict[float, dict[tuple[str, ...], list[float]]]] = {}
        for point in alike:
            text = ", ".join(f"{n} {level(point.levels[n])}" for n in names if n in point.levels)
            x = float(point.levels[series.x.level]) if series.x else 0.0
            tried = tuple(str(point.levels.get(name)) for name in series.over)
            at_x = settings.setdefault(text, {}).setdefault(x, {})
            at_x.setdefault(tried, []).append(point.value)
        for text, values in sorted(settings.items()):
            if series.x is None or len(values) > 1:
                bests = {x: best(map(geometric, values[x].values())) for x in sorted(values)}
                engine = str(target["engine"])
                curves.append(replace(curve, engine=engine, setting=text, values=bests))
    return curves


def _settings(points: Sequence[Point], series: Series, wanted: Mapping[str, Any]) -> list[str]:
    """Levels that vary among these points and are not fixed by the series or by `wanted`."""
    free = {"engine", CLIENTS, *_NO_SETTING, *series.over}
    free |= {name for levels in series.phases.values() for name in levels}
    free |= {k for k, v in wanted.items() if not isinstance(v, list | Mapping)}
    if series.x is not None:
        free.add(series.x.level)
    if CLIENTS in series.over or (series.x is not None and series.x.level == CLIENTS):
        free |= set(_CLIENT_LEVELS)
    names = dict.fromkeys(name for p in points for name in p.levels if name not in free)
    # A missing level counts as a level: for example, only some steps slow a node down.
    return [n for n in names if len({str(p.levels.get(n)) for p in points}) > 1]


def base_of(curve: Curve, others: Iterable[Curve]) -> float:
    """The level at which a curve is set to 1: the lowest that all have, else its own lowest."""
    common = set(curve.values).intersection(*(other.values for other in others))
    return min(common or curve.values)


def slope(values: Mapping[float, float]) -> float:
    """Slope of the least-squares line through the logarithms; nan if there is none."""
    pairs = [(math.log(x), math.log(y)) for x, y in values.items() if x > 0 and y > 0]
    if len(pairs) < 2:
        return math.nan
    x, y = np.transpose(pairs)
    return float(np.polyfit(x, y, 1)[0])


def trend(slope: float) -> str:
    """``rises``, ``falls`` or ``stays``; empty for nan."""
    if math.isnan(slope):
        return ""
    return "flat" if abs(slope) < FLAT else "rises" if slope > 0 else "falls"


def side(ratio: float) -> int:
    """On which side of 1 a ratio is; 0 within 10 %."""
    return 0 if 1 / EQUAL < ratio < EQUAL else 1 if ratio > 1 else -1


def compare(
    references: Sequence[Reference], points: Sequence[Point]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare references with measured points: the tables `reference_curves` (CURVES) and
    `reference_agreement` (AGREEMENT)."""
    curves: list[dict[str, Any]] = []
    agreement: list[dict[str, Any]] = []
    for reference in references:
        pairs = [
            (one, ours)
            for one in published(reference)
            if (ours := measured(reference, one, points))
        ]
        panels: dict[tuple[Any, ...], list[Curve]] = {}
        for one, ours in pairs:
            if one.series.x is not None:
                panels.setdefault((one.series.id, one.same), []).extend((one, *ours))
                agreement += [_slopes(one, curve) for curve in ours]
        for panel in panels.values():
            curves += [row for one in panel for row in _curve_rows(one, base_of(one, panel))]
        agreement += _ratios(reference, pairs)
    return pd.DataFrame(curves, columns=CURVES), pd.DataFrame(agreement, columns=AGREEMENT)


def _fixed(curve: Curve) -> str:
    return ", ".join(f"{name} {value}" for name, value in curve.same)


def _row(theirs: Curve, ours: Curve) -> dict[str, Any]:
    """The first columns of both tables."""
    series = theirs.series
    return {
        "reference": theirs.reference,
        "series": series.id,
        "title": series.title,
        "setting": ", ".join(filter(None, [_fixed(theirs), ours.setting])),
        "x_name": series.x.level if series.x else "",
    }


def _curve_rows(curve: Curve, base: float) -> list[dict[str, Any]]:
    return [
        _row(curve, curve)
        | {
            "source": "measured" if curve.engine else "published",
            "system": curve.system,
            "engine": curve.engine,
            "fixed": _fixed(curve),
            "x": x,
            "value": value,
            "unit": curve.series.unit,
            "base": base,
            "relative": value / curve.values[base] if curve.values[base] else math.nan,
        }
        for x, value in curve.values.items()
    ]


def _slopes(theirs: Curve, ours: Curve) -> dict[str, Any]:
    values = [theirs.values, ours.values]
    common = sorted(set(theirs.values) & set(ours.values))
    if len(common) > 1:
        values = [{x: one[x] for x in common} for one in values]
        at = f"{level(common[0])} to {level(common[-1])}"
    else:
        at = " against ".join(f"{level(min(v))} to {level(max(v))}" for v in values)
    slopes = [slope(one) for one in values]
    trends = [trend(one) for one in slopes]
    return _row(theirs, ours) | {
        "quantity": SLOPE,
        "of": _name(theirs, ours),
        "at": at,
        "published": slopes[0],
        "measured": slopes[1],
        "agree": "too few levels" if "" in trends else "yes" if trends[0] == trends[1] else "no",
    }


def _ratios(
    reference: Reference, pairs: Sequence[tuple[Curve, list[Curve]]]
) -> Iterator[dict[str, Any]]:
    """The ratios of two systems in one series, and of the paired series of one system."""
    pairs = [pair for pair in pairs if pair[0].series.ratios]
    for (i, (one, ours)), (j, (two, others)) in itertools.permutations(enumerate(pairs), 2):
        ids = [one.series.id, two.series.id]
        # The system that the reference lists first is the numerator.
        same_series = i < j and ids[0] == ids[1] and one.system != two.system
        paired = one.system == two.system and ids in reference.pairs
        if one.same == two.same and (same_series or paired):
            for a, b in itertools.product(ours, others):
                if a.setting == b.setting and (same_series or a.engine == b.engine):
                    yield from _ratio_rows((one, a), (two, b))


def _ratio_rows(over: tuple[Curve, Curve], under: tuple[Curve, Curve]) -> Iterator[dict[str, Any]]:
    """The ratios of two systems, each (published, measured), at every level that all four curves
    have, and the ratio of their best values."""
    curves = (*over, *under)
    series = over[0].series
    common = set.intersection(*(set(curve.values) for curve in curves))
    places = [(level(x) if series.x else "", [x] * 4) for x in sorted(common)]
    if series.x is not None:
        places.append(("best of each", [curve.best() for curve in curves]))
    names = [_name(*pair) for pair in (over, under)]
    if series.id != under[0].series.id:
        titles = (series.title, under[0].series.title)
        names = [f"{title}, {name}" for title, name in zip(titles, names, strict=True)]
    for at, levels in places:
        values = [curve.values[x] for curve, x in zip(curves, levels, strict=True)]
        if min(values) <= 0:
            continue
        theirs, ours = values[0] / values[2], values[1] / values[3]
        yield _row(*over) | {
            "quantity": RATIO,
            "of": " over ".join(names),
            "at": at,
            "published": theirs,
            "measured": ours,
            "agree": "yes" if side(theirs) == side(ours) else "no",
        }


def _name(theirs: Curve, ours: Curve) -> str:
    engine = engines.title(ours.engine)
    return engine if theirs.system == ours.engine else f"{engine} (published: {theirs.system})"


def finding(agreement: pd.DataFrame) -> list[str]:
    """The agreement, one sentence per reference; empty if nothing could be compared."""
    words = {
        SLOPE: "curves rise, fall or stay as published",
        RATIO: "ratios are on the published side of 1",
    }
    sentences = []
    known = agreement[agreement["agree"] != "too few levels"]
    for name, rows in known.groupby("reference", sort=False):
        of_kind = {kind: rows[rows["quantity"] == kind]["agree"] for kind in words}
        parts = [
            f"{(agree == 'yes').sum()} of {len(agree)} {words[kind]}"
            for kind, agree in of_kind.items()
            if len(agree)
        ]
        sentences.append(f"{name}: {'; '.join(parts)}")
    return sentences
