"""Curves that were fitted to what was measured: the Universal Scalability Law beside speed-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from storewise.analysis.common.frames import missing, records
from storewise.analysis.model.tables import Tables
from storewise.analysis.stats.usl import law

#: Points of a drawn curve.
_POINTS = 40


def law_of(tables: Tables, row: Mapping[str, Any], factor: str) -> Mapping[str, Any] | None:
    """The fitted law (a row of the judged table `usl`) of the engine, phase and other factors of
    `row` over `factor`; None where none was fitted."""
    fitted = tables.judged.get("usl")
    if fitted is None or fitted.empty:
        return None
    mine = fitted[(fitted["factor"] == factor) & fitted["lambda"].notna()]
    mine = mine[(mine["engine"] == row["engine"]) & (mine["phase"] == row["phase"])]
    others = [f for f in tables.results.factors if f != factor and f in row]
    for one in records(mine):
        if all(_same(one[f], row[f]) for f in others):
            return one
    return None


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (missing(one) and missing(other))


def relative_law(
    fitted: Mapping[str, Any], base: float, levels: Sequence[float]
) -> tuple[list[float], list[float]]:
    """(levels, speed-up over `base`) of a fitted law between the lowest and highest level."""
    xs = np.linspace(min(levels), max(levels), _POINTS)
    first = law(base, fitted["lambda"], fitted["sigma"], fitted["kappa"])
    ys = [law(x, fitted["lambda"], fitted["sigma"], fitted["kappa"]) / first for x in xs]
    return [float(x) for x in xs], [float(y) for y in ys]
