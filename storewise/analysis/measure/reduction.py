"""The samples of some trials in DuckDB, and the tables that SQL makes of them.

The statements are in the folder ``sql``. Tables that several others read are materialized, the
rest are views.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

import duckdb
import pandas as pd
import pyarrow as pa

STEP = ["trial", "phase", "step"]
#: In the order of their dependencies.
_FILES = ("counts", "rates", "hosts", "nodes", "stores")
#: Figures of a host that its sampler takes each second.
HOST_METRICS = (
    *("cpu_user", "cpu_system", "cpu_iowait", "cpu_steal", "cpu_idle"),
    *("disk_read", "disk_write", "disk_busy", "network_received", "network_sent"),
    *("memory_used", "swap_in", "swap_out", "loopback"),
)
#: Files after a load.
INODE_METRICS = ("store_files", "store_inodes")


class Reduction:
    """Tables of the samples of some trials.

    `samples` has the columns of the result schema. `whole` are the complete phases (trial, phase),
    with every worker's part: only these give rates, times and loads (default: all). `clients` maps
    (trial, phase) to threads per process and processes per worker (default 1 each).
    """

    def __init__(
        self,
        samples: pa.Table,
        whole: Collection[tuple[str, str]] | None = None,
        clients: Mapping[tuple[str, str], tuple[int, int]] | None = None,
    ) -> None:
        # With one thread rows stay in their order.
        self._connection = duckdb.connect(":memory:", config={"threads": 1})
        give = self._connection.register
        give("stored", _frame(samples))
        self._connection.execute("CREATE TEMP TABLE every_sample AS FROM stored")
        give("host_metrics", pa.table({"metric": HOST_METRICS}))
        give("inode_metrics", pa.table({"metric": INODE_METRICS}))
        # Few studies have incomplete phases, and the join costs time.
        every = self.table("SELECT DISTINCT trial, phase FROM every_sample")
        known = set(every.itertuples(index=False, name=None))
        lacking = known - set(whole) if whole is not None else set()
        give("lacking", _table(["trial", "phase"], lacking))
        but = " ANTI JOIN lacking USING (trial, phase)" if lacking else ""
        self._connection.execute(f"CREATE TEMP VIEW samples AS FROM every_sample{but}")
        rows = [(*key, *counts) for key, counts in (clients or {}).items()]
        give("clients", _table(["trial", "phase", "threads", "processes"], rows))
        for name in _FILES:
            self._connection.execute(_statements(name))

    def table(self, query: str) -> pd.DataFrame:
        """The result of a query; text as ``str``."""
        table: pd.DataFrame = self._connection.sql(query).df()
        return table.astype({n: str for n in table if table[n].dtype in (object, "category")})


def _frame(samples: pa.Table) -> pd.DataFrame:
    """The samples with texts as ordered categories: grouping and joining takes half the time."""
    frame: pd.DataFrame = samples.unify_dictionaries().to_pandas(
        types_mapper={pa.int32(): pd.Int32Dtype()}.get
    )
    for name in frame.select_dtypes("category"):
        texts = frame[name].cat
        frame[name] = texts.reorder_categories(sorted(texts.categories))
    return frame


def _table(columns: list[str], rows: Collection[tuple[object, ...]]) -> pa.Table:
    types = [pa.string() if name in ("trial", "phase") else pa.int64() for name in columns]
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [pa.array(list(v), t) for v, t in zip(values, types, strict=True)]
    return pa.table(arrays, names=columns)


@cache
def _statements(name: str) -> str:
    return (files(__package__) / "sql" / f"{name}.sql").read_text(encoding="utf-8")
