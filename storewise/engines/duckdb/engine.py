"""DuckDB: one database file per writing process.

API: https://duckdb.org/docs/stable/clients/python/overview; indexes:
https://duckdb.org/docs/stable/sql/indexes; settings: `duckdb_settings()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar

import duckdb

from storewise.documents import FieldType, Kind
from storewise.engines.contract.engine import Cluster, Engine, EngineSettings, Flags, Mode, Schema
from storewise.engines.sql.duckdb_reads import (
    FAILURES,
    DuckReads,
    DuckSettings,
    open_duckdb,
    sql_string,
)
from storewise.engines.sql.reads import SqlState, check_columns
from storewise.engines.support.checks import consistency_of, parse_settings, store_directories
from storewise.engines.support.routing import Router
from storewise.engines.support.table import (
    Keys,
    Row,
    Table,
    index_ddl,
    make_tables,
    quoted,
    table_from_names,
)
from storewise.errors import EngineError

FILE_NAME = "documents.duckdb"
#: Blocks are left out by the limits of single columns.
KEYS: Keys = "columns"

_TYPES: Mapping[FieldType, str] = {
    "id": "BLOB",
    "key": "BLOB",
    "int": "BIGINT",
    "float": "DOUBLE",
    "str": "VARCHAR",
}
_INCOMING = "storewise_incoming"


class DuckdbClient(DuckReads[SqlState]):
    """One thread's cursor on the process's database (written) or databases (read).

    Loads of new ids run side by side; what may meet a row that exists goes one at a time, because
    DuckDB lets the second of two writers to a row fail.
    """

    engine_name = "duckdb"
    # Whether it takes an index shows only when it runs: its plan always names a sequential scan.
    explained = "EXPLAIN ANALYZE"

    def _source(self, table: Table, store: int) -> str:
        name = quoted(table.name)
        return name if self._shared.mode == "write" else f"{_alias(store)}.{name}"

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = make_tables(schema, KEYS)
        for table in tables.values():
            self._execute(_table_ddl(table))
        check_columns(self, tables)
        if schema.index_time == "before":
            self._make_indexes(schema)
        shared.tables, shared.schema = tables, schema
        self._use_tables(tables)

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        from storewise.engines.sql.arrow import arrow_table

        shared = self._writing("insert")
        table = self._table(kind)
        sql = f"INTO {quoted(table.name)} SELECT * FROM {_INCOMING}"
        self._register(arrow_table(table, documents))
        try:
            # Ids are nearly always new, and a plain insert loads about 1.4 times as fast as one
            # that replaces; it leaves nothing behind when an id exists.
            try:
                self._connection.execute(f"INSERT {sql}")
            except (duckdb.ConstraintException, duckdb.TransactionException):
                # The last document of an id counts, in the batch as over batches.
                unique = {document["_id"]: document for document in documents}
                self._register(arrow_table(table, list(unique.values())))
                with shared.lock:
                    self._connection.execute(f"INSERT OR REPLACE {sql}")
        except FAILURES as error:
            self._fail(0, error)
        finally:
            self._connection.unregister(_INCOMING)

    def finish(self) -> None:
        schema = self._writing("finish").schema
        if schema is not None and schema.index_time == "after":
            self._make_indexes(schema)
        # The log goes into the database file, so that readers need not replay it.
        self._execute("CHECKPOINT")

    def _exclusive(self, store: int) -> AbstractContextManager[Any]:
        lock: AbstractContextManager[Any] = self._shared.lock
        return lock

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        with self._shared.lock:
            return int(self._rows(store, sql, values)[0][0])

    def status(self) -> dict[str, float]:
        """Memory and temporary space in bytes, used and free blocks over the stores' files."""
        ((used, free),) = self._rows(
            0, "SELECT sum(used_blocks), sum(free_blocks) FROM pragma_database_size()"
        )
        return {**super().status(), "used_blocks": float(used), "free_blocks": float(free)}

    def _register(self, batch: Any) -> None:
        try:
            self._connection.register(_INCOMING, batch)
        except FAILURES as error:
            self._fail(0, error)

    def _make_indexes(self, schema: Schema) -> None:
        for index in schema.indexes:
            self._execute(index_ddl(*index))

    def _execute(self, sql: str) -> None:
        try:
            self._connection.execute(sql)
        except FAILURES as error:
            self._fail(0, error)


def _alias(store: int) -> str:
    return f"store_{store}"


def _table_ddl(table: Table) -> str:
    # The primary key's index (an adaptive radix tree) costs a fifth of the load's speed, and point
    # reads are five times as fast with it as with DuckDB's block minima and maxima alone.
    columns = [f"{quoted(c.name)} {_TYPES[c.type]}" for c in table.columns]
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(table.name)} "
        f"({', '.join(columns)}, PRIMARY KEY ({table.key_list}))"
    )


def _attach(client: DuckdbClient, shared: SqlState) -> dict[Kind, Table]:
    """Attach all stores to read; the tables that they have."""
    tables: dict[Kind, Table] = {}
    for store, directory in enumerate(shared.stores):
        path = directory / FILE_NAME
        if not path.is_file():
            raise EngineError(f"duckdb: {path} does not exist: nothing was loaded there")
        client._execute(f"ATTACH {sql_string(str(path))} AS {_alias(store)} (READ_ONLY)")
        columns: dict[str, list[str]] = {}
        rows: list[Row] = client._rows(
            store,
            "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = ? "
            "ORDER BY table_name, column_index",
            (_alias(store),),
        )
        for table_name, column_name in rows:
            columns.setdefault(table_name, []).append(column_name)
        for kind in shared.kinds:
            if kind.table in columns:
                table = table_from_names(kind, columns[kind.table], path, KEYS)
                if tables.setdefault(kind, table) != table:
                    raise EngineError(f"duckdb: {path}: {kind.table} has other columns than before")
    return tables


class DuckdbEngine(Engine):
    """DuckDB in the client's process."""

    name: ClassVar[str] = "duckdb"
    title: ClassVar[str] = "DuckDB"
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
        "durable": "a batch is a transaction, in the log on disk (fsync) when acknowledged",
        "relaxed": (
            "fsync_mode=NONE: a batch is a transaction, with the operating system when "
            "acknowledged; it survives the death of the process, not that of the machine, which "
            "may leave the file damaged"
        ),
    }
    Settings: ClassVar[type[EngineSettings]] = DuckSettings

    def versions(self) -> dict[str, str]:
        return {"duckdb": duckdb.__version__, "pyarrow": version("pyarrow")}

    def connect(self, cluster: Cluster, mode: Mode) -> DuckdbClient:
        settings = parse_settings(DuckSettings, self, cluster)
        level = consistency_of(self, cluster)
        stores = store_directories(self, cluster, mode)
        shared = SqlState(
            mode=mode,
            kinds=cluster.kinds,
            stores=stores,
            router=Router(len(stores), cluster.placement),
        )
        if mode == "write":
            # Imported now, so that the first batch does not wait for it; readers need no Arrow.
            import_module("storewise.engines.sql.arrow")
            # `fsync_mode` came with DuckDB 2; an older one refuses it by name.
            extra = {"fsync_mode": "NONE"} if level == "relaxed" else {}
            database = str(stores[0] / FILE_NAME)
            return DuckdbClient(open_duckdb(self.name, database, settings, extra), shared)
        client = DuckdbClient(open_duckdb(self.name, ":memory:", settings), shared)
        try:
            shared.tables = _attach(client, shared)
            client._use_tables(shared.tables)
        except EngineError:
            client.close()
            raise
        return client
