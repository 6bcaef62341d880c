"""From how many questions on a store pays against reading the SSEARCH outputs again.

A store costs its load once and then a time per question; the engine ``files`` costs no load and
more time per question. With L the time of the store's load (parsing, inserting, the final flush,
the building of its indexes, and before all that the start of its servers), F the time that a
question takes by reading the files and S that of the store, the store has paid for its load after

    N = L / (F - S)

questions of this kind, asked one after the other; never where F <= S. F is that of the fastest
``files`` configuration with the same clients. With C clients at once in a closed loop, F and S are
the mean times of a question over C: so long do C clients take for each of their questions, as L is
the time of all loading clients together.

L grows with the corpus. F does, too, where a question reads all files: N is then about the same
for any corpus. A look-up reads one file however many there are: N grows as the corpus does.

L, F and S are independent means over repeats. Their errors are carried into N by the delta method
on logarithms (Oehlert, The American Statistician 46(1), 1992): the variance of ln N is that of
ln L plus ((F e_F)^2 + (S e_S)^2) / (F - S)^2 with e the standard errors of the logarithms; degrees
of freedom as Welch and Satterthwaite have them. Where the interval of F - S reaches 0, N has no
upper end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side
from storewise.analysis.common.frames import key_of, records
from storewise.analysis.files.parts import Part, steps_of
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.measure.scaling import as_estimate
from storewise.analysis.measure.summary import summarise
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.model.results import Results
from storewise.analysis.stats.intervals import ESTIMATE, Estimate, half_width, welch

COLUMNS = ["phase", "step", "operation", "load", "files_question", "store_question"]
COLUMNS += ESTIMATE
#: What changes a store is no question.
_CHANGES = ("add", "insert", "update", "delete", "finish")


def questions_until_it_pays(load: Estimate, files: Estimate, store: Estimate) -> Estimate:
    """N of the module's text with its interval; inf is never."""
    n = min(load.n, files.n, store.n)
    gain = files.mean - store.mean
    mean = load.mean / gain if gain > 0 else math.inf
    if not all(one.known() for one in (load, files, store)):
        return Estimate(n, mean)
    # In units of the gain; without one the interval alone may tell.
    errors = [(files.mean * files.error, files.freedom), (store.mean * store.error, store.freedom)]
    half = half_width(math.hypot(*(e for e, _ in errors)), welch(errors))
    if gain - half <= 0:
        low = load.low / (gain + half) if gain + half > 0 else math.inf
        return Estimate(n, mean, low, math.inf)
    parts = [(load.error, load.freedom), *((e / gain, f) for e, f in errors)]
    error = math.sqrt(sum(e * e for e, _ in parts))
    return Estimate.of(n, mean, error, welch(parts))


def clients_at_once(parts: Iterable[Part]) -> dict[StepKey, int]:
    """Clients by trial, phase and step, of closed loops; an open loop does not share its time."""
    return {
        (trial, phase, number): int(step["clients"])
        for (trial, phase), steps in steps_of(parts).items()
        for number, step in enumerate(steps)
        if step.get("clients") and step.get("rate") is None
    }


def question_times(samples: Reduction, clients: Mapping[StepKey, int]) -> pd.DataFrame:
    """Time of a question in s per trial, phase after the load, step and operation: the mean
    service time of what ended after the warm-up, over the `clients` that asked at once."""
    table = samples.table(
        "SELECT trial, phase, step, operation, seconds AS value FROM mean_times_after_warmup "
        "WHERE seconds > 0 AND phase NOT IN (SELECT phase FROM loads) "
        "ORDER BY trial, phase, step, operation"
    )
    table = table[~table["operation"].isin(_CHANGES)]
    steps = table[STEP].itertuples(index=False, name=None)
    at_once = np.array([clients.get(step, 1) for step in steps], dtype=float)
    return table.assign(value=table["value"] / at_once, unit="s")


def load_times(samples: Reduction, sessions: pd.DataFrame) -> pd.DataFrame:
    """Wall time of each trial's load and of the start of its servers, without queues, in s."""
    table = samples.table(
        "SELECT trial, wall AS value, 's' AS unit FROM steps SEMI JOIN loads USING (trial, phase) "
        "ORDER BY trial"
    )
    times = sessions.set_index("trial")[["formed_time", "queue_time"]].astype(float)
    start = times["formed_time"] - times["queue_time"].fillna(0)
    starts = table["trial"].map(start.to_dict()).astype(float).fillna(0)
    return table.assign(value=table["value"].astype(float) + starts)


def breakeven(question: pd.DataFrame, load: pd.DataFrame, results: Results) -> pd.DataFrame:
    """One row per store's levels, phase, step and operation that the files were asked too.

    `question` is `question_times`, `load` is `load_times`.
    Columns: factors, then COLUMNS: times in s, and N as `mean` with its interval; inf is never.
    Empty for a study without the engine ``files``.
    """
    factors = list(results.factors)
    rows: list[dict[str, Any]] = []
    if BASELINE in set(results.trials.get("engine", ())):
        keys = ["phase", "step", "operation"]
        loads = records(summarise(load.assign(what="load"), results, ["what"]))
        load_of = {key_of(row, factors): as_estimate(row) for row in loads}
        alike = [*(f for f in client_side(factors) if f != "index"), *keys]
        fastest: dict[tuple[Any, ...], Estimate] = {}
        times = summarise(question, results, keys)
        for row in records(times[times["engine"] == BASELINE]):
            key, time = key_of(row, alike), as_estimate(row)
            fastest[key] = min(fastest.get(key, time), time, key=lambda one: one.mean)
        for row in records(times[~times["engine"].isin([BASELINE, CEILING])]):
            files, of_load = fastest.get(key_of(row, alike)), load_of.get(key_of(row, factors))
            if files is None or of_load is None:
                continue
            store = as_estimate(row)
            rows.append(
                {
                    **{name: row[name] for name in [*factors, *keys]},
                    "load": of_load.mean,
                    "files_question": files.mean,
                    "store_question": store.mean,
                    **questions_until_it_pays(of_load, files, store).columns(),
                }
            )
    return pd.DataFrame(rows, columns=[*factors, *COLUMNS])


def times_asked(value: float) -> str:
    """A number of questions in words: whole, at least one."""
    if not math.isfinite(value):
        return "never"
    return f"{max(1, math.ceil(value - 1e-9)):,}"
