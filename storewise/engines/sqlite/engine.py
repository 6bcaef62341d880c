"""SQLite: one database file per writing process.

Formats and pragmas: https://www.sqlite.org/pragma.html, /wal.html, /withoutrowid.html, /uri.html.
"""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field as Setting

from storewise.documents import FieldType, Kind
from storewise.engines.contract.engine import Cluster, Engine, EngineSettings, Mode
from storewise.engines.sql.embedded import EmbeddedSql
from storewise.engines.sql.reads import FLAGS, SqlState
from storewise.engines.support.batches import prepare, rows_of
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

#: Seconds that a connection waits for another one's lock.
BUSY_SECONDS = 60.0
#: The first version with STRICT tables.
_OLDEST = (3, 37, 0)

#: What the driver raises: its own errors, and Python's for values that SQLite cannot hold (an
#: integer above 64 bits, a lone surrogate in a string).
FAILURES = (sqlite3.Error, OverflowError, UnicodeError)


class SqliteSettings(EngineSettings):
    """Settings of SQLite."""

    page_size: Literal[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536] = Setting(
        default=4096, description="bytes of a database page"
    )
    cache_mib: int = Setting(
        default=64, ge=1, description="page cache of a connection to a store, MiB"
    )


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """The shared state of a process."""

    # SQLite lets one connection write at a time and makes the others poll; the lock of these
    # clients hands over without sleeping.
    settings: SqliteSettings
    durable: bool
    wal: bool


class SqliteClient(EmbeddedSql[Shared]):
    """One thread's connections to the stores."""

    engine_name = "sqlite"
    file_name = "documents.sqlite"
    explain_statement = "EXPLAIN QUERY PLAN"
    types: ClassVar[Mapping[FieldType, str]] = {
        "id": "BLOB",
        "key": "BLOB",
        "int": "INTEGER",
        "float": "REAL",
        "str": "TEXT",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._connections: dict[int, sqlite3.Connection] = {}

    def check_connection(self) -> None:
        super().check_connection()
        self._connection(0)

    def _source(self, table: Table, store: int) -> str:
        return quoted(table.name)

    def _columns(self, store: int, kind: Kind) -> list[str]:
        return [row[1] for row in self._rows(store, f"PRAGMA table_info({quoted(kind.table)})")]

    def _table_ddl(self, table: Table) -> str:
        # WITHOUT ROWID: the table is one B-tree in the order of `_id`. A rowid table keeps the ids
        # in a second tree, so that each read descends twice; ids of one file ascend, so that loads
        # append in both cases. Keys of other forms come in no order, and their records may be long:
        # of 1 KB each, such a tree of 4 KiB pages takes 4.7 KB a record, a rowid table 1.4 KB.
        rowid = "WITHOUT ROWID, " if table.kind.id_bytes is not None else ""
        # Without STRICT a column accepts values of any type, such as a text in a number column.
        return f"{super()._table_ddl(table)} {rowid}STRICT"

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        table = self._table(kind)
        rows = rows_of(table, documents)
        marks = ", ".join("?" * len(table.columns))
        sql = f"INSERT OR REPLACE INTO {quoted(table.name)} VALUES ({marks})"
        connection = self._connection(0)
        with self._shared.lock:
            try:
                with connection:  # commits, or rolls back after an error
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany(sql, rows)
            except FAILURES as error:
                self._fail(0, error)

    def finish(self) -> None:
        shared = self._writing("finish")
        with shared.lock:
            for client in shared.clients:
                if client is not self:
                    client._disconnect()
            super().finish()
            # Leaving WAL mode copies the log into the database and removes it and its shared
            # memory (a kept rollback journal likewise): readers then get one file that is complete
            # in itself.
            if self._rows(0, "PRAGMA journal_mode = DELETE") != [("delete",)]:
                raise EngineError(
                    f"sqlite: {self._file(0)}: the journal could not be merged into the database: "
                    "another connection still uses the file"
                )

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        with self._shared.lock:
            try:
                return self._connection(store).execute(sql, values).rowcount
            except FAILURES as error:
                self._fail(store, error)

    def _connect(self) -> None:
        for store in range(len(self._stores)):
            self._connection(store)

    def _disconnect(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            connection.close()

    def _connection(self, store: int) -> sqlite3.Connection:
        connection = self._connections.get(store)
        if connection is None:
            self._check_open()
            try:
                connection = self._connections[store] = self._open(store)
            except FAILURES as error:
                self._fail(store, error)
        return connection

    def _open(self, store: int) -> sqlite3.Connection:
        shared, path = self._shared, self._file(store)
        query = "mode=rwc"
        if shared.mode == "read":
            query = "mode=ro"
            # `immutable` is right only for a file that nobody writes and that has no journal to
            # replay: the loading job has ended, and `finish` has left nothing beside the file.
            left = [Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-journal")]
            if not any(left):
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
                connection.execute(f"PRAGMA page_size = {shared.settings.page_size}")
                # WAL needs memory that connections share, which network file systems do not have.
                wanted = "wal" if shared.wal else "truncate"
                mode = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0]
                if mode != wanted:
                    raise sqlite3.OperationalError(
                        f"SQLite does not accept journal mode {wanted} for this database"
                    )
                connection.execute(f"PRAGMA synchronous = {'FULL' if shared.durable else 'OFF'}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        connection = self._connections.get(store) or self._connection(store)
        try:
            return connection.execute(sql, values).fetchall()
        except FAILURES as error:
            self._fail(store, error)

    def _floor(self, quotient: str) -> str:
        # Not every build of SQLite has floor(); a cast cuts off, which is too high below zero.
        whole = f"CAST({quotient} AS INTEGER)"
        return f"{whole} - ({quotient} < {whole})"


class SqliteEngine(Engine):
    """SQLite in the client's process."""

    name = "sqlite"
    language = "sql"
    asks_one_store = True
    title = "SQLite"
    in_first_study = True
    flags = FLAGS
    encoding = "arrow"
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "synchronous=FULL: a batch is a transaction, on disk (fsync) when acknowledged",
        "relaxed": (
            "synchronous=OFF: a batch is one transaction, with the operating system when "
            "acknowledged; it survives the death of the process, not that of the machine, which "
            "may leave the file damaged"
        ),
    }
    Settings = SqliteSettings

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        return {"sqlite": sqlite3.sqlite_version, "python-sqlite3": platform.python_version()}

    def connect(self, cluster: Cluster, mode: Mode) -> SqliteClient:
        settings: SqliteSettings = self.settings_of(cluster.settings)
        if sqlite3.sqlite_version_info < _OLDEST:
            raise EngineError(
                f"sqlite: Python has SQLite {sqlite3.sqlite_version}; strict tables need "
                f"{'.'.join(map(str, _OLDEST))} or newer"
            )
        if mode == "write":
            prepare(cluster.kinds)
        shared = Shared.of(
            cluster,
            mode,
            self.stores_of(cluster, mode),
            settings=settings,
            durable=self.level_of(cluster) == "durable",
            wal=not cluster.network_file_system,
        )
        return SqliteClient(shared).connected()
