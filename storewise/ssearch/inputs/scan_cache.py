"""Rows of files that were read before: what makes a manifest resumable and incremental.

They are kept in a database of SQLite, which is whole after a ``kill -9``.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import pyarrow as pa

from storewise.errors import StorewiseError
from storewise.ssearch.inputs.scan import RULES, FileRow
from storewise.ssearch.inputs.table import FILE_COLUMNS
from storewise.ssearch.parse.remote import Listed

_SCHEMA = pa.schema(FILE_COLUMNS)
#: Rows turned into Arrow at a time; bounds the memory that a million Python tuples would take.
_BATCH_ROWS = 20_000
#: ``rows`` has a row for each file that was read, ``listed`` one for each of this build.
_TABLES = """
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS rows (
    path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER, digest BLOB, queries INTEGER,
    hits INTEGER, alignments INTEGER, format TEXT, warning TEXT
) WITHOUT ROWID;
CREATE TEMP TABLE listed (path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER) WITHOUT ROWID;
"""


class ScanCache:
    """The finished rows in a directory; `open_cache` gives it."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows

    def unknown(self, listed: Sequence[Listed]) -> list[Listed]:
        """The files of `listed` that have to be read, sorted: new ones, and those with another size
        or modification time."""
        self._write("INSERT INTO listed VALUES (?, ?, ?)", listed)
        same = "SELECT path, bytes, mtime_ns FROM rows"
        query = f"SELECT * FROM listed EXCEPT {same} ORDER BY path"
        return [Listed(*row) for row in self._rows.execute(query)]

    def add(self, rows: list[FileRow]) -> None:
        """Keeps finished rows; a ``kill -9`` does not lose them."""
        self._write("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def rows(self, but: Iterable[str]) -> Any:
        """The rows of the listed files as an Arrow table, without those of the paths `but`."""
        self._write("DELETE FROM listed WHERE path = ?", ((path,) for path in but))
        names = ", ".join(f"rows.{name}" for name in _SCHEMA.names)
        cursor = self._rows.execute(f"SELECT {names} FROM listed JOIN rows USING (path)")
        tables = [_SCHEMA.empty_table()]
        while rows := cursor.fetchmany(_BATCH_ROWS):
            columns = zip(*rows, strict=True)
            tables.append(pa.table(list(map(pa.array, columns, _SCHEMA.types)), schema=_SCHEMA))
        return pa.concat_tables(tables)

    def _write(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._rows:
            self._rows.executemany(query, rows)


@contextmanager
def open_cache(directory: Path, input_format: str = "") -> Iterator[ScanCache]:
    """The cache in `directory` of files that were read as `input_format`, under a lock.

    Raises StorewiseError where another build has it, or it cannot be written.
    """
    # Rows that other rules made, or another format, stand in a file of another name.
    made = f"{RULES}.{crc32(input_format.encode()):08x}" if input_format else str(RULES)
    path = directory / f"rows.{made}.sqlite"
    with ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((directory / "lock").open("ab"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorewiseError(
                f"{directory}: another manifest is being built with this cache; wait for it or "
                "give this one a cache directory of its own"
            ) from None
        except OSError as error:
            raise _unwritable(directory, error.strerror or str(error)) from error
        try:
            try:
                rows = _connect(path)
            except sqlite3.Error:
                path.unlink(missing_ok=True)  # it only saves work: a broken one is made anew
                rows = _connect(path)
            stack.callback(rows.close)
            yield ScanCache(rows)
        except sqlite3.Error as error:
            raise _unwritable(directory, str(error)) from error


def _connect(path: Path) -> sqlite3.Connection:
    # Without SQLite's locks, which some shared file systems lack; there is one of ours.
    rows = sqlite3.connect(f"file:{quote(str(path.absolute()))}?vfs=unix-none", uri=True)
    rows.executescript(_TABLES)
    return rows


def _unwritable(directory: Path, reason: str) -> StorewiseError:
    return StorewiseError(f"{directory}: the manifest's cache cannot be written: {reason}")
