"""What each trial gives for a criterion: the figures that the decision is made of.

A criterion's rows are means over repeats. Here the same figures are taken of each trial, a round of
the study each: so what went wrong with one trial is seen in all its criteria.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, title
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import setting
from storewise.analysis.judge.comparable_steps import WITH
from storewise.analysis.judge.corpus import VOLUME
from storewise.analysis.model.columns import KEY
from storewise.analysis.model.tables import Tables

#: Factors of the clients: how many there are may differ from criterion to criterion.
CLIENTS = ("workers", "processes", "threads")
COLUMNS = ["trial", "value", WITH]


def of_rows(
    tables: Tables,
    rows: pd.DataFrame,
    table: pd.DataFrame | None = None,
    keys: Sequence[str] = KEY,
) -> pd.DataFrame:
    """The trials' figures behind rows over repeats: COLUMNS.

    `table` has a value per trial and `keys` (the measures); rows are told by the factors and
    `keys`.
    """
    table = tables.measures if table is None else table
    factors = list(tables.results.factors)
    places = [*(f for f in factors if f in rows), *keys]
    wanted = rows.reindex(columns=[*places, WITH]).drop_duplicates(places)
    texts = [key for key in keys if key != "step"]
    table = table.astype(dict.fromkeys(texts, str)).merge(
        tables.trials[["trial", *factors]], on="trial"
    )
    return table.merge(wanted.astype(dict.fromkeys(texts, str)), on=places)[COLUMNS]


def placed(frame: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """A frame with the factors' columns, and `store`, `deployment` and `clients` (in words) and
    `volume` (a share of all inputs) of each row."""
    trials = tables.trials[tables.trials["engine"] != CEILING].groupby("engine", observed=True)
    factors = [f for f in tables.results.factors if f not in ("engine", VOLUME)]
    varying = [f for f in factors if bool((trials[f].nunique() > 1).any())]
    deployed = [f for f in varying if f not in CLIENTS]
    clients = [f for f in varying if f in CLIENTS]
    rows = records(frame.reindex(columns=[*dict.fromkeys([*frame, *tables.results.factors, WITH])]))
    with_ = ("" if missing(row[WITH]) else str(row[WITH]) for row in rows)
    counts = (setting(row, clients) for row in rows)
    return frame.assign(
        store=[title(str(row["engine"])) for row in rows],
        deployment=["" if row["engine"] == BASELINE else setting(row, deployed) for row in rows],
        clients=[", ".join(filter(None, pair)) for pair in zip(counts, with_, strict=True)],
        volume=[1.0 if missing(row.get(VOLUME)) else float(row[VOLUME]) for row in rows],
    )
