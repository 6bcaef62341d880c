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

import pandas as pd

from storewise.analysis.common.frames import key_of, missing, records, rows_of
from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.model.columns import SIZES

COLUMNS = [*STEP, "measure", "value", "unit"]
#: From `holds_from` documents on, at most this share of the directories is not data.
_OVERHEAD_SHARE = 0.1
#: Metric of files after the load -> the measure of all workers' or servers'.
_INODES = {"store_files": "files", "store_inodes": "inodes"}
_OPERATIONS = ("files_created", "files_renamed", "files_removed", "directories_made")


def storage(
    samples: Reduction, inputs: InputTotals | None, partial: Collection[str] = ()
) -> pd.DataFrame:
    """One row per trial and measure, for trials that loaded something and told its size.

    `partial` are trials that loaded a share of the inputs: the size of that share is in the list of
    the trial's shards only.
    """
    counted: dict[StepKey, dict[str, float]] = {}
    for *step, metric, value in rows_of(samples.table("FROM inodes")):
        counted.setdefault((step[0], step[1], step[2]), {})[metric] = value
    rows = []
    for row in records(samples.table("FROM loaded ORDER BY trial, phase, step")):
        step, size, read = key_of(row, STEP), row["store_bytes"], row["bytes"]
        values: dict[str, float] = {}
        if not missing(size):
            values = {"store_bytes": size, "bytes_per_document": size / row["documents"]}
            if inputs is not None and inputs.bytes and step[0] not in partial:
                values["share_of_input"] = size / inputs.bytes
            if read > 0:
                values["share_of_raw_input"] = size / read
        values |= inode_measures(counted.get((step[0], step[1], step[2]), {}))
        rows += [(*step, measure, value, SIZES[measure]) for measure, value in values.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def node_storage(
    sessions: pd.DataFrame,
    samples: Reduction,
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
    loads = samples.table("FROM loading ORDER BY trial, phase, step")[STEP].drop_duplicates("trial")
    table = sessions.merge(loads, on="trial")
    measures = [name for name in SIZES if name in sessions]
    table = table.melt(id_vars=STEP, value_vars=measures, var_name="measure")
    table = table[(table["value"] > 0) | (table["measure"] == "metadata_operations")]
    return table.dropna(subset="value").assign(unit=table["measure"].map(SIZES))[COLUMNS]


def inode_measures(found: Mapping[str, float]) -> dict[str, float]:
    """The measures that these metrics make."""
    measures = {name: found[metric] for metric, name in _INODES.items() if metric in found}
    if all(metric in found for metric in _OPERATIONS):
        measures["metadata_operations"] = sum(found[metric] for metric in _OPERATIONS)
    return measures
