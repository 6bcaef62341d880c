"""The figures of a study to compare: one number per trial and figure.

A figure is the rate of a phase, p99 or the mean time of its operations, or a size. A step is
identified by its parameters, not by its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import level
from storewise.analysis.judge.comparable_steps import LOAD_RATE, loads, of_rates
from storewise.analysis.model.columns import ALL, HIGHEST, OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables

RATE, TIME, SIZE = "rate", "time", "size"
SIZES = ("bytes_per_document", "inodes")
#: Columns that identify a figure.
FIGURE = ["phase", "step", "measure", "kind"]


def figures_of(tables: Tables) -> pd.DataFrame:
    """Columns: trial, phase, step (text, empty if there is one), measure, kind (RATE, TIME in s,
    SIZE), round, value, and the study's factors.

    Target rates of the study are left out. Of a search for a rate only its result is included.
    """
    every = tables.measures[~tables.measures["phase"].isin(tables.searched)]
    every = every.assign(step=_steps(every))
    loading, whole = loads(tables.throughput), every["operation"] == ALL
    rates = every[whole & of_rates(every, loading, [LOAD_RATE]) & every["rate"].isna()]
    p99 = every[whole & (every["measure"] == "response_p99")]
    means = every[~whole & (every["measure"] == "response_mean") & ~every["phase"].isin(loading)]
    means = means[means.groupby(["trial", "phase", "step"])["operation"].transform("size") > 1]
    found = tables.measures[tables.measures["measure"] == HIGHEST]
    frames = [
        rates.assign(kind=RATE),
        p99.assign(kind=TIME, measure="p99"),
        means.assign(kind=TIME, measure="mean time of " + means["operation"].astype(str)),
        every[whole & every["measure"].isin(SIZES)].assign(kind=SIZE),
        found.assign(
            step=[f"clients {level(row['clients'])}, {row[OTHER]}" for row in records(found)],
            kind=RATE,
        ),
    ]
    columns = ["trial", *FIGURE, "value"]
    figures = pd.concat([frame[columns].astype(object) for frame in frames], ignore_index=True)
    trials = tables.trials[["trial", "repeat", *tables.results.factors]]
    figures = figures.merge(trials.rename(columns={"repeat": "round"}), on="trial")
    # What stores nothing has no times and no sizes.
    return figures[(figures["engine"] != CEILING) | (figures["kind"] == RATE)].astype(
        {"value": float}
    )


def _steps(rows: pd.DataFrame) -> pd.Series:
    """The parameters of each row's step in words; steps with equal parameters are numbered."""
    steps = rows.drop_duplicates(["trial", "phase", "step"])
    words = pd.Series([_words(row) for row in records(steps)], steps.index, dtype=object)
    again = steps.assign(words=words).groupby(["trial", "phase", "words"]).cumcount() + 1
    words += [f" (again, {count})" if count > 1 else "" for count in again]
    named = steps[["trial", "phase", "step"]].assign(words=words)
    return rows[["trial", "phase", "step"]].merge(named, how="left")["words"].set_axis(rows.index)


def _words(row: Mapping[str, Any]) -> str:
    words = [f"{name} {level(row[name])}" for name in PARAMETERS if not missing(row[name])]
    return ", ".join(words + ([] if missing(row[OTHER]) or not row[OTHER] else [str(row[OTHER])]))
