"""Rows of files that were digested before: what makes a manifest resumable and incremental.

They are kept in a database of SQLite, which is whole after a ``kill -9``.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa

from storewise.errors import StorewiseError
from storewise.ssearch.inputs.scan_many import FileRow
from storewise.ssearch.inputs.table import FILE_COLUMNS

_SCHEMA = pa.schema(FILE_COLUMNS)
#: Rows turned into Arrow at a time; bounds the memory that a million Python tuples would take.
_BATCH_ROWS = 20_000
#: ``rows`` has a row for each file that was digested, ``listed`` one for each of this build.
_TABLES = """
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS rows (
    path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER, digest BLOB, queries INTEGER,
    hits INTEGER, alignments INTEGER, warning TEXT, mode TEXT
) WITHOUT ROWID;
CREATE TEMP TABLE listed (path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER) WITHOUT ROWID;
"""


class ScanCache:
    """The finished rows in `directory` for one way of making digests.

    `mode` is ``full`` or ``sampled:SEED``; rows of another mode are not used. Use it as a context
    manager: it holds a lock, and a second build in the same directory is a StorewiseError.
    """

    def __init__(self, directory: Path, mode: str) -> None:
        self._directory = directory
        self._mode = mode
        self._lock: BinaryIO | None = None
        self._rows: sqlite3.Connection | None = None

    def __enter__(self) -> ScanCache:
        path = self._directory / "rows.sqlite"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = (self._directory / "lock").open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                self._rows = self._open(path)
            except sqlite3.Error:
                path.unlink(missing_ok=True)  # it only saves work: a broken one is made anew
                self._rows = self._open(path)
        except BlockingIOError:
            raise StorewiseError(
                f"{self._directory}: another manifest is being built with this cache; wait for "
                "it or give this one a cache directory of its own"
            ) from None
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from error
        return self

    def _open(self, path: Path) -> sqlite3.Connection:
        # Without SQLite's locks, which some shared file systems lack; there is one of ours.
        rows = sqlite3.connect(f"file:{quote(str(path.absolute()))}?vfs=unix-none", uri=True)
        rows.executescript(_TABLES)
        rows.execute("SELECT warning, mode FROM rows LIMIT 1")
        return rows

    def __exit__(self, *_: object) -> None:
        for one in (self._rows, self._lock):
            if one is not None:
                one.close()

    def unknown(self, listed: Any) -> Any:
        """The part of `listed` (`scan_many.status_of`) that has to be digested: new files, and
        those with another size or modification time (ns)."""
        columns = (column.to_pylist() for column in listed.columns)
        self._write("INSERT INTO listed VALUES (?, ?, ?)", zip(*columns, strict=True))
        same = "SELECT path, bytes, mtime_ns FROM rows WHERE mode = ?"
        query = f"SELECT * FROM listed EXCEPT {same} ORDER BY path"
        return self._table(query, (self._mode,), pa.schema(FILE_COLUMNS[:3]))

    def add(self, rows: list[FileRow]) -> None:
        """Keeps finished rows; a ``kill -9`` does not lose them."""
        query = "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._write(query, ((*row, self._mode) for row in rows))

    def rows(self, but: Iterable[str]) -> Any:
        """The rows of the listed files, `but` for some."""
        self._write("DELETE FROM listed WHERE path = ?", ((path,) for path in but))
        names = ", ".join(f"rows.{name}" for name in _SCHEMA.names)
        query = f"SELECT {names} FROM listed JOIN rows USING (path) WHERE mode = ?"
        return self._table(query, (self._mode,), _SCHEMA)

    def _write(self, query: str, rows: Iterable[tuple[Any, ...]]) -> None:
        assert self._rows is not None
        try:
            with self._rows:
                self._rows.executemany(query, rows)
        except sqlite3.Error as error:
            raise self._unwritable(error) from error

    def _table(self, query: str, values: tuple[str, ...], schema: Any) -> Any:
        assert self._rows is not None
        cursor = self._rows.execute(query, values)
        tables = [schema.empty_table()]
        while rows := cursor.fetchmany(_BATCH_ROWS):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
            tables.append(pa.table(arrays, schema=schema))
        return pa.concat_tables(tables)

    def _unwritable(self, error: Exception) -> StorewiseError:
        reason = getattr(error, "strerror", None) or error
        return StorewiseError(
            f"{self._directory}: the manifest's cache cannot be written: {reason}"
        )
