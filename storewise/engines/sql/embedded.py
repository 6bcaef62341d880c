"""SQL stores in the client's process: each store is a directory of files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from storewise.documents import FieldType, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.sql.reads import SqlReads, State
from storewise.engines.support.table import (
    Table,
    create_table,
    make_tables,
    quoted,
    table_from_names,
)
from storewise.errors import EngineError
from storewise.metrics.host import tree_bytes


class EmbeddedSql(SqlReads[State]):
    """Tables in files: a writer creates those of its store, a reader opens those of all stores."""

    file_name: ClassVar[str] = ""
    """Name of a store's file in its directory."""
    types: ClassVar[Mapping[FieldType, str]]
    """SQL types of columns."""

    @abstractmethod
    def _columns(self, store: int, kind: Kind) -> list[str]:
        """The columns of a kind's table in one store; empty if it has no such table."""

    def _file(self, store: int) -> Path:
        path: Path = self._stores[store] / self.file_name
        return path

    def _attach(self, store: int) -> None:
        """Open a store for reading; EngineError if it does not exist."""
        if not self._file(store).is_file():
            raise EngineError(
                f"{self.engine_name}: {self._file(store)} does not exist: nothing was loaded there"
            )

    def check_connection(self) -> None:
        """Read from the stores' files which tables all of them have."""
        if self._shared.mode == "write":
            return
        tables: dict[Kind, Table] = {}
        for store in range(len(self._stores)):
            self._attach(store)
            for kind in self._shared.kinds:
                if not (names := self._columns(store, kind)):
                    continue
                table = table_from_names(kind, names, self._file(store))
                self._check_columns(self._file(store), tables.setdefault(kind, table), names)
        self._shared.tables = tables

    def _check_columns(self, where: object, table: Table, names: Sequence[str]) -> None:
        """Raise EngineError where a table in a store has other columns (`names`)."""
        if table.names != tuple(names):
            raise EngineError(
                f"{self.engine_name}: {where}: {table.name} has the columns {', '.join(names)}; "
                f"expected {', '.join(table.names)}: load into an empty store"
            )

    def _table_ddl(self, table: Table) -> str:
        return create_table(table, self.types)

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = make_tables(schema, composite=True)
        with shared.lock:
            for kind, table in tables.items():
                self._rows(0, self._table_ddl(table))
                self._check_columns(self._stores[0], table, self._columns(0, kind))
            if schema.index_time == "before":
                self._make_indexes(schema)
            shared.tables, shared.schema = tables, schema

    def _make_indexes(self, schema: Schema) -> None:
        for kind, name in schema.indexes:
            index = quoted(f"{kind.table}_{name}")
            place = f"{quoted(kind.table)} ({quoted(name)})"
            self._rows(0, f"CREATE INDEX IF NOT EXISTS {index} ON {place}")

    def disk_bytes(self) -> int:
        return tree_bytes(self._stores)
