"""The writer of a load's parts, and the reader of data sets and parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import aside
from storewise.dataset.home import sync
from storewise.dataset.writer import DataFile
from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Where
from storewise.engines.parquet.finishing import finish
from storewise.engines.parquet.settings import ParquetSettings, Reader
from storewise.engines.parquet.shelves import Shelf, partitions_of
from storewise.engines.parquet.sources import Sources, Views
from storewise.engines.parquet.store import Store
from storewise.engines.sql import arrow
from storewise.engines.sql.duckdb_reads import FAILURES, DuckReads, sql_string
from storewise.engines.sql.reads import Part, SqlState
from storewise.engines.support.table import Table, make_table, make_tables, table_from_names
from storewise.errors import EngineError, StorewiseError


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """What the clients of a process have in common; `stores` are shelves."""

    check: Callable[[Schema], None]
    """Raises EngineError for a schema that the settings do not fit."""
    places: Sequence[Store]
    settings: ParquetSettings
    durable: bool
    reader: Reader
    next_part: dict[Kind, int] = field(default_factory=dict)
    buffers: dict[Kind, list[Any]] = field(default_factory=dict)
    halted: bool = False
    """A `finish` has failed so late that nothing can be inserted before it is done again."""
    version: int = 0
    """Grows with every change of files; clients look at it before they read."""
    views: Views = field(default_factory=Views)


class ParquetClient(DuckReads[Shared]):
    """One thread's cursor on DuckDB, and the writer of parts."""

    engine_name = "parquet"

    def __init__(self, connection: duckdb.DuckDBPyConnection, shared: Shared) -> None:
        super().__init__(connection, shared)
        self._sources: dict[tuple[Kind, int], str] = {}
        self._items = Sources(connection, shared.reader, shared.views)
        self._everything: dict[tuple[Any, ...], str] = {}
        self._seen = -1

    # Finding out what there is.

    def check_connection(self) -> None:
        shared = self._shared
        store = shared.places[0]
        if shared.mode == "write":
            if not os.access(store.directory, os.W_OK | os.X_OK):
                raise EngineError(f"parquet: {store.directory} is not writable")
        else:
            tables: dict[Kind, Table] = {}
            for store in shared.places:
                for kind in shared.kinds:
                    if (table := self._found(store, kind)) is None:
                        continue
                    if tables.setdefault(kind, table) != table:
                        raise EngineError(
                            f"parquet: {store}: {kind.table} has other columns than before"
                        )
            shared.tables = tables
            self._use_tables(tables)
        self._seen = shared.version

    def _columns(self, store: int, kind: Kind) -> list[str]:
        table = self._found(self._stores[store].store, kind)
        return [] if table is None else list(table.names)

    def _found(self, store: Store, kind: Kind) -> Table | None:
        """The table of a kind in a store, as its files have it; None where it has none."""
        files = store.files(kind)
        parts = store.parts(kind)
        where = store.paths(files[-1:])[0] if files else str(parts[-1]) if parts else None
        if where is None:
            # `convert` makes no file of a kind without documents; a load makes an empty one.
            converted = store.settings is not None and len(store.state.rows())
            if kind in KINDS and store.settings is not None and converted:
                return make_table(kind, study_fields=store.settings.study_fields, composite=True)
            return None
        try:
            with self._file_system(store, remote=bool(files)).open_input_file(where) as file:
                names = pq.read_schema(file).names
        except (OSError, pa.ArrowException) as error:
            raise EngineError(f"parquet: {store}: {where}: {error}") from error
        return table_from_names(kind, names, Path(where))

    @staticmethod
    def _file_system(store: Store, *, remote: bool) -> Any:
        from pyarrow import fs

        return store.file_system() if remote else fs.LocalFileSystem()

    # FROM items.

    def _source(self, table: Table, store: int) -> str:
        source = self._sources.get((table.kind, store))
        if source is None:
            source = self._from_shelf(table, self._stores[store])
            self._sources[table.kind, store] = source
        return source

    def _from_shelf(self, table: Table, shelf: Shelf) -> str:
        """What a shelf has of a table, each id once."""
        store = shelf.store
        partitions = None if shelf.partition is None else [shelf.partition]
        files = store.files(table.kind, partitions)
        parts = store.parts(table.kind)
        if not parts:
            return self._from_files(table, {store: files})
        names = ", ".join(sql_string(str(part)) for part in parts)
        every = f"read_parquet([{names}], filename = true, file_row_number = true)"
        if files:
            # The data set is older than any part, and parts are numbered in order.
            every = (
                f"(SELECT {table.select}, filename, file_row_number FROM {every} UNION ALL "
                f"SELECT {table.select}, '', 0 FROM {self._from_files(table, {store: files})})"
            )
        key = f"({table.key_list})" if table.composite else "_id"
        ((rows, ids),) = self._rows(0, f"SELECT count(*), count(DISTINCT {key}) FROM {every}")
        if rows == ids:
            return f"(SELECT {table.select} FROM {every})"
        return (
            f"(SELECT {table.select} FROM {every} QUALIFY row_number() OVER (PARTITION BY "
            f"{table.key_list} ORDER BY filename DESC, file_row_number DESC) = 1)"
        )

    def _from_files(self, table: Table, files: Mapping[Store, Sequence[DataFile]]) -> str:
        """Data files as a FROM item."""
        try:
            return self._items.of(table, files)
        except FAILURES as error:
            self._fail(0, error)

    def _parts(self, table: Table, where: Sequence[Where] = ()) -> Sequence[Part]:
        """All files as one source; partitions that no condition can mean are left out."""
        stores = self._shared.places
        if self._shared.mode == "write" or not all(store.finished for store in stores):
            return super()._parts(table)
        partitions = [partitions_of(store, where) for store in stores]
        key = (table.kind, *partitions)
        if key not in self._everything:
            files = {
                store: store.files(table.kind, some)
                for store, some in zip(stores, partitions, strict=True)
            }
            self._everything[key] = self._from_files(table, files)
        return [(0, self._everything[key])]

    def _table(self, kind: Kind) -> Table:
        self._look()
        return super()._table(kind)

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        self._look()
        return super().get(kind, document_id)

    def _look(self) -> None:
        """Take in what has been written since the last look."""
        shared = self._shared
        if self._seen == shared.version and not shared.buffers:
            return
        with shared.lock:
            for kind in list(shared.buffers):
                self._flush(kind)
            self._seen = shared.version
            self._sources.clear()
            self._use_tables(shared.tables)

    # Writing.

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        if schema.index_time != "none" and schema.indexes:
            raise EngineError("parquet has no secondary indexes: its flags say so")
        shared.check(schema)
        store = shared.places[0]
        with shared.lock:
            with self._failing():
                store.repair()
            shared.tables = make_tables(schema, composite=True)
            shared.schema = schema
            for kind, table in shared.tables.items():
                parts = store.parts(kind)
                shared.next_part[kind] = int(parts[-1].stem) + 1 if parts else 1
                there = self._found(store, kind)
                if there is not None and there != table:
                    raise EngineError(
                        f"parquet: {store}: {table.name} has the columns "
                        f"{', '.join(there.names)}; expected {', '.join(table.names)}: load into "
                        "an empty store"
                    )
                # An empty part makes the columns known even where no document of a kind comes.
                if there is None:
                    self._write_part(kind, arrow.arrow_table(table, []))
            shared.version += 1

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        shared = self._writing("insert")
        if shared.halted:
            raise EngineError(
                f"parquet: {shared.places[0]}: the end of the load has failed; end it again, or "
                "connect again"
            )
        table = shared.tables.get(kind) or super()._table(kind)
        batch = arrow.arrow_table(table, documents)
        if not len(batch):
            return
        if shared.durable:
            self._write_part(kind, batch)
            return
        with shared.lock:
            buffer = shared.buffers.setdefault(kind, [])
            buffer.append(batch)
            if sum(map(len, buffer)) >= shared.settings.buffer_documents:
                self._flush(kind)

    def finish(self) -> None:
        """Make the parts files of the data set: sorted, partitioned, the last document of an id."""
        shared = self._writing("finish")
        store = shared.places[0]
        with shared.lock:
            self._look()
            schema = shared.schema
            wanted = shared.settings.wanted(
                study_fields=schema is not None and schema.study_fields,
                one=not set(shared.tables) <= set(KINDS),
            )
            try:
                with self._failing():
                    finish(
                        self._connection,
                        store,
                        shared.tables,
                        lambda table: self._source(table, 0),
                        wanted,
                    )
            except EngineError:
                shared.halted = store.committing
                raise
            shared.halted = False
            shared.next_part = dict.fromkeys(shared.tables, 1)
            shared.version += 1

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever goes wrong with the store within is an EngineError."""
        store = self._shared.places[0]
        try:
            yield
        except EngineError:
            raise
        except FAILURES as error:
            self._fail(0, error)
        except StorewiseError as error:
            raise EngineError(f"parquet: {error}") from error  # it names the place
        except (OSError, pa.ArrowException) as error:
            raise EngineError(f"parquet: {store}: {error}") from error

    def _flush(self, kind: Kind) -> None:
        """Write the buffered batches of a kind; they stay buffered when that fails."""
        buffer = self._shared.buffers[kind]
        self._write_part(kind, pa.concat_tables(buffer))
        del self._shared.buffers[kind]

    def _write_part(self, kind: Kind, batch: Any) -> None:
        """Write a batch as a complete file that appears at once under its final name; where
        durable, content and name are on disk afterwards."""
        shared = self._shared
        with shared.lock:
            number = shared.next_part[kind]
            shared.next_part[kind] = number + 1
        directory = shared.places[0].parts_of(kind)
        path = directory / f"{number:010d}.parquet"
        try:
            if not directory.is_dir():
                directory.mkdir(parents=True, exist_ok=True)
                if shared.durable:
                    for parent in list(directory.parents)[:3]:
                        sync(parent)
            # Parts are read once, by `finish`: no statistics, no dictionaries.
            with aside(path, durable=shared.durable) as place:
                pq.write_table(
                    batch, place, compression="zstd", use_dictionary=False, write_statistics=False
                )
            if shared.durable:
                sync(directory)
        except (OSError, pa.ArrowException) as error:
            raise EngineError(f"parquet: {path}: {error}") from error
        with shared.lock:
            shared.version += 1

    def disk_bytes(self) -> int:
        return sum(store.disk_bytes() for store in self._shared.places)
