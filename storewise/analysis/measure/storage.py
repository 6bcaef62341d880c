"""What a store takes on disk: bytes in all, per document, and against the size of the inputs.

The size is that at the end of the load, after the engine's final flush: of embedded stores the
allocated blocks, summed over the stores of all workers; of servers what the server itself counts
as its documents and indexes, or as its database. ``node_bytes`` is what the data directories of
all servers of a trial held when these ended: logs, system tables and preallocated files too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import numbered
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.measure.throughput import (
    INSERT,
    STEP,
    StepKey,
    by_operation,
    counters,
    loading,
)

UNITS = {
    "store_bytes": "B",
    "bytes_per_document": "B/document",
    "share_of_input": "1",
    "share_of_raw_input": "1",
    "node_bytes": "B",
}
COLUMNS = [*STEP, "measure", "value", "unit"]


def storage(
    samples: pd.DataFrame, inputs: InputTotals | None, partial: Collection[str] = ()
) -> pd.DataFrame:
    """One row per trial and measure, for trials that loaded something and told its size.

    `partial` are trials that loaded a share of the inputs: the size of that share is in the list of
    the trial's shards only.
    """
    inserted, text = (
        by_operation(counters(samples, metric, per_second=False))
        # The bytes of an insert are those of the decompressed text that its documents came from.
        for metric in ("documents", "bytes")
    )
    sizes = _sizes(samples[samples["metric"] == "store_bytes"])
    loads = loading(samples)
    rows = []
    for step, operations in inserted.items():
        count, size = operations.get(INSERT, 0.0), sizes.get(step)
        if step[:2] not in loads or size is None or count <= 0:
            continue
        values = {"store_bytes": size, "bytes_per_document": size / count}
        if inputs is not None and inputs.bytes and step[0] not in partial:
            values["share_of_input"] = size / inputs.bytes
        if read := text.get(step, {}).get(INSERT, 0.0):
            values["share_of_raw_input"] = size / read
        rows += [(*step, measure, value, UNITS[measure]) for measure, value in values.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def node_storage(sessions: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """``node_bytes`` of each trial with servers, beside the other measures of its load.

    `sessions` is `sessions.sessions`, `stored` is `storage`.
    """
    loads = stored[STEP].drop_duplicates("trial")
    table = sessions[sessions["node_bytes"] > 0].merge(loads, on="trial")
    table = table.assign(measure="node_bytes", unit=UNITS["node_bytes"])
    return table.rename(columns={"node_bytes": "value"})[COLUMNS]


def _sizes(rows: pd.DataFrame) -> dict[StepKey, float]:
    """The last size of each worker's (or node's) stores, summed, by trial, phase and step.

    A value at the end of the phase counts more than the last one of its seconds.
    """
    stores = numbered(rows, [*STEP, "worker", "node"])
    second = rows["second"].fillna(np.inf).to_numpy(dtype=float)
    last = rows[second == stores.highest(second)[stores.number]]
    sizes: dict[Any, float] = last.groupby(STEP, observed=True)["value"].sum().to_dict()
    return sizes
