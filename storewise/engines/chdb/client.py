"""One thread's connection: the verbs of the contract on tables of MergeTree's family.

A store is a directory with the parts of its tables. For a writer it is a disk, for a reader a disk
that cannot be written, so that no merge of ClickHouse's own begins where others read. An insert is
a part of its own; what is changed is inserted anew, and SELECT shows the last row of an id
(`final`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from storewise.atomic import aside, sync
from storewise.documents import ID_BYTES, Kind
from storewise.engines.chdb.connection import (
    DIRECTORY,
    FAILURES,
    NUMBERS,
    Connection,
    error_message,
)
from storewise.engines.chdb.settings import ChdbSettings
from storewise.engines.chdb.tables import TYPES, definition, index_definitions, literal, with_values
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find
from storewise.engines.sql.arrow import arrow_table
from storewise.engines.sql.embedded import EmbeddedSql
from storewise.engines.sql.reads import SqlState
from storewise.engines.support.table import Row, Table, describe, described, make_tables, quoted
from storewise.errors import EngineError

#: Where a disk of ClickHouse has its databases.
DATA = "data"
#: Settings of a table at level `durable`. Merges too: they remove the parts that they merge.
DURABLE: Mapping[str, object] = {
    "fsync_after_insert": 1,
    "fsync_part_directory": 1,
    "min_rows_to_fsync_after_merge": 1,
    "min_compressed_bytes_to_fsync_after_merge": 1,
}
#: In a plan: a skipping index that has left granules out.
_SKIPPED = re.compile(
    r"\bSkip\n(?:(?!.*\bGranules:).*\n)+.*\bGranules: (?P<left>\d+)/(?!(?P=left)\b)\d+"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """State shared by the clients of one process."""

    settings: ChdbSettings
    durable: bool
    databases: dict[int, str] = field(default_factory=dict)
    """The database that stands for each store, by its number."""
    links: Path = field(default_factory=lambda: DIRECTORY / f"readers-{next(NUMBERS)}")
    """Directory of a reader's links to the stores' tables."""


class ChdbClient(EmbeddedSql[Shared]):
    """One thread's connection to the stores."""

    engine_name = "chdb"
    file_name = "schema.json"
    types = TYPES

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._open: Connection | None = None

    # The stores as databases.

    def check_connection(self) -> None:
        if self._shared.mode == "write" and not os.access(self._stores[0], os.W_OK | os.X_OK):
            raise EngineError(f"chdb: {self._stores[0]} cannot be written")
        self._connection()
        super().check_connection()

    def _source(self, table: Table, store: int) -> str:
        return f"{self._shared.databases[store]}.{quoted(table.name)}"

    def _columns(self, store: int, kind: Kind) -> list[str]:
        schema = self._described(store)
        if schema is None or kind not in schema.kinds:
            return []
        return list(make_tables(schema, composite=True)[kind].names)

    def _described(self, store: int) -> Schema | None:
        """The schema in the store's description file; None if there is no such file."""
        try:
            text = self._file(store).read_text(encoding="utf-8")
            return described(text, self._shared.kinds)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
            raise EngineError(f"chdb: {self._file(store)} cannot be read: {error}") from error

    def _attach(self, store: int) -> None:
        super()._attach(store)
        shared = self._shared
        schema = self._described(store)
        assert schema is not None  # the file is there
        shared.links.mkdir(exist_ok=True)
        # A new link each time: ClickHouse allows one disk per path, and never removes disks.
        path, place = self._stores[store], shared.links / str(store)
        place.symlink_to((path / DATA / _database(path)).resolve(), target_is_directory=True)
        shared.databases[store] = name = f"store_{next(NUMBERS)}"
        self._rows(store, f"CREATE DATABASE {name} ENGINE = Memory")
        for kind, table in make_tables(schema, composite=True).items():
            folder = literal(f"{place / table.name}/")
            settings = {
                "table_disk": 1,
                "disk": (
                    "disk(type = object_storage, object_storage_type = local, "
                    f"metadata_type = plain, readonly = true, path = {folder})"
                ),
            }
            self._attach_table(store, table, definition(table, _indexes(schema, kind), settings))

    def _attach_table(self, store: int, table: Table, text: str) -> None:
        self._rows(
            store,
            f"ATTACH TABLE IF NOT EXISTS {self._source(table, store)} UUID '{uuid4()}' {text}",
        )

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = make_tables(schema, composite=True)
        with shared.lock:
            if 0 not in shared.databases:
                name = _database(self._stores[0])
                self._rows(0, f"CREATE DATABASE {name} ENGINE = Memory")
                shared.databases[0] = name
            for kind, table in tables.items():
                if names := self._columns(0, kind):
                    self._check_columns(self._stores[0], table, names)
                if (self._directory(table) / "format_version.txt").exists():
                    text = self._definition(table, _indexes(schema, kind))
                    self._attach_table(0, table, text)
                else:
                    indexes = _indexes(schema, kind) if schema.index_time == "before" else ()
                    text = self._definition(table, indexes)
                    self._rows(0, f"CREATE TABLE {self._source(table, 0)} {text}")
            self._describe(schema)
            shared.tables, shared.schema = tables, schema

    def _definition(self, table: Table, indexes: Sequence[str]) -> str:
        """SQL that defines a table for this process to write."""
        disk = f"disk(type = local, path = {literal(f'{self._stores[0].resolve()}/')})"
        # Inserts wait where merges fall behind; none is refused.
        settings = {"parts_to_throw_insert": 1_000_000, "disk": disk}
        durable = DURABLE if self._shared.durable else {}
        return definition(table, indexes, {**settings, **durable})

    def _directory(self, table: Table) -> Path:
        """The directory of the parts of a table that this process writes."""
        path: Path = self._stores[0] / DATA / self._shared.databases[0] / table.name
        return path

    def _describe(self, schema: Schema) -> None:
        """Write the description file of the store, which readers need."""
        try:
            with aside(self._file(0), durable=self._shared.durable) as place:
                place.write_text(describe(schema) + "\n", encoding="utf-8")
            if self._shared.durable:
                # ClickHouse syncs what is in a table's directory, not the directories above it.
                store = self._stores[0]
                for path in (store / DATA / self._shared.databases[0], store / DATA, store):
                    sync(path)
        except OSError as error:
            raise EngineError(f"chdb: {self._file(0)}: {error.strerror}") from error

    def _make_indexes(self, schema: Schema) -> None:
        for kind, name in schema.indexes:
            table = self._shared.tables[kind]
            for index in index_definitions(table, name):
                alter = f"ALTER TABLE {self._source(table, 0)} ADD INDEX IF NOT EXISTS {index}"
                self._rows(0, alter)

    def finish(self) -> None:
        super().finish()
        shared, schema = self._shared, self._shared.schema
        if schema is None:
            return
        parts = "SELECT name FROM system.parts WHERE database = ? AND table = ? AND active"
        with shared.lock:
            for kind, table in shared.tables.items():
                source, of_table = self._source(table, 0), (shared.databases[0], table.name)
                if not self._rows(0, parts, of_table):
                    continue
                # One part, in which each id is once; new indexes are made on the way.
                self._rows(0, f"OPTIMIZE TABLE {source} FINAL")
                # The parts that were merged: ClickHouse removes them when it has nothing else to
                # do, and not at its end.
                kept = {"detached", *(name for (name,) in self._rows(0, parts, of_table))}
                self._rows(0, f"DETACH TABLE {source}")
                for path in self._directory(table).iterdir():
                    if path.is_dir() and path.name not in kept:
                        shutil.rmtree(path, ignore_errors=True)
                self._attach_table(0, table, self._definition(table, _indexes(schema, kind)))

    # Changes.

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        table = self._table(kind)
        batch = arrow_table(table, documents)
        if not batch.num_rows:
            return
        ids = pa.binary(ID_BYTES)
        schema = pa.schema(
            [pa.field(f.name, pa.binary() if f.type == ids else f.type) for f in batch.schema]
        )
        try:
            self._connection().insert(f"INSERT INTO {self._source(table, 0)}", batch.cast(schema))
        except FAILURES as error:
            self._fail(0, error)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        shared = self._writing("update")
        self._table(kind).check_changes(changes)
        with shared.lock:
            document = self.get(kind, document_id)
            if document is not None:
                self.insert(kind, [{**document, **changes}])
        return document is not None

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        shared = self._writing("delete")
        table = self._table(kind)
        with shared.lock:
            if self.get(kind, document_id) is None:
                return False
            source, key = self._source(table, 0), table.key_values(document_id)
            self._rows(0, f"DELETE FROM {source} WHERE {table.key_clause(self.mark)}", key)
        return True

    # Reading.

    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            return self._connection().rows(with_values(sql, self.mark, values))
        except FAILURES as error:
            self._fail(store, error)

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        rows = self._rows(store, f"EXPLAIN indexes = 1 {sql}", values)
        return "\n".join(row[0] for row in rows)

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        # An index counts where it has left granules out.
        return _SKIPPED.search(plan) is not None

    # Connections.

    def _connection(self) -> Connection:
        if self._open is None:
            self._check_open()
            self._open = Connection(self._shared.settings)
        return self._open

    def _connect(self) -> None:
        self._connection()

    def _disconnect(self) -> None:
        if self._open is None:
            return
        try:
            if self._shared.clients[0] is self:
                self._forget_stores(self._open)
        except FAILURES as error:
            self._fail(0, error)
        finally:
            self._open.close()
            self._open = None

    def _forget_stores(self, connection: Connection) -> None:
        """Detach the tables, because ClickHouse may run on for other clients of the process."""
        for name in self._shared.databases.values():
            listed = f"SELECT name FROM system.tables WHERE database = {literal(name)}"
            for (table,) in connection.rows(listed):
                connection.rows(f"DETACH TABLE {name}.{quoted(table)}")
            connection.rows(f"DROP DATABASE {name}")
        shutil.rmtree(self._shared.links, ignore_errors=True)

    _error_message = staticmethod(error_message)


def _indexes(schema: Schema, kind: Kind) -> list[str]:
    """The fields of a kind that have an index, or get one at the end of the load."""
    if schema.index_time == "none":
        return []
    return [name for of, name in schema.indexes if of is kind]


def _database(store: Path) -> str:
    """The name of the database with the tables of a store; a new name if it has none yet."""
    names = [path.name for path in (store / DATA).glob("documents_*")]
    return names[0] if names else f"documents_{uuid4().hex}"
