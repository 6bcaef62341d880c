"""The embedded ClickHouse of this process: started with its first connection, ended with its last.

API: https://clickhouse.com/docs/chdb. One ClickHouse runs in a process, at one path. So that a
process can have several stores, that path is a new directory of its own, and each store is a disk
with tables.

To import `chdb` starts its threads: a process that is forked later cannot use it. So this module is
imported when a client connects, and nowhere else.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from storewise.engines.chdb.settings import ChdbSettings
from storewise.engines.support.batches import batch_rows
from storewise.engines.support.table import Row
from storewise.errors import EngineError


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """Restore the signals that ClickHouse changes: it blocks SIGPIPE, which child processes
    inherit, and handles SIGTSTP (Ctrl-Z)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTSTP, signal.getsignal(signal.SIGTSTP))


with _signals_as_before():
    try:
        import chdb
        from chdb.state.sqlitelike import Connection as Driver
    except ImportError as missing:
        raise EngineError(f"chdb: {missing}: pip install 'storewise[chdb]'") from missing

#: What the driver raises.
FAILURES = (chdb.ChdbError, RuntimeError)

#: The process that has loaded chdb, and what its ClickHouse keeps for itself, which goes with the
#: last connection, or with the process.
_PROCESS = os.getpid()
_DIRECTORY = tempfile.TemporaryDirectory(prefix="storewise-chdb-")
DIRECTORY = Path(_DIRECTORY.name).resolve()
#: For the names of what all connections share.
NUMBERS = count(1)

_lock = threading.Lock()
_open: set[Connection] = set()


class Connection:
    """One thread's connection to the ClickHouse of this process."""

    def __init__(self, settings: ChdbSettings) -> None:
        if os.getpid() != _PROCESS:
            raise EngineError(
                "chdb: this process was forked from one that had loaded chdb, whose threads it "
                "does not have; start a new one"
            )
        with _lock:
            DIRECTORY.mkdir(mode=0o700, exist_ok=True)
            try:
                with _signals_as_before():
                    self._driver = Driver(_address(settings))
            except FAILURES as error:
                raise EngineError(f"chdb: {error_message(error)}") from error
            _open.add(self)

    def close(self) -> None:
        """Close the connection; forked processes end without Python's own clean-up."""
        with _lock:
            self._driver.close()
            _open.discard(self)
            if not _open:
                shutil.rmtree(DIRECTORY, ignore_errors=True)

    def rows(self, sql: str) -> list[Row]:
        """The rows of a statement. Raises `FAILURES`."""
        content = self._driver.query(sql, "ArrowStream").bytes()
        if not content:
            return []
        with pa.ipc.open_stream(content) as stream:
            return [row for batch in stream for row in batch_rows(_with_keys(batch))]

    def insert(self, sql: str, storewise_incoming: Any) -> None:
        """Run an INSERT of an Arrow table, which ClickHouse finds by the name of the argument.
        Raises `FAILURES`; then nothing is inserted."""
        # Not `send_insert`, which says that it has written the rows when the disk is full.
        self._driver.query(f"{sql} SELECT * FROM Python(storewise_incoming)")


def _with_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its ids as bytes; Arrow gets ClickHouse's strings as text."""
    at = batch.schema.get_field_index("_id")
    if at < 0 or batch.schema.field(at).type != pa.string():
        return batch
    return batch.set_column(at, "_id", batch.column(at).cast(pa.binary()))


def _address(settings: ChdbSettings) -> str:
    options: dict[str, object] = {
        # Stores lie anywhere.
        "custom_local_disks_base_directory": "/",
        "progress": "off",
        "max_threads": settings.threads,
        "max_final_threads": settings.threads,
        "max_memory_usage": settings.memory_limit_mib << 20,
        # Every SELECT shows of equal ids the last row, and none that is marked as deleted.
        "final": 1,
        # By default chdb collects small inserts for up to a second, and the client waits.
        "async_insert": 0,
        "input_format_null_as_default": 0,
        # In WHERE "x" is the column, also where SELECT has something else AS x.
        "prefer_column_name_to_alias": 1,
        "optimize_throw_if_noop": 1,
        "output_format_arrow_compression_method": "none",
        # Readers' disks count as remote ones: they are local, and need no threads of their own.
        "remote_filesystem_read_method": "read",
        "remote_filesystem_read_prefetch": 0,
        "allow_prefetched_read_pool_for_remote_filesystem": 0,
    }
    return f"{DIRECTORY}/engine?" + "&".join(f"{name}={value}" for name, value in options.items())


def error_message(error: Exception) -> str:
    """ClickHouse's error message without chdb's repetition of it."""
    text = " ".join(str(error).split())
    return text.rpartition("DB::Exception: ")[2] or text
