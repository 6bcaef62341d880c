"""The rates that a phase is judged by.

A load is judged by its documents, any other phase by its operations. Steps at a rate that the study
set say nothing of what a store can do, and those of searches differ between repeats, so neither is
among them.
"""

from __future__ import annotations

import pandas as pd

from storewise.analysis.model.tables import Tables

LOAD_RATE = "documents_per_s"
OTHER_RATE = "operations_per_s"


def loads(tables: Tables) -> set[str]:
    """The phases that load."""
    found = tables.throughput
    return set(map(str, found.loc[found["measure"] == "insert_documents_per_s", "phase"]))


def set_rates(tables: Tables) -> set[tuple[str, int]]:
    """(phase, step) whose rate the study, or a search of it, has set."""
    steps = tables.steps
    rated = steps[steps["rate"].notna() | steps["phase"].isin(set(tables.searches["phase"]))]
    return {(str(p), int(s)) for p, s in zip(rated["phase"], rated["step"], strict=True)}


def headline_rates(tables: Tables, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table with phase, step and measure that are such rates."""
    of_load = table["phase"].isin(loads(tables))
    mine = table[
        (of_load & (table["measure"] == LOAD_RATE)) | (~of_load & (table["measure"] == OTHER_RATE))
    ]
    told = set_rates(tables)
    if not told:
        return mine
    places = zip(mine["phase"], mine["step"], strict=True)
    return mine.loc[[(str(p), int(s)) not in told for p, s in places]]
