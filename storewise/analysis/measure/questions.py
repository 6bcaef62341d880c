"""Times of questions and of loads: what loading pays is made of (`derived.pays`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from storewise.analysis.files.parts import Part, steps_of
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.measure.throughput import StepKey

#: What changes a store is no question.
_CHANGES = ("add", "insert", "update", "delete", "finish")


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
