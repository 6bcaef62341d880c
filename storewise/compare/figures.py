"""What is compared of a study: one number per trial and figure.

A figure is the rate of a phase, p99 or the mean time of its operations, or a size. A step is
known by its parameters, not by its number: those of a search differ between rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import CEILING
from storewise.analysis.common.frames import missing, records
from storewise.analysis.common.text import level
from storewise.analysis.judge.comparable_steps import LOAD_RATE, at_steps, loads, of_rates
from storewise.analysis.measure.reduction import STEP
from storewise.analysis.measure.steps import step_parameters
from storewise.analysis.model.columns import ALL, OTHER, PARAMETERS
from storewise.analysis.model.tables import Tables

RATE, TIME, SIZE = "rate", "time", "size"
SIZES = ("bytes_per_document", "inodes")
#: What a figure is known by.
FIGURE = ["phase", "step", "measure", "kind"]


def figures_of(tables: Tables) -> pd.DataFrame:
    """Columns: trial, phase, step (in words, empty for the only one), measure, kind (RATE, TIME in
    s, SIZE), round, value, and the study's factors.

    Rates that the study has set are no figures. Of a search only the rate that it found is one.
    """
    names = _step_names(tables)
    paced = {step for step, (_, rate) in names.items() if rate}
    throughput = tables.throughput
    rates = throughput[of_rates(throughput, loads(throughput), [LOAD_RATE])]
    sizes = tables.storage[tables.storage["measure"].isin(SIZES)]
    frames = [
        rates[~at_steps(rates, paced, STEP)].assign(kind=RATE),
        _times(tables).assign(kind=TIME),
        sizes.assign(kind=SIZE),
    ]
    every = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    every = every[~at_steps(every, _searched(tables), STEP)]
    steps = every[STEP].itertuples(index=False, name=None)
    every = every.assign(step=[names.get(step, ("", False))[0] for step in steps])
    every = pd.concat([every, _answers(tables)], ignore_index=True)
    every = every[["trial", *FIGURE, "value"]].astype({"value": float})
    trials = tables.trials[["trial", "repeat", *tables.results.factors]]
    every = every.merge(trials.rename(columns={"repeat": "round"}), on="trial")
    # What stores nothing has no times and no sizes.
    return every[(every["engine"] != CEILING) | (every["kind"] == RATE)]


def _times(tables: Tables) -> pd.DataFrame:
    """p99 of the response times of each step, and of steps with several operations the mean of
    each, in s."""
    every = tables.measures[["trial", "phase", "step", "operation", "measure", "value"]]
    means = every[(every["measure"] == "response_mean") & (every["operation"] != ALL)]
    means = means[~means["phase"].isin(loads(tables.throughput))]
    means = means[means.groupby(STEP)["operation"].transform("size") > 1]
    p99 = every[(every["measure"] == "response_p99") & (every["operation"] == ALL)]
    of = "mean time of " + means["operation"].astype(str)
    return pd.concat([p99.assign(measure="p99"), means.assign(measure=of)])


def _searched(tables: Tables) -> set[tuple[str, str, int]]:
    """The steps of searches."""
    return {
        (str(row["trial"]), str(row["phase"]), int(row["first_step"]) + n)
        for row in records(tables.searches)
        for n in range(int(row["steps"]))
    }


def _answers(tables: Tables) -> pd.DataFrame:
    """The rates that searches found."""
    found = tables.searches[tables.searches["rate"].notna()]
    words = [
        f"clients {level(row['clients'])}, p{level(row['percentile'])} of {row['time']} time up to "
        f"{level(row['limit_ms'])} ms"
        for row in records(found)
    ]
    return found.assign(step=words, measure="highest_rate", kind=RATE, value=found["rate"])


def _step_names(tables: Tables) -> dict[tuple[str, str, int], tuple[str, bool]]:
    """Of steps with parameters these in words, and whether a rate was among them."""
    names: dict[tuple[str, str, int], tuple[str, bool]] = {}
    times: dict[tuple[str, str, str], int] = {}
    for row in records(step_parameters(tables.results.parts)):
        name = ", ".join(_parameters(row))
        trial, phase = str(row["trial"]), str(row["phase"])
        count = times[trial, phase, name] = times.get((trial, phase, name), 0) + 1
        again = f" (again, {count})" if count > 1 else ""
        names[trial, phase, int(row["step"])] = (name + again, not missing(row["rate"]))
    return names


def _parameters(row: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name} {level(row[name])}" for name in PARAMETERS if not missing(row[name]))
    if row[OTHER]:
        yield str(row[OTHER])
