"""Disk usage of a store: bytes in total, per document, and relative to the inputs.

The size is measured at the end of the load, after the engine's final flush. For embedded stores it
is the bytes of their files, summed over all workers; for servers the size that the server reports
for its documents and indexes, or for its database. ``node_bytes`` is the final size of the data
directories of all servers, including logs, system tables and preallocated files. Stores are judged
by the former; ``holds_from`` is the number of documents from which on the overhead is less than a
tenth of the directories, if it stays constant.

``inodes`` counts files and directories at the end of the load, over all workers or servers of a
trial, as a quota does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pandas as pd

from storewise.analysis.files.inputs import InputTotals
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.analysis.model.columns import SIZES

COLUMNS = [*STEP, "measure", "value", "unit"]
#: From `holds_from` documents on, at most this share of the directories is overhead.
_OVERHEAD_SHARE = 0.1
#: Metric of files after the load -> its measure, summed over workers or servers.
_INODES = {"store_files": "files", "store_inodes": "inodes"}


def storage(
    samples: Reduction, inputs: InputTotals | None, partial: Collection[str] = ()
) -> pd.DataFrame:
    """One row per trial and measure, for trials that loaded something and recorded its size.

    `partial` are trials that loaded a share of the inputs, whose size `inputs` does not have.
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
    files = files.reindex(columns=[*_INODES])
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
    return long[long["value"] > 0]


def _long(table: pd.DataFrame) -> pd.DataFrame:
    """A wide table (STEP and measures) as rows with COLUMNS."""
    table = table.rename(columns=_INODES)
    measures = [name for name in SIZES if name in table]
    table = table.melt(STEP, measures, "measure").dropna(subset="value")
    return table.assign(unit=table["measure"].map(SIZES))[COLUMNS]
