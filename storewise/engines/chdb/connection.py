"""The embedded ClickHouse of this process: started with its first connection, ended with its last.

API: https://clickhouse.com/docs/chdb. One ClickHouse runs in a process, at one path. So that a
process can have several stores, that path is a new directory of its own, and each store is a disk
with tables.

To import `chdb` starts its threads: a process that is forked later cannot use it. So this module is
imported when a client connects, and nowhere else.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from storewise.engines.chdb.settings import ChdbSettings
from storewise.engines.support.batches import rows_of
from storewise.engines.support.table import Row
from storewise.errors import EngineError


@contextmanager
def _signals_as_before() -> Iterator[None]:
    """ClickHouse blocks SIGPIPE, which programs that we start would inherit, and takes SIGTSTP
    (Ctrl-Z): give both back."""
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

_forked = False


def _after_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_after_fork)


class _Process:
    """What is open in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.directory: Path | None = None
        self.connections = 0
        self.clients = 0

    def acquire(self) -> Path:
        """Register a connection; returns the directory that all connections share."""
        with self.lock:
            if _forked:
                raise EngineError(
                    "chdb: this process was forked from one that had loaded chdb, whose threads "
                    "it does not have; start a new one"
                )
            if self.directory is None:
                self.directory = Path(tempfile.mkdtemp(prefix="storewise-chdb-")).resolve()
            self.connections += 1
            return self.directory

    def release(self) -> None:
        """Unregister a connection; the last one removes the directory."""
        with self.lock:
            self.connections -= 1
            if not self.connections and self.directory is not None:
                shutil.rmtree(self.directory, ignore_errors=True)
                self.directory = None

    def number(self) -> int:
        """A number that no other client of this process has."""
        with self.lock:
            self.clients += 1
            return self.clients


_process = _Process()
_open = WeakSet["Connection"]()


@atexit.register
def _close_all() -> None:
    """Close what nobody has closed, so that the directory goes; a fork's are not its own."""
    if not _forked:
        for connection in list(_open):
            connection.close()


class Connection:
    """One thread's connection to the ClickHouse of this process."""

    def __init__(self, settings: ChdbSettings) -> None:
        self.directory = _process.acquire()
        try:
            with _signals_as_before():
                self._driver = Driver(_address(self.directory, settings))
        except FAILURES as error:
            _process.release()
            raise EngineError(f"chdb: {words(error)}") from error
        self._open = True
        _open.add(self)

    def rows(self, sql: str) -> list[Row]:
        """The rows of a statement; texts and ids are bytes. Raises of FAILURES."""
        content = self._driver.query(sql, "ArrowStream").bytes()
        if not content:
            return []
        with pa.ipc.open_stream(content) as stream:
            return [row for batch in stream for row in rows_of(batch)]

    def insert(self, sql: str, storewise_incoming: Any) -> None:
        """An INSERT of an Arrow table, which ClickHouse finds by the name of the argument. Raises
        of FAILURES, and then nothing is inserted."""
        # Not `send_insert`, which says that it has written the rows when the disk is full.
        self._driver.query(f"{sql} SELECT * FROM Python(storewise_incoming)")

    def close(self) -> None:
        """End it; a second call does nothing."""
        if self._open:
            self._open = False
            self._driver.close()
            _process.release()


def new_number() -> int:
    """A number for the names of a client's databases, which all connections share."""
    return _process.number()


def _address(directory: Path, settings: ChdbSettings) -> str:
    if set("?#%") & set(str(directory)):
        raise EngineError(
            f"chdb: {directory}: its temporary directory cannot have a name with ?, # or %"
        )
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
        "output_format_arrow_string_as_string": 0,
        "output_format_arrow_compression_method": "none",
        # Readers' disks count as remote ones: they are local, and need no threads of their own.
        "remote_filesystem_read_method": "read",
        "remote_filesystem_read_prefetch": 0,
        "allow_prefetched_read_pool_for_remote_filesystem": 0,
    }
    return f"{directory}/engine?" + "&".join(f"{name}={value}" for name, value in options.items())


def words(error: Exception) -> str:
    """What ClickHouse says, once: chdb repeats it."""
    text = " ".join(str(error).split())
    return text.rpartition("DB::Exception: ")[2] or text
