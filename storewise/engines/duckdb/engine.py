"""DuckDB: one database file per writing process.

API: https://duckdb.org/docs/stable/clients/python/overview; indexes:
https://duckdb.org/docs/stable/sql/indexes; settings: `duckdb_settings()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import duckdb

from storewise.documents import FieldType, Kind
from storewise.engines.contract.engine import Cluster, Engine, Mode
from storewise.engines.contract.queries import Count, Find
from storewise.engines.sql.duckdb_reads import (
    FAILURES,
    DuckReads,
    DuckSettings,
    open_duckdb,
    sql_string,
)
from storewise.engines.sql.reads import FLAGS, SqlState
from storewise.engines.support.table import Table, quoted

#: The name of an Arrow table in a statement: that of an argument of `_load`.
_INCOMING = "storewise_incoming"


class DuckdbClient(DuckReads[SqlState]):
    """One thread's cursor on the process's database (written) or databases (read).

    Loads of new ids run side by side; what may meet a row that exists goes one at a time, because
    DuckDB lets the second of two writers to a row fail.
    """

    engine_name = "duckdb"
    file_name = "documents.duckdb"
    # The primary key's index (an adaptive radix tree) costs a fifth of the load's speed, and point
    # reads are five times as fast with it as with DuckDB's block minima and maxima alone.
    types: ClassVar[Mapping[FieldType, str]] = {
        "id": "BLOB",
        "key": "BLOB",
        "int": "BIGINT",
        "float": "DOUBLE",
        "str": "VARCHAR",
    }
    # Whether it takes an index shows only when it runs: its plan always names a sequential scan.
    explain_statement = "EXPLAIN ANALYZE"

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        return "Index Scan" in plan  # without its name

    def _source(self, table: Table, store: int) -> str:
        name = quoted(table.name)
        return name if self._shared.mode == "write" else f"{_alias(store)}.{name}"

    def _attach(self, store: int) -> None:
        super()._attach(store)
        file = sql_string(str(self._file(store)))
        self._rows(store, f"ATTACH {file} AS {_alias(store)} (READ_ONLY)")

    def _columns(self, store: int, kind: Kind) -> list[str]:
        writes = self._shared.mode == "write"
        database = "current_database()" if writes else sql_string(_alias(store))
        rows = self._rows(
            store,
            f"SELECT column_name FROM duckdb_columns() WHERE database_name = {database} "
            "AND table_name = ? ORDER BY column_index",
            (kind.table,),
        )
        return [str(row[0]) for row in rows]

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        from storewise.engines.sql.arrow import arrow_table

        shared = self._writing("insert")
        table = self._table(kind)
        into = f"INTO {quoted(table.name)} SELECT {table.select} FROM"
        batch = arrow_table(table, documents)
        try:
            # Ids are nearly always new, and a plain insert loads about 1.4 times as fast as one
            # that replaces; it leaves nothing behind when an id exists.
            try:
                self._load(f"INSERT {into} {_INCOMING}", batch)
            except (duckdb.ConstraintException, duckdb.TransactionException):
                # The last document of an id counts, in the batch as over batches.
                numbered = f"(SELECT *, row_number() OVER () AS place FROM {_INCOMING})"
                newest = (
                    f"{numbered} QUALIFY row_number() OVER "
                    f"(PARTITION BY {table.key_list} ORDER BY place DESC) = 1"
                )
                with shared.lock:
                    self._load(f"INSERT OR REPLACE {into} {newest}", batch)
        except FAILURES as error:
            self._fail(0, error)

    def _load(self, sql: str, storewise_incoming: Any) -> None:
        """Run a statement on an Arrow table, which DuckDB finds by the name of the argument; to
        register it would be a transaction of its own."""
        self._connection.execute(sql)

    def finish(self) -> None:
        super().finish()
        # The log goes into the database file, so that readers need not replay it.
        self._rows(0, "CHECKPOINT")

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        with self._shared.lock:
            return int(self._rows(store, sql, values)[0][0])


def _alias(store: int) -> str:
    return f"store_{store}"


class DuckdbEngine(Engine):
    """DuckDB in the client's process."""

    name = "duckdb"
    language = "sql"
    title = "DuckDB"
    in_first_study = True
    flags = FLAGS
    encoding = "arrow"
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "a batch is a transaction, in the log on disk (fsync) when acknowledged",
        "relaxed": (
            "fsync_mode=NONE: a batch is a transaction, with the operating system when "
            "acknowledged; it survives the death of the process, not that of the machine, which "
            "may leave the file damaged"
        ),
    }
    Settings = DuckSettings
    packages = ("duckdb", "pyarrow")

    def connect(self, cluster: Cluster, mode: Mode) -> DuckdbClient:
        settings, level = self.settings_of(cluster.settings), self.level_of(cluster)
        shared = SqlState.of(cluster, mode, self.stores_of(cluster, mode))
        database, options = ":memory:", {}
        if mode == "write":
            # Imported now, so that the first batch does not wait for it; readers need no Arrow.
            import_module("storewise.engines.sql.arrow")
            # `fsync_mode` came with DuckDB 2; an older one refuses it by name.
            options = {"fsync_mode": "NONE"} if level == "relaxed" else {}
            database = str(shared.stores[0] / DuckdbClient.file_name)
        connection = open_duckdb(self.name, database, settings, options)
        return DuckdbClient(connection, shared).connected()
