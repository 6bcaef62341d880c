"""All figures of trials as one long table: `COLUMNS`.

A row is one figure of one trial, phase, step and operation ("all" of a step as a whole). Counts of
operations of a figure are in `count`. Times are read from histograms that were added over
workers, processes and threads, for percentiles cannot be averaged (Tene's HdrHistogram); warm-up
and failed operations are left out. *Service time* runs from the start of an operation, *response
time* from its intended start, so that only response time shows how long a client at a fixed rate
waits. A percentile is given only if ten operations lie above it: p99 from 1,000 operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import joined
from storewise.analysis.measure.latency import NS
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.model.columns import ALL, KEY, QUESTION_TIME, RATES
from storewise.analysis.model.results import Key
from storewise.metrics.hdr import SparseHistogram, percentiles

COLUMNS = ["trial", *KEY, "value", "unit", "count"]
#: Percentiles of times; maximum and median are given for any number of operations.
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
#: Least number of operations above a percentile for it to be given.
_ABOVE = 10


#: Operations that change a store and so are no question.
_CHANGES = ("add", "insert", "update", "delete", "finish")


def measures(
    samples: Reduction,
    throughput: pd.DataFrame,
    histograms: Mapping[Key, SparseHistogram],
    storage: pd.DataFrame,
    sessions: pd.DataFrame,
    clients: Mapping[StepKey, int],
) -> pd.DataFrame:
    """The figures of some trials: COLUMNS.

    `throughput`, `storage` and `sessions` are the tables of these names, `histograms` those of
    `latency.histograms`, `clients` the number of concurrent clients of a step (default 1).
    """
    each = samples.table("FROM step_measures WHERE operation <> 'all' OR measure = 'served'")
    means = samples.table("SELECT *, 'mean_service_time' AS measure FROM mean_times")
    waits = [name for name in sessions if str(name).endswith("_time")]
    of_sessions = sessions.melt(id_vars="trial", value_vars=waits, var_name="measure")
    of_sessions = of_sessions.dropna(subset="value").assign(phase="session", step=0, unit="s")
    rates = {**RATES, "served": "1"}
    table = joined(
        [
            throughput.assign(operation=ALL),
            each.assign(unit=each["measure"].map(rates)),
            means.rename(columns={"seconds": "value"}).assign(unit="s"),
            question_times(samples, clients),
            pd.DataFrame(_times(histograms), columns=COLUMNS),
            storage.assign(operation=ALL),
            of_sessions.assign(operation=ALL),
        ],
    )
    table = table.reindex(columns=COLUMNS)
    # The count of a rate is the number of timed operations.
    ended = table[(table["operation"] == ALL) & (table["measure"] == "service_p50")]
    counts = ended.set_index(STEP)["count"]
    rated = (table["operation"] == ALL) & table["measure"].isin(
        ["documents_per_s", "operations_per_s"]
    )
    keys = pd.MultiIndex.from_frame(table.loc[rated, STEP])
    table.loc[rated, "count"] = counts.reindex(keys).to_numpy()
    table = table.astype({"step": int, "value": float, "count": float})
    return table.sort_values(["trial", *KEY], kind="stable", ignore_index=True)


def question_times(samples: Reduction, clients: Mapping[StepKey, int]) -> pd.DataFrame:
    """Time of a question in s, in phases after the load: the mean service time after the warm-up
    divided by the number of concurrent `clients`."""
    table = samples.table(
        "SELECT trial, phase, step, operation, seconds AS value FROM mean_times_after_warmup "
        "WHERE seconds > 0 AND phase NOT IN (SELECT phase FROM loads)"
    )
    table = table[~table["operation"].isin(_CHANGES)]
    steps = table[STEP].itertuples(index=False, name=None)
    at_once = np.array([clients.get(step, 1) for step in steps], dtype=float)
    return table.assign(measure=QUESTION_TIME, value=table["value"] / at_once, unit="s")


def _times(histograms: Mapping[Key, SparseHistogram]) -> Iterator[tuple[object, ...]]:
    """Rows of COLUMNS in s, for each operation and for all operations."""
    whole: dict[tuple[str, str, int, str], list[SparseHistogram]] = {}
    for (trial, phase, step, operation, owner, time), one in histograms.items():
        if not owner:
            whole.setdefault((trial, phase, step, time), []).append(one)
            yield from _rows((trial, phase, step, operation), time, one)
    for (trial, phase, step, time), each in whole.items():
        total = SparseHistogram()
        for one in each:
            total.add(one)
        yield from _rows((trial, phase, step, ALL), time, total)


def _rows(
    place: tuple[object, ...], time: str, one: SparseHistogram
) -> Iterator[tuple[object, ...]]:
    count = one.get_total_count()
    if not count:
        return
    # The rounding error of 1 - 0.999 must not reject exactly ten.
    told = {
        name: percentile
        for name, percentile in PERCENTILES.items()
        if percentile <= 50 or count * (1 - percentile / 100) >= _ABOVE - 1e-6
    }
    values = percentiles(one, [*told.values(), 100.0])
    for name, percentile in {**told, "max": 100.0}.items():
        yield *place, f"{time}_{name}", values[percentile] / NS, "s", count
    yield *place, f"{time}_mean", one.get_mean_value() / NS, "s", count


def with_steps(table: pd.DataFrame, parameters: pd.DataFrame) -> pd.DataFrame:
    """Rows of trials with the columns `steps.PARAMETERS` and OTHER of their steps; missing if a
    phase has a single step."""
    return table.merge(parameters, on=STEP, how="left")
