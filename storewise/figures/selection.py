"""Which rows of the tables a figure shows, in which order, and what they are called there."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import setting
from storewise.analysis.model.tables import Tables
from storewise.figures.style import Style

#: Most panels (phases, trials) of one figure; a figure with more is no longer read.
MAX_PANELS = 6


def style_of(tables: Tables) -> Style:
    """The style of a study's engines, failed ones included, so that colours never move."""
    engines = set(tables.results.trials.get("engine", pd.Series(dtype=str)))
    engines |= {str(f.factors["engine"]) for f in tables.results.failed if "engine" in f.factors}
    return Style(engines)


def phase_title(phase: str) -> str:
    return {"write": "write (parsing and loading)"}.get(phase, phase)


def engines_in(table: pd.DataFrame) -> list[str]:
    """Engines in the order of the legend, the ceiling last."""
    there = set(table["engine"])
    names = sorted(there - {BASELINE, CEILING})
    ends = [[name] if name in there else [] for name in (BASELINE, CEILING)]
    return [*ends[0], *names, *ends[1]]


def lowest(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The rows of each engine at the lowest level of each of these factors; a factor that an
    engine does not have leaves out none of its rows."""
    kept = []
    for _, own in table.groupby("engine", sort=False):
        for name in names:
            levels = own[name].dropna()
            if len(levels):
                own = own[own[name] == levels.min()]
        kept.append(own)
    return pd.concat(kept) if kept else table


def shared_setting(found: pd.DataFrame, names: list[str]) -> str:
    """The setting that the engines of a figure share, or that each has its own."""
    texts = {setting(row, names) for row in records(found)} - {""}
    longest = max(texts, key=len)
    if all(set(text.split(", ")) <= set(longest.split(", ")) for text in texts):
        return longest
    return "the lowest level of each engine's other factors"
