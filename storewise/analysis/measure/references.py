"""Published figures beside measured ones: shapes and ratios, never absolute values.

The hardware, versions and clients of a published study are others, so its values are only listed.
What can be compared without them:

- *shape*: how a value changes over the levels of one thing. Both curves are divided by their own
  value at the lowest level that both have (else at their own lowest), and each gets the slope of
  its least-squares line in logarithms of both axes: 1 is proportional, 0 is flat.
- *ratio*: one system's value over another's at the same level, and of the best values of both.

All functions are pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import title
from storewise.analysis.common.text import level
from storewise.analysis.measure.points import Point
from storewise.analysis.measure.reference_curves import (
    Curve,
    base_of,
    measured,
    published,
    side,
    slope,
    trend,
)
from storewise.study.references import Reference, cells, reason

VALUES = ["reference", "line", "series", "system", "setting", "x_name", "x", "value", "unit"]
CURVES = ["reference", "series", "title", "source", "system", "engine", "fixed", "setting"]
CURVES += ["x_name", "x", "value", "unit", "base", "relative"]
SHAPES = ["reference", "series", "title", "system", "engine", "setting", "x_name", "levels"]
SHAPES += ["published_slope", "measured_slope", "published_trend", "measured_trend"]
SHAPES += ["published_best", "measured_best", "agree"]
RATIOS = ["reference", "series", "title", "setting", "x_name", "at", "over", "under"]
RATIOS += ["published", "measured", "agree"]


@dataclass(frozen=True, slots=True)
class Compared:
    """The tables of a study's references."""

    values: pd.DataFrame
    """Every published value, not to be compared as it is."""
    curves: pd.DataFrame
    shapes: pd.DataFrame
    ratios: pd.DataFrame


def compare(references: Sequence[Reference], points: Sequence[Point]) -> Compared:
    """Everything that references and measured points have in common."""
    values: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    ratios: list[dict[str, Any]] = []
    for reference in references:
        theirs = published(reference)
        pairs = [(one, ours) for one in theirs if (ours := measured(reference, one, points))]
        values += _values(reference, {(c.series.id, c.system, c.same) for c, _ in pairs})
        panels: dict[tuple[Any, ...], list[Curve]] = {}
        for one, ours in pairs:
            if one.series.x is not None:
                panels.setdefault((one.series.id, one.same), []).extend((one, *ours))
                shapes += [_shape(one, own) for own in ours]
        for panel in panels.values():
            curves += [row for own in panel for row in _curve_rows(own, base_of(own, panel))]
        ratios += _ratios(reference, pairs)
    return Compared(
        pd.DataFrame(values, columns=[*VALUES, "compared"]),
        pd.DataFrame(curves, columns=CURVES),
        pd.DataFrame(shapes, columns=SHAPES),
        pd.DataFrame(ratios, columns=RATIOS),
    )


def _values(reference: Reference, used: set[tuple[Any, ...]]) -> list[dict[str, Any]]:
    rows, seen = [], set()
    for cell in cells(reference):
        series, row = cell.series, cell.row
        seen.add(cell.line)
        same = tuple((ours, row[column]) for column, ours in series.same.items())
        known = (series.id, row[reference.system], same) in used
        rows.append(
            {
                "reference": reference.name,
                "line": cell.line,
                "series": series.title,
                "system": row[reference.system],
                "setting": _same_text(same),
                "x_name": series.x.column if series.x else "",
                "x": float(row[series.x.column]) if series.x else math.nan,
                "value": float(row[series.value]) * series.times,
                "unit": series.unit,
                "compared": "yes" if known else "not measured in this study",
            }
        )
    for line, row in enumerate(reference.rows, start=2):
        if line not in seen:
            text = ", ".join(f"{k} {v}" for k, v in row.items() if v and k != reference.system)
            rows.append(
                {
                    "reference": reference.name,
                    "line": line,
                    "series": "",
                    "system": row[reference.system],
                    "setting": text,
                    "x_name": "",
                    "x": math.nan,
                    "value": math.nan,
                    "unit": "",
                    "compared": reason(reference, row) or "",
                }
            )
    return sorted(rows, key=lambda r: (str(r["reference"]), int(str(r["line"])), str(r["series"])))


def _same_text(same: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in same)


def setting_of(curve: Curve) -> str:
    """What a curve holds fixed, as its publication and our study have it."""
    return ", ".join(filter(None, [_same_text(curve.same), curve.setting]))


def _curve_rows(curve: Curve, base: float) -> list[dict[str, Any]]:
    assert curve.series.x is not None
    return [
        {
            "reference": curve.reference,
            "series": curve.series.id,
            "title": curve.series.title,
            "source": "measured" if curve.engine else "published",
            "system": curve.system,
            "engine": curve.engine,
            "fixed": _same_text(curve.same),
            "setting": setting_of(curve),
            "x_name": curve.series.x.level,
            "x": x,
            "value": value,
            "unit": curve.series.unit,
            "base": base,
            "relative": value / curve.values[base] if curve.values[base] else math.nan,
        }
        for x, value in curve.values.items()
    ]


