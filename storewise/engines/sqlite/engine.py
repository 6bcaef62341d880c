"""SQLite: one database file per writing process.

Formats and pragmas: https://www.sqlite.org/pragma.html, /wal.html, /withoutrowid.html, /uri.html.
"""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from storewise.documents import Kind
from storewise.engines.contract.engine import Cluster, Engine, EngineSettings, Flags, Mode, Schema
from storewise.engines.sql.reads import SqlReads, check_columns
from storewise.engines.sqlite.file import (
    FAILURES,
    KEYS,
    Shared,
    SqliteSettings,
    open_store,
    path_of,
    table_ddl,
)
from storewise.engines.support.checks import (
    consistency_of,
    directory_bytes,
    parse_settings,
    store_directories,
)
from storewise.engines.support.routing import Router
from storewise.engines.support.table import (
    Row,
    Table,
    index_ddl,
    make_tables,
    quoted,
    table_from_names,
)
from storewise.errors import EngineError


class SqliteClient(SqlReads[Shared]):
    """One thread's connections to the stores."""

    engine_name = "sqlite"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._connections: dict[int, sqlite3.Connection] = {}

    def for_thread(self) -> SqliteClient:
        """A client with connections of its own; `finish` and `close` belong to the first one."""
        return SqliteClient(self._shared)

    def _source(self, table: Table, store: int) -> str:
        return quoted(table.name)

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = make_tables(schema, KEYS)
        statements = [table_ddl(table) for table in tables.values()]
        if schema.index_time == "before":
            statements += [index_ddl(*index) for index in schema.indexes]
        connection = self._connection(0)
        with shared.lock:
            try:
                for statement in statements:
                    connection.execute(statement)
                check_columns(self, tables)
            except FAILURES as error:
                self._fail(0, error)
            shared.tables, shared.schema = tables, schema
        self._use_tables(tables)

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        table = self._table(kind)
        rows = table.rows(documents)
        marks = ", ".join("?" * len(table.columns))
        sql = f"INSERT OR REPLACE INTO {quoted(table.name)} VALUES ({marks})"
        with self._exclusive(0):
            self._connection(0).executemany(sql, rows)

    def finish(self) -> None:
        shared = self._writing("finish")
        with shared.lock:
            for client in shared.clients:
                if client is not self:
                    client._disconnect()
            connection = self._connection(0)
            try:
                if shared.schema is not None and shared.schema.index_time == "after":
                    for index in shared.schema.indexes:
                        connection.execute(index_ddl(*index))
                # Leaving WAL mode copies the log into the database and removes it and its shared
                # memory (a kept rollback journal likewise): readers then get one file that is
                # complete in itself.
                mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
                if mode != "delete":
                    raise EngineError(
                        f"sqlite: {path_of(shared.stores[0])}: the journal could not be merged "
                        "into the database: another connection still uses the file"
                    )
            except FAILURES as error:
                self._fail(0, error)

    @contextmanager
    def _exclusive(self, store: int) -> Iterator[None]:
        connection = self._connection(store)
        with self._shared.lock:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield
                connection.execute("COMMIT")
            except (*FAILURES, EngineError) as error:
                self._roll_back(connection, error)

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        with self._shared.lock:
            try:
                return self._connection(store).execute(sql, values).rowcount
            except FAILURES as error:
                self._fail(store, error)

    def disk_bytes(self) -> int:
        return directory_bytes(self._stores)

    def status(self) -> dict[str, float]:
        """Pages, free pages and (while writing) rows changed, summed over stores."""
        counters = {"pages": 0.0, "free_pages": 0.0}
        for store in range(len(self._stores)):
            counters["pages"] += self._rows(store, "PRAGMA page_count")[0][0]
            counters["free_pages"] += self._rows(store, "PRAGMA freelist_count")[0][0]
        if self._shared.mode == "write":
            with self._shared.lock:
                counters["rows_changed"] = float(
                    sum(
                        connection.total_changes
                        for client in self._shared.clients
                        for connection in client._connections.values()
                    )
                )
        return counters

    def _disconnect(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            connection.close()

    def _connection(self, store: int) -> sqlite3.Connection:
        connection = self._connections.get(store)
        if connection is None:
            if self._closed:
                raise EngineError(f"sqlite: the client of {path_of(self._stores[store])} is closed")
            try:
                connection = self._connections[store] = open_store(self._shared, store)
            except FAILURES as error:
                self._fail(store, error)
        return connection

    def _rows(
        self, store: int, sql: str, values: Sequence[Any] = (), anew: bool = False
    ) -> list[Row]:
        try:
            return self._connection(store).execute(sql, values).fetchall()
        except FAILURES as error:
            self._fail(store, error)

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        depth, lines = {0: -1}, []
        for number, parent, _, text in self._rows(store, f"EXPLAIN QUERY PLAN {sql}", values):
            depth[number] = depth[parent] + 1
            lines.append("  " * depth[number] + text)
        return "\n".join(lines)

    def whole(self, number: str) -> str:
        return f"CAST({number} AS INTEGER)"

    def _roll_back(self, connection: sqlite3.Connection, error: Exception) -> NoReturn:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            # A connection that cannot roll back must not be used again; closing it does the rest.
            self._disconnect()
            error.add_note(f"rolling back failed as well: {second}")
        if isinstance(error, EngineError):
            raise error
        self._fail(0, error)

    def _fail(self, store: int, error: Exception) -> NoReturn:
        raise EngineError(f"sqlite: {path_of(self._stores[store])}: {error}") from error


def _read_tables(client: SqliteClient, shared: Shared) -> dict[Kind, Table]:
    """The tables that all stores have, from the files themselves."""
    tables: dict[Kind, Table] = {}
    for store, path in enumerate(map(path_of, shared.stores)):
        if not path.is_file():
            raise EngineError(f"sqlite: {path} does not exist: nothing was loaded there")
        for kind in shared.kinds:
            rows = client._rows(store, f"PRAGMA table_info({quoted(kind.table)})")
            if not rows:
                continue
            table = table_from_names(kind, [row[1] for row in rows], path, KEYS)
            if tables.setdefault(kind, table) != table:
                raise EngineError(f"sqlite: {path}: {kind.table} has other columns than before")
    return tables


class SqliteEngine(Engine):
    """SQLite in the client's process."""

    name: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite"
    flags: ClassVar[Flags] = Flags(
        embedded=True,
        durable=True,
        secondary_indexes=True,
        updates=True,
        deletes=True,
        scans=True,
        ranges=True,
        server_aggregation=True,
        finds=True,
        explains=True,
        concurrent_writers=False,
    )
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "synchronous=FULL: a batch is a transaction, on disk (fsync) when acknowledged",
        "relaxed": (
            "synchronous=OFF: a batch is one transaction, with the operating system when "
            "acknowledged; it survives the death of the process, not that of the machine, which "
            "may leave the file damaged"
        ),
    }
    Settings: ClassVar[type[EngineSettings]] = SqliteSettings

    def versions(self) -> dict[str, str]:
        return {"sqlite": sqlite3.sqlite_version, "python-sqlite3": platform.python_version()}

    def connect(self, cluster: Cluster, mode: Mode) -> SqliteClient:
        settings = parse_settings(SqliteSettings, self, cluster)
        if settings.page_size & (settings.page_size - 1):
            raise EngineError(f"sqlite: page_size {settings.page_size} is not a power of two")
        stores = store_directories(self, cluster, mode)
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            stores=stores,
            router=Router(len(stores), cluster.placement),
            settings=settings,
            durable=consistency_of(self, cluster) == "durable",
            wal=not cluster.network_file_system,
        )
        client = SqliteClient(shared)
        try:
            if mode == "write":
                client._connection(0)
            else:
                shared.tables = _read_tables(client, shared)
                client._use_tables(shared.tables)
        except EngineError:
            client.close()
            raise
        return client
