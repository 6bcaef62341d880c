"""The result schema: a long table of samples, stored as Parquet (``docs/results.md``).

Each job of a trial (a worker of a phase, a node, the verification) writes one file of this schema,
a part. The conditions (study, trial with its factors, versions, seed, host) are in each file as
JSON metadata, so that a single file can be understood by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import aside
from storewise.errors import ResultError

#: Increased when a reader of the older version would misread the newer one.
SCHEMA_VERSION = 1

_CATEGORY = pa.dictionary(pa.int32(), pa.string())

#: Core columns. A part also has one string column ``factor.<name>`` per factor of its trial.
CORE = pa.schema(
    [
        pa.field("trial", _CATEGORY, nullable=False),
        pa.field("repeat", pa.int32(), nullable=False),
        pa.field("phase", _CATEGORY, nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("worker", pa.int32()),  # null: not a worker's figure
        pa.field("process", pa.int32()),  # null: the whole worker
        pa.field("host", _CATEGORY, nullable=False),
        pa.field("node", _CATEGORY),  # owning or sampled node, null for embedded stores
        pa.field("operation", _CATEGORY),  # null where the metric is not of an operation
        pa.field("second", pa.int32()),  # from the step's start; null: over the whole step
        pa.field("warmup", pa.bool_(), nullable=False),
        pa.field("metric", _CATEGORY, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("unit", _CATEGORY, nullable=False),
    ]
)
FACTOR_PREFIX = "factor."
METADATA_KEY = b"storewise"


class Sample(NamedTuple):
    """One row, without the columns that are constant in a part (trial, repeat, host, factors)."""

    phase: str
    metric: str
    value: float
    unit: str
    step: int = 0
    second: int | None = None
    operation: str | None = None
    worker: int | None = None
    process: int | None = None
    node: str | None = None
    warmup: bool = False


#: Metric names and units. ``docs/results.md`` says how each is taken.
METRICS: Mapping[str, str] = {
    # of operations, per worker, process, operation and second (and totals without second)
    "operations": "1",
    "documents": "1",
    "bytes": "B",
    "errors": "1",
    "service_time_sum": "s",
    "prepare_time_sum": "s",
    # of operations, per owning node (in `node`) over the whole step
    "owner_operations": "1",
    "owner_errors": "1",
    # per step
    "duration": "s",
    "started_at": "s",  # Unix time
    "acknowledged": "1",
    # per step of an open loop, per worker
    "target_rate": "1/s",  # the worker's part
    "intended_operations": "1",  # that were meant to begin within the step
    "unserved_operations": "1",  # those of them that had not begun when its time was over
    # of a search, at the step that measured it last
    "highest_rate": "1/s",
    # of the worker's own processes, per second
    "client_cpu": "s",
    "client_rss": "B",
    "router_cpu": "s",  # of servers that a worker has started beside its clients
    "router_rss": "B",
    # of a host, per second
    "sample_length": "s",
    "cpu_user": "%",
    "cpu_system": "%",
    "cpu_iowait": "%",
    "cpu_idle": "%",
    "cpu_steal": "%",
    "memory_used": "B",
    "memory_available": "B",
    "swap_in": "B/s",
    "swap_out": "B/s",
    "disk_read": "B/s",
    "disk_write": "B/s",
    "disk_busy": "%",
    "network_received": "B/s",
    "network_sent": "B/s",
    "loopback": "B/s",
    # of a store, per second and at the end of a phase
    "store_cpu": "s",
    "store_rss": "B",
    "store_bytes": "B",
    # of a store after its load, per loading worker and per node (phase "session")
    "store_files": "1",
    "store_inodes": "1",  # files and directories
    # before the load, per host
    "canary_cpu": "1/s",
    "canary_disk_write": "B/s",
    "canary_disk_read": "B/s",
    # of a session's nodes (phase "session"), over the whole session
    "queue_time": "s",  # from the session's opening to the start of the node's job
    "ready_time": "s",  # from the start of the server to its first answer
    "form_time": "s",  # from the last node's answer to a formed cluster with its tables
    "formed_time": "s",  # from the session's opening to a formed cluster with its tables
    "stop_time": "s",
    "close_time": "s",  # until all nodes had gone
    "clock_offset": "s",  # of the node's host to the session's file system
    "node_bytes": "B",  # of its data directory at its end
    # of what was done to a node (in `node`) in a step, by order of worker 0
    "killed_at": "s",  # Unix time
    "answering_at": "s",  # Unix time of the first answer after it
    "recovery_time": "s",  # from the kill to the first answer
    "slow_time": "s",  # for which the node was slowed
    "slow_start_time": "s",  # until it was seen to be slowed
    "slow_bytes": "B",  # that the writer on its disk has written and synced
    "slow_syncs": "1",
    "slow_cpu": "s",  # of the busy processes
    "slow_processes": "1",
    # of a crash, per worker: the longest time without a successful operation (in `node`: of it)
    "unavailable_time": "s",
    # verification, per kind (in `operation`)
    "expected_documents": "1",
    "counted_documents": "1",
    "checked_documents": "1",
    "lost_documents": "1",
    "wrong_documents": "1",
}


def write_part(
    path: Path,
    samples: Iterable[Sample],
    *,
    trial: str,
    repeat: int,
    host: str,
    factors: Mapping[str, Any],
    conditions: Mapping[str, Any],
) -> None:
    """Write one part, whole or not at all.

    `conditions` is kept as JSON in the file's metadata: the resolved study, the trial, versions,
    seed, host and warnings. Raises ResultError for a metric that METRICS does not have, or one
    with another unit.
    """
    rows = list(samples)
    for row in rows:
        if METRICS.get(row.metric) != row.unit:
            raise ResultError(
                f"metric {row.metric!r} with unit {row.unit!r} is not in the result schema"
            )
    n = len(rows)
    columns: dict[str, Any] = {"trial": [trial] * n, "repeat": [repeat] * n, "host": [host] * n}
    columns |= {name: [getattr(row, name) for row in rows] for name in Sample._fields}
    schema = CORE
    for name, value in factors.items():
        schema = schema.append(pa.field(FACTOR_PREFIX + name, _CATEGORY, nullable=False))
        columns[FACTOR_PREFIX + name] = [_text(value)] * n
    meta = {"schema_version": SCHEMA_VERSION, "factors": dict(factors), **conditions}
    table = pa.table(
        {f.name: pa.array(columns[f.name], type=f.type) for f in schema},
        schema=schema.with_metadata({METADATA_KEY: json.dumps(meta, default=str).encode()}),
    )
    with aside(path) as place:
        pq.write_table(table, place, compression="zstd")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def read_conditions(path: Path) -> dict[str, Any]:
    """A part's conditions without its rows; ResultError if it is not a result part."""
    try:
        return _conditions(path, pq.read_schema(path))
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"{path}: not a readable result part: {error}") from error


def read_part(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """A part's table and its conditions; raises ResultError where it does not fit the schema."""
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f"{path}: not a readable result part: {error}") from error
    conditions = _conditions(path, table.schema)
    version = conditions.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultError(
            f"{path}: result schema version {version}, this Storewise reads {SCHEMA_VERSION}; "
            "analyse it with the version that wrote it, or measure the trial again"
        )
    for column in CORE:
        if column.name not in table.column_names:
            raise ResultError(f"{path}: column {column.name!r} is missing")
        type_ = table.schema.field(column.name).type
        if type_ != column.type:
            raise ResultError(f"{path}: column {column.name!r} is {type_}, expected {column.type}")
    return table, conditions


def _conditions(path: Path, schema: pa.Schema) -> dict[str, Any]:
    raw = (schema.metadata or {}).get(METADATA_KEY)
    if raw is None:
        raise ResultError(f"{path}: a Parquet file, but not a Storewise result part")
    try:
        conditions: dict[str, Any] = orjson.loads(raw)
    except orjson.JSONDecodeError:
        # What Python writes beyond JSON: NaN and Infinity.
        conditions = json.loads(raw)
    return conditions
