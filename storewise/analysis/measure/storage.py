"""What a store takes on disk: bytes in all, per document, and against the size of the inputs.

The size is that at the end of the load, after the engine's final flush: of embedded stores the
allocated blocks, summed over the stores of all workers; of servers what the server itself counts
as its documents and indexes, or as its database. ``node_bytes`` is what the data directories of
all servers of a trial held when these ended: logs, system tables and preallocated files too.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import grouped, numbered, rows_of
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.measure.throughput import INSERT, STEP, counters, loading

UNITS = {
    "store_bytes": "B",
    "bytes_per_document": "B/document",
    "share_of_input": "1",
    "share_of_raw_input": "1",
    "node_bytes": "B",
}
COLUMNS = [*STEP, "measure", "value", "unit"]


def storage(samples: pd.DataFrame, inputs: InputTotals | None) -> pd.DataFrame:
    """One row per trial and measure, for trials that loaded something and told its size."""
    loads = counters(samples, "documents", per_second=False)
    loads = loads[loads["operation"] == INSERT]
    # The bytes of an insert are those of the decompressed text that its documents came from.
    bytes_in = counters(samples, "bytes", per_second=False)
    bytes_in = bytes_in[bytes_in["operation"] == INSERT]
    read = bytes_in.groupby(STEP, observed=True)["value"].sum()
    of_load = loading(samples)
    sizes = dict(grouped(samples[samples["metric"] == "store_bytes"], STEP))
    rows = []
    for (trial, phase, step, _), group in grouped(loads, [*STEP, "operation"]):
        if (str(trial), str(phase)) not in of_load:
            continue
        count = float(group["value"].sum())
        mine = sizes.get((trial, phase, step))
        if mine is None or count <= 0:
            continue
        size = final_size(mine)
        found = {"store_bytes": size, "bytes_per_document": size / count}
        # The size of a share of the files is in the list of that trial's shards only.
        whole = "volume" not in mine or not (mine["volume"] < 1).any()
        if inputs is not None and inputs.bytes and whole:
            found["share_of_input"] = size / inputs.bytes
        text = float(read.get((trial, phase, step), 0.0))
        if text > 0:
            found["share_of_raw_input"] = size / text
        rows += [
            {
                "trial": str(trial),
                "phase": str(phase),
                "step": step,
                "measure": measure,
                "value": value,
                "unit": UNITS[measure],
            }
            for measure, value in found.items()
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def node_storage(sessions: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """``node_bytes`` of each trial with servers, beside the other measures of its load.

    `sessions` is `sessions.sessions`, `stored` is `storage`.
    """
    loads = stored.drop_duplicates("trial").set_index("trial")
    rows = [
        {
            "trial": row.trial,
            "phase": loads.loc[row.trial, "phase"],
            "step": loads.loc[row.trial, "step"],
            "measure": "node_bytes",
            "value": row.node_bytes,
            "unit": UNITS["node_bytes"],
        }
        for row in rows_of(sessions)
        if row.trial in loads.index and row.node_bytes > 0
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def final_size(rows: pd.DataFrame) -> float:
    """The last size of each worker's (or node's) stores, summed.

    A value at the end of the phase counts more than the last one of its seconds.
    """
    stores = numbered(rows, ["worker", "node"])
    second = rows["second"].to_numpy(dtype=float)
    at_end = np.isnan(second)
    ended = np.zeros(stores.groups, dtype=bool)
    ended[stores.number[at_end]] = True
    last = stores.highest(np.where(at_end, -np.inf, second))
    counts = np.where(ended[stores.number], at_end, second == last[stores.number])
    return float(rows["value"].to_numpy(dtype=float)[counts].sum())
