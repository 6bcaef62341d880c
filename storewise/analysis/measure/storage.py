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

from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.measure.reduction import STEP, Reduction
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
    loads = samples.table("FROM loaded ORDER BY trial, phase, step")
    size = loads["store_bytes"].astype(float)
    values = {
        "store_bytes": size,
        "bytes_per_document": size / loads["documents"],
        "share_of_raw_input": size / loads["bytes"].where(loads["bytes"] > 0),
    }
    if inputs is not None and inputs.bytes:
        values["share_of_input"] = (size / inputs.bytes).mask(loads["trial"].isin(list(partial)))
    files = samples.table("FROM inodes").pivot_table("value", STEP, "metric", aggfunc="sum")
    files = files.reindex(columns=[*_INODES, *_OPERATIONS])
    return _long(loads[STEP].assign(**values).merge(files, on=STEP, how="left"))


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
    loads = samples.table("FROM loading ORDER BY trial, phase, step")[STEP].drop_duplicates("trial")
    table = sessions.merge(loads, on="trial").merge(wide, on="trial", how="left")
    size, each, whole = (table[name] for name in (*wide, "node_bytes"))
    times = table["trial"].map(lambda trial: copies.get(trial, 1)).astype(float)
    rest = (whole - times * size).clip(lower=0)
    table["node_bytes_per_document"] = whole * each / size
    table["holds_from"] = (1 - _OVERHEAD_SHARE) / _OVERHEAD_SHARE * rest / (times * each)
    long = _long(table.drop(columns=list(wide)))
    return long[(long["value"] > 0) | (long["measure"] == "metadata_operations")]


def _long(table: pd.DataFrame) -> pd.DataFrame:
    """The measures of a table with STEP and what files there were: COLUMNS."""
    made = table[list(_OPERATIONS)].sum(axis=1, skipna=False)
    table = table.rename(columns=_INODES).assign(metadata_operations=made)
    measures = [name for name in SIZES if name in table]
    table = table.melt(STEP, measures, "measure").dropna(subset="value")
    return table.assign(unit=table["measure"].map(SIZES))[COLUMNS]
