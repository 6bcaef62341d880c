"""Which steps of a phase tell how stores compare.

An open loop's throughput is the rate that it was told to keep, so such steps rank no store; the
answers of searches do. Steps that were asked different things (another distribution, another number
of operations, a slowed node) are compared with their like only; how many clients reach the most is
a store's own affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.measure.steps import ALL, OTHER

#: Column with what a row's step was asked, in words.
WITH = "with"


def closed_steps(rows: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Of rows of one phase (a summary's) those of closed loops that were asked the same.

    What is asked is what the fastest store was fastest at. The steps are told in column WITH.
    """
    mine = steps[(steps["operation"] == ALL) & steps["phase"].isin(rows["phase"])]
    if mine.empty:
        return rows.assign(**{WITH: ""})
    told = mine.drop_duplicates(["phase", "step"])[["phase", "step", "clients", "planned", OTHER]]
    rated = mine.loc[mine["rate"].notna(), ["phase", "step"]].drop_duplicates()
    found = rows.merge(told, on=["phase", "step"], how="left")
    found = found.merge(rated, on=["phase", "step"], how="left", indicator=True)
    found = found[found["_merge"] == "left_only"].drop(columns="_merge")
    if found.empty:
        return found.assign(**{WITH: ""})
    found[OTHER] = found[OTHER].fillna("")
    several = {n: found[n].nunique() > 1 for n in ("clients", "planned", OTHER)}
    stores = found[~found["engine"].isin([CEILING, BASELINE])]
    if len(stores):
        top = max(records(stores), key=lambda row: float(row["mean"]))
        found = found[found[OTHER] == top[OTHER]]
        if not pd.isna(top["planned"]):
            found = found[found["planned"] == top["planned"]]
    words = []
    for row in records(found):
        parts = [row[OTHER]] if several[OTHER] else []
        if several["planned"] and not pd.isna(row["planned"]):
            parts.append(f"{row['planned']:,.0f} operations")
        if several["clients"] and not pd.isna(row["clients"]):
            clients = row["clients"]
            parts.append(f"{clients:,.0f} client{'s' if clients != 1 else ''}")
        words.append(", ".join(part for part in parts if part))
    return found.assign(**{WITH: words})


def open_phases(steps: pd.DataFrame) -> set[str]:
    """Phases all of whose steps had a target rate."""
    return set(steps["phase"]) - set(steps.loc[steps["rate"].isna(), "phase"])


def limits(highest: pd.DataFrame, searches: pd.DataFrame) -> list[tuple[str, str]]:
    """(phase, limit in words) of the searches, answered or not, in their order."""
    found = [*records(searches), *records(highest)]
    return list(dict.fromkeys((str(row["phase"]), limit_words(row)) for row in found))


def limit_words(row: Mapping[str, Any]) -> str:
    """The limit of a search in words."""
    return f"p{row['percentile']:g} of {row['time']} time within {row['limit_ms']:g} ms"


def answers(highest: pd.DataFrame, phase: str, limit: str) -> pd.DataFrame:
    """The highest rates over repeats that searches of a phase found for a limit."""
    rows = highest[highest["phase"] == phase]
    rows = rows.loc[[limit_words(row) == limit for row in records(rows)]]
    several = rows["clients"].nunique() > 1
    words = [f"{row['clients']:,.0f} clients" if several else "" for row in records(rows)]
    return rows.assign(**{WITH: words})


def sentences(
    phases: Sequence[str], steps: pd.DataFrame, searches: pd.DataFrame, trials: pd.DataFrame
) -> list[str]:
    """What is to be said of open loops: which phases rank no store, and which searches found no
    rate."""
    text = []
    asked = open_phases(steps) - set(searches["phase"])
    if quiet := [f"phase {phase}" for phase in phases if phase in asked]:
        text.append(
            f"Of {all_of(quiet)} nothing is said here: the rates were set by the study; how long "
            "operations took at each is in the table and figures of steps."
        )
    if searches.empty:
        return text
    known = searches.merge(trials[["trial", "engine"]], on="trial", how="inner")
    for (phase, engine), rows in known.groupby(["phase", "engine"], sort=False):
        none = int(rows["rate"].isna().sum())
        if none and engine != CEILING:
            text.append(
                f"Phase {phase}: {none} of {len(rows)} searches of "
                f"{title(str(engine))} found no rate that met their limit; what is said of its "
                "highest rate is without them."
            )
    return text
