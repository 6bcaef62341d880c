"""The rates that a phase is judged by, and the steps at which stores can be compared.

A load is judged by its documents, any other phase by its operations. An open loop's throughput is
its target rate, so such steps rank no store; the result of a search does, but its steps differ
between repeats. Steps are compared only if they do the same work (distribution, number of
operations, slowed nodes); the number of clients may differ: each store has its own best one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.common.engines import BASELINE, CEILING, title
from storewise.analysis.common.frames import records
from storewise.analysis.common.text import all_of
from storewise.analysis.model.columns import HIGHEST, OTHER
from storewise.analysis.model.tables import Tables

#: Rates of a load: with and without the time in which clients read and parse.
LOAD_RATES = ("documents_per_s", "insert_documents_per_s")
LOAD_RATE = LOAD_RATES[0]
OTHER_RATE = "operations_per_s"
#: Column that describes how a row's step differs from others, in words.
WITH = "with"


def loads(table: pd.DataFrame) -> set[str]:
    """The phases that load, recognized by measures that only loads have."""
    rows = table["measure"].isin([LOAD_RATES[1], "parse_share"])
    return set(map(str, table.loc[rows, "phase"]))


def set_rates(tables: Tables) -> set[tuple[str, int]]:
    """The (phase, step) pairs with a target rate, set by the study or by a search."""
    steps = tables.steps
    rated = steps[steps["rate"].notna() | steps["phase"].isin(tables.searched)]
    return {(str(p), int(s)) for p, s in zip(rated["phase"], rated["step"], strict=True)}


def at_steps(
    rows: pd.DataFrame, steps: Collection[Any], keys: Sequence[str] = ("phase", "step")
) -> NDArray[np.bool_]:
    """A mask of the rows of these steps, which are identified by the columns `keys`."""
    places = rows[list(keys)].itertuples(index=False, name=None)
    return np.array([place in steps for place in places], dtype=bool)


def of_rates(
    rows: pd.DataFrame, loading: Collection[str], load_rates: Sequence[str] = LOAD_RATES
) -> pd.Series:
    """A mask of the rows whose measure is a rate that their phase is judged by."""
    load = rows["phase"].isin(loading)
    return (load & rows["measure"].isin(load_rates)) | (~load & (rows["measure"] == OTHER_RATE))


def headline_rates(tables: Tables, table: pd.DataFrame) -> pd.DataFrame:
    """The rows with each phase's main rate, without steps that had a target rate."""
    rates = table[of_rates(table, loads(tables.throughput), [LOAD_RATE])]
    return rates[~at_steps(rates, set_rates(tables))]


def closed_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one phase (of a summary) from closed loops with the same work.

    The work is that of the fastest store's step. Column WITH describes what distinguishes it.
    """
    kept = rows[rows["rate"].isna()]
    if kept.empty:
        return kept.assign(**{WITH: ""})
    kept = kept.assign(**{OTHER: kept[OTHER].fillna("")})
    several = {n: kept[n].nunique() > 1 for n in ("clients", "planned", OTHER)}
    stores = kept[~kept["engine"].isin([CEILING, BASELINE])]
    if len(stores):
        top = max(records(stores), key=lambda row: float(row["mean"]))
        kept = kept[kept[OTHER] == top[OTHER]]
        if not pd.isna(top["planned"]):
            kept = kept[kept["planned"] == top["planned"]]
    words = []
    for row in records(kept):
        parts = [row[OTHER]] if several[OTHER] else []
        if several["planned"] and not pd.isna(row["planned"]):
            parts.append(f"{row['planned']:,.0f} operations")
        if several["clients"] and not pd.isna(row["clients"]):
            parts.append(clients_in_words(row["clients"]))
        words.append(", ".join(part for part in parts if part))
    return kept.assign(**{WITH: words})


def clients_in_words(count: float) -> str:
    """``1 client``, ``2,000 clients``."""
    return f"{count:,.0f} client{'s' if count != 1 else ''}"


def open_phases(steps: pd.DataFrame) -> set[str]:
    """Phases all of whose steps had a target rate."""
    return set(steps["phase"]) - set(steps.loc[steps["rate"].isna(), "phase"])


def sentences(tables: Tables) -> Iterator[str]:
    """Sentences about open loops: which phases rank no store, and which searches found no rate."""
    paced = open_phases(tables.steps) - tables.searched
    if quiet := [f"phase {phase}" for phase in sorted(paced)]:
        yield (
            f"{all_of(quiet)}: not ranked, because the study set the rates; the table and figures "
            "of steps show the latency at each rate."
        )
    found = tables.measures[tables.measures["measure"] == HIGHEST]
    for phase in sorted(tables.searched):
        there = tables.throughput.loc[tables.throughput["phase"] == phase, "trial"]
        trials = tables.trials[tables.trials["trial"].isin(there)]
        answered = trials["trial"].isin(found.loc[found["phase"] == phase, "trial"])
        for engine, has in answered.groupby(trials["engine"], sort=False):
            if engine != CEILING and not has.all():
                yield (
                    f"Phase {phase}: searches in {(~has).sum()} of {len(has)} trials of "
                    f"{title(str(engine))} found no rate that met their limit; its highest rate is "
                    "a mean without them."
                )
