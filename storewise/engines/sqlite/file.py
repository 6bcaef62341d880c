"""The database files of SQLite: how they are opened and what tables they get."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field as Setting

from storewise.documents import FieldType
from storewise.engines.contract.engine import EngineSettings
from storewise.engines.sql.reads import SqlState
from storewise.engines.support.table import Keys, Table, quoted

FILE_NAME = "documents.sqlite"
KEYS: Keys = "row"
#: Seconds that a connection waits for another one's lock.
BUSY_SECONDS = 60.0

_TYPES: Mapping[FieldType, str] = {
    "id": "BLOB",
    "key": "BLOB",
    "int": "INTEGER",
    "float": "REAL",
    "str": "TEXT",
}
#: What the driver raises: its own errors, and Python's for values that SQLite cannot hold (an
#: integer above 64 bits, a lone surrogate in a string).
FAILURES = (sqlite3.Error, OverflowError, UnicodeError)


class SqliteSettings(EngineSettings):
    """Settings of SQLite."""

    page_size: int = Setting(
        default=4096, ge=512, le=65536, description="bytes of a database page, a power of two"
    )
    cache_mib: int = Setting(
        default=64, ge=1, description="page cache of a connection to a store, MiB"
    )
    immutable: bool = Setting(
        default=True,
        description="readers take finished files as unchanging: no locks, no look for changes",
    )


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """What the clients of one process have in common."""

    # SQLite lets one connection write at a time and makes the others poll; the lock of these
    # clients hands over without sleeping.
    settings: SqliteSettings
    durable: bool
    wal: bool


def path_of(store: Path) -> Path:
    """The database file in a store's directory."""
    return store / FILE_NAME


def table_ddl(table: Table) -> str:
    """CREATE TABLE, which leaves a table that is there."""
    # WITHOUT ROWID: the table is one B-tree in the order of `_id`. A rowid table would keep the
    # rows by a number that nobody asks for and the 12-byte ids in a second tree, so that each read
    # descends twice; ids of one file ascend, so that loading appends in both cases. Its price,
    # long rows in interior pages, is small for the studied documents: SQLite moves most of a long
    # row to overflow pages. Records with keys of their own form are in no such order, and may be
    # long: of 1 KB each, such a tree of 4 KiB pages takes 4.7 KB a record, a rowid table 1.4 KB.
    whole = "WITHOUT ROWID" if table.kind.id_bytes is not None else ""
    columns = [
        f"{quoted(c.name)} {_TYPES[c.type]}" + (" NOT NULL" if c.name in table.key else "")
        for c in table.columns
    ]
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(table.name)} "
        f"({', '.join(columns)}, PRIMARY KEY ({table.key_list})) {whole}"
    )


def open_store(shared: Shared, store: int) -> sqlite3.Connection:
    """A connection to one of the stores; sqlite3.Error where there can be none."""
    path = path_of(shared.stores[store])
    query = "mode=rwc"
    if shared.mode == "read":
        query = "mode=ro"
        # `immutable` is right only for a file that nobody writes and that has no journal to
        # replay: the loading job has ended, and `finish` has left nothing beside the file.
        left = [Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-journal")]
        if shared.settings.immutable and not any(left):
            query += "&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{query}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,  # transactions are begun by us, never by the driver
        check_same_thread=False,  # one thread uses it, another one may close it
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{shared.settings.cache_mib * 1024}")
        if shared.mode == "write":
            _configure_writer(connection, shared, path)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _configure_writer(connection: sqlite3.Connection, shared: Shared, path: Path) -> None:
    connection.execute(f"PRAGMA page_size = {shared.settings.page_size}")
    # WAL needs memory that all connections share, which network file systems do not have.
    wanted = "wal" if shared.wal else "truncate"
    mode = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0]
    if mode != wanted:
        raise sqlite3.OperationalError(f"{path.parent} does not take journal mode {wanted}")
    connection.execute(f"PRAGMA synchronous = {'FULL' if shared.durable else 'OFF'}")
