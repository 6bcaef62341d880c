"""What a store takes on disk: bytes in all, per document, and against the size of the inputs.

The size is that at the end of the load, after the engine's final flush: of embedded stores the
bytes of their files, summed over the stores of all workers; of servers what the server itself
counts as its documents and indexes, or as its database. ``node_bytes`` is what the data directories
of all servers of a trial held when these ended: logs, system tables and preallocated files too.
Stores are judged by the first; ``holds_from`` is the number of documents from which on the rest is
under a tenth of the directories, if it grows no further.

``inodes`` are the files and directories at the end of the load, of all workers or servers of a
trial together: what a quota counts. ``metadata_operations`` are how often at least files were
created, renamed or removed and directories made until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from storewise.analysis.common.frames import grouped, numbered
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
    "node_bytes_per_document": "B/document",
    "holds_from": "1",
    "files": "1",
    "inodes": "1",
    "metadata_operations": "1",
}
COLUMNS = [*STEP, "measure", "value", "unit"]
#: From `holds_from` documents on, at most this share of the directories is not data.
_OVERHEAD_SHARE = 0.1
#: Metric of files after the load -> the measure of all workers' or servers'.
_INODES = {"store_files": "files", "store_inodes": "inodes"}
_OPERATIONS = ("files_created", "files_renamed", "files_removed", "directories_made")
#: Metrics of nodes and what they make together.
NODE_INODES = (*_INODES, *_OPERATIONS)


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
    counted = _counted(samples)
    rows = []
    for step, operations in inserted.items():
        count, size = operations.get(INSERT, 0.0), sizes.get(step)
        if step[:2] not in loads or count <= 0:
            continue
        values: dict[str, float] = {}
        if size is not None:
            values = {"store_bytes": size, "bytes_per_document": size / count}
            if inputs is not None and inputs.bytes and step[0] not in partial:
                values["share_of_input"] = size / inputs.bytes
            if read := text.get(step, {}).get(INSERT, 0.0):
                values["share_of_raw_input"] = size / read
        values |= counted.get(step, {})
        rows += [(*step, measure, value, UNITS[measure]) for measure, value in values.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def node_storage(
    sessions: pd.DataFrame,
    samples: pd.DataFrame,
    stored: pd.DataFrame,
    copies: Mapping[str, int],
) -> pd.DataFrame:
    """Sizes and files of the servers' directories, one row per trial and measure.

    `sessions` is `sessions.sessions`, `stored` is `storage` of the same trials. `copies`: trial ->
    factor from the size that the store reports to that of all its replicas; 1 if missing.
    """
    wide = stored.pivot_table(index="trial", columns="measure", values="value", aggfunc="sum")
    wide = wide.reindex(columns=["store_bytes", "bytes_per_document"])
    sessions = sessions.merge(wide, on="trial", how="left")
    each = sessions["bytes_per_document"]
    sessions["node_bytes_per_document"] = sessions["node_bytes"] * each / sessions["store_bytes"]
    times = sessions["trial"].map(lambda trial: copies.get(trial, 1)).astype(float)
    rest = (sessions["node_bytes"] - times * sessions["store_bytes"]).clip(lower=0)
    sessions["holds_from"] = (1 - _OVERHEAD_SHARE) / _OVERHEAD_SHARE * rest / (times * each)
    sessions = sessions.drop(columns=wide.columns)
    loads = pd.DataFrame(list(_loads(samples)), columns=STEP).drop_duplicates("trial")
    table = sessions.merge(loads, on="trial")
    measures = [name for name in UNITS if name in sessions]
    table = table.melt(id_vars=STEP, value_vars=measures, var_name="measure")
    table = table[(table["value"] > 0) | (table["measure"] == "metadata_operations")]
    return table.dropna(subset="value").assign(unit=table["measure"].map(UNITS))[COLUMNS]


def _loads(samples: pd.DataFrame) -> dict[StepKey, int]:
    """How many workers loaded, by trial, phase and step."""
    loads = loading(samples)
    times = samples[(samples["metric"] == "duration") & samples["worker"].notna()]
    times = times.astype({"trial": str, "phase": str})
    workers: dict[Any, int] = times.groupby(STEP)["worker"].nunique().to_dict()
    return {step: count for step, count in workers.items() if step[:2] in loads}


def _counted(samples: pd.DataFrame) -> dict[StepKey, dict[str, float]]:
    """Files and metadata operations of embedded stores, workers summed, by trial, phase and step.

    There are none where one of the loading workers does not tell its own: a part is no whole.
    """
    workers = _loads(samples)
    rows = samples[samples["metric"].isin(NODE_INODES) & samples["worker"].notna()]
    sums: dict[StepKey, dict[str, float]] = {}
    for (*step, metric), group in grouped(rows, [*STEP, "metric"]):
        key: StepKey = (str(step[0]), str(step[1]), int(step[2]))
        if group["worker"].nunique() == workers.get(key):
            sums.setdefault(key, {})[metric] = float(group["value"].sum())
    return {key: inode_measures(found) for key, found in sums.items()}


def inode_measures(found: Mapping[str, float]) -> dict[str, float]:
    """The measures that these metrics make."""
    measures = {name: found[metric] for metric, name in _INODES.items() if metric in found}
    if all(metric in found for metric in _OPERATIONS):
        measures["metadata_operations"] = sum(found[metric] for metric in _OPERATIONS)
    return measures


def _sizes(rows: pd.DataFrame) -> dict[StepKey, float]:
    """The last size of each worker's (or node's) stores, summed, by trial, phase and step.

    A value at the end of the phase counts more than the last one of its seconds.
    """
    stores = numbered(rows, [*STEP, "worker", "node"])
    second = rows["second"].fillna(np.inf).to_numpy(dtype=float)
    last = rows[second == stores.highest(second)[stores.number]]
    sizes: dict[Any, float] = last.groupby(STEP, observed=True)["value"].sum().to_dict()
    return sizes
