"""Reads through DuckDB, shared by the DuckDB and Parquet engines.

API: https://duckdb.org/docs/stable/clients/python/overview; settings:
https://duckdb.org/docs/stable/configuration/overview.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import duckdb
from pydantic import Field as Setting

from storewise.engines.contract.engine import EngineSettings
from storewise.engines.contract.queries import Query
from storewise.engines.sql.embedded import EmbeddedSql
from storewise.engines.sql.reads import Part, State
from storewise.engines.support.table import Row, Table
from storewise.errors import EngineError

#: What the driver raises: its own errors, and Python's for values that it cannot bind.
FAILURES = (duckdb.Error, OverflowError, UnicodeError)


class DuckSettings(EngineSettings):
    """Settings of every engine that works through DuckDB."""

    # One thread a process by default: a study sets the number of clients itself, and a store that
    # silently took all cores for each of them could not be compared with the others.
    threads: int = Setting(default=1, ge=1, description="DuckDB's own threads in each process")
    memory_limit_mib: int = Setting(
        default=2048,
        ge=64,
        description="memory that DuckDB may use in each process, MiB; larger sorts spill to disk",
    )


def open_duckdb(
    engine_name: str,
    database: str,
    settings: DuckSettings,
    extra: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A connection to a database file or to ``:memory:``; EngineError in DuckDB's words.

    Sorts that outgrow the memory go to a new directory that only this user can enter, below that
    of Python's `tempfile` (in a job the session's own); it goes with the connection.
    """
    temporary = tempfile.mkdtemp(prefix="storewise-duckdb-")
    config = {
        "threads": settings.threads,
        "memory_limit": f"{settings.memory_limit_mib}MiB",
        "temp_directory": temporary,
        # A worker never loads code from the network.
        "autoinstall_known_extensions": False,
        **(extra or {}),
    }
    try:
        connection = duckdb.connect(database, config=config)
    except FAILURES as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise EngineError(f"{engine_name}: {database}: {error}") from error
    weakref.finalize(connection, shutil.rmtree, temporary, ignore_errors=True)
    return connection


def sql_string(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


class DuckReads(EmbeddedSql[State]):
    """The reading verbs over a DuckDB connection that can see all stores."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, shared: State) -> None:
        super().__init__(shared)
        self._connection = connection
        # Parsing once saves a quarter of a point read; DuckDB plans each execution.
        self._parsed = lru_cache(maxsize=512)(connection.extract_statements)

    def _connect(self) -> None:
        """Do nothing: a thread's cursor uses the process's connection."""

    def _unconnected_client(self) -> Self:
        """Make a client with its own cursor."""
        self._check_open()
        return type(self)(self._connection.cursor(), self._shared)

    def _disconnect(self) -> None:
        self._parsed.cache_clear()
        setting = "SELECT current_setting('temp_directory')"
        try:
            (temporary,) = self._connection.execute(setting).fetchall()[0]
            self._connection.close()
        except FAILURES as error:
            self._fail(0, error)
        if self._shared.clients[0] is self:
            # Not only with the connection: a process of `multiprocessing` ends without collecting.
            shutil.rmtree(temporary, ignore_errors=True)

    def _parts(self, table: Table, query: Query) -> Sequence[Part]:
        """All stores as one source: DuckDB merges them better than we could."""
        sources = [self._source(table, store) for store in range(len(self._stores))]
        if len(sources) == 1:
            return [(0, sources[0])]
        union = " UNION ALL ".join(f"SELECT {table.select} FROM {s}" for s in sources)
        return [(0, f"({union})")]

    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            (statement,) = self._parsed(sql)
            rows: list[Row] = self._connection.execute(statement, values).fetchall()
        except FAILURES as error:
            self._fail(store, error)
        return rows