def _shape(one: Curve, own: Curve) -> dict[str, Any]:
    assert one.series.x is not None
    common = sorted(set(one.values) & set(own.values))
    if len(common) > 1:
        theirs, ours = ({x: c.values[x] for x in common} for c in (one, own))
        levels = f"{level(common[0])} to {level(common[-1])}"
    else:
        theirs, ours = dict(one.values), dict(own.values)
        levels = " against ".join(f"{level(min(v))} to {level(max(v))}" for v in (theirs, ours))
    slopes = slope(theirs), slope(ours)
    trends = trend(slopes[0]), trend(slopes[1])
    agree = "too few levels" if "" in trends else "yes" if trends[0] == trends[1] else "no"
    return {
        "reference": one.reference,
        "series": one.series.id,
        "title": one.series.title,
        "system": one.system,
        "engine": own.engine,
        "setting": setting_of(own),
        "x_name": one.series.x.level,
        "levels": levels,
        "published_slope": slopes[0],
        "measured_slope": slopes[1],
        "published_trend": trends[0],
        "measured_trend": trends[1],
        "published_best": one.best(),
        "measured_best": own.best(),
        "agree": agree,
    }


def _ratios(
    reference: Reference, pairs: Sequence[tuple[Curve, list[Curve]]]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    told = [(one, ours) for one, ours in pairs if one.series.ratios]
    for (one, ours), (two, others) in itertools.combinations(told, 2):
        same_series = one.series.id == two.series.id and one.system != two.system
        if one.same != two.same or not (
            same_series or (one.system == two.system and _paired(reference, one, two))
        ):
            continue
        for a, b in itertools.product(ours, others):
            if a.setting == b.setting and (same_series or a.engine == b.engine):
                rows += _ratio_rows(reference, (one, two), (a, b))
    return rows


def _paired(reference: Reference, one: Curve, two: Curve) -> bool:
    return any({one.series.id, two.series.id} == set(pair) for pair in reference.pairs)


def _ratio_rows(
    reference: Reference, theirs: tuple[Curve, Curve], ours: tuple[Curve, Curve]
) -> Iterable[dict[str, Any]]:
    """The ratios of two systems at every level that all four curves have, and of their bests."""
    if [theirs[1].series.id, theirs[0].series.id] in reference.pairs:
        theirs, ours = (theirs[1], theirs[0]), (ours[1], ours[0])
    series = theirs[0].series
    common = set.intersection(*(set(c.values) for c in (*theirs, *ours)))
    places: list[tuple[str, tuple[float, ...]]] = [
        (level(x) if series.x else "", (x, x, x, x)) for x in sorted(common)
    ]
    if series.x is not None:
        places.append(("best of each", tuple(c.best() for c in (*theirs, *ours))))
    for at, (a, b, c, d) in places:
        over, under = theirs[0].values[a], theirs[1].values[b]
        mine, other = ours[0].values[c], ours[1].values[d]
        if min(over, under, mine, other) <= 0:
            continue
        ratios = over / under, mine / other
        yield {
            "reference": reference.name,
            "series": series.id,
            "title": series.title,
            "setting": setting_of(ours[0]),
            "x_name": series.x.level if series.x else "",
            "at": at,
            "over": _name(theirs[0], ours[0], theirs[0].series.id != theirs[1].series.id),
            "under": _name(theirs[1], ours[1], theirs[0].series.id != theirs[1].series.id),
            "published": ratios[0],
            "measured": ratios[1],
            "agree": "yes" if side(ratios[0]) == side(ratios[1]) else "no",
        }


def _name(theirs: Curve, ours: Curve, with_series: bool) -> str:
    engine = title(ours.engine)
    text = engine if theirs.system == ours.engine else f"{engine} (published: {theirs.system})"
    return f"{theirs.series.title}, {text}" if with_series else text


def finding(shapes: pd.DataFrame, ratios: pd.DataFrame) -> list[str]:
    """What agrees, a sentence for each reference; empty where nothing could be compared."""
    found = []
    for name in dict.fromkeys([*shapes["reference"], *ratios["reference"]]):
        curves = shapes[(shapes["reference"] == name) & (shapes["agree"] != "too few levels")]
        pairs = ratios[ratios["reference"] == name]
        parts = []
        if len(curves):
            agree = int((curves["agree"] == "yes").sum())
            parts.append(f"{agree} of {len(curves)} curves rise, fall or stay as published")
        if len(pairs):
            agree = int((pairs["agree"] == "yes").sum())
            parts.append(f"{agree} of {len(pairs)} ratios are on the published side of 1")
        if parts:
            found.append(f"{name}: {'; '.join(parts)}")
    return found
