"""The writer of a load's parts, and the reader of data sets and parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from storewise.atomic import aside, sync
from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Query, Where
from storewise.engines.parquet.finishing import finish
from storewise.engines.parquet.partitions import Partition, partitions_with
from storewise.engines.parquet.settings import ParquetSettings, Reader
from storewise.engines.parquet.store import Store
from storewise.engines.sql import arrow
from storewise.engines.sql.duckdb_reads import FAILURES, DuckReads, sql_string
from storewise.engines.sql.reads import Part, SqlState
from storewise.engines.support.batches import arrow_schema
from storewise.engines.support.table import Table, make_table, make_tables, table_from_names
from storewise.errors import EngineError, StorewiseError

#: At level relaxed, documents of a kind in memory before a file is written.
BUFFERED_DOCUMENTS = 65_536


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """The shared state of a process; `stores` are partitions."""

    places: Sequence[Store]
    settings: ParquetSettings
    durable: bool
    reader: Reader
    next_part: int = 1
    buffers: dict[Kind, list[Any]] = field(default_factory=dict)
    version: int = 0
    """Incremented with every change of files; clients check it before they read."""
    datasets: dict[tuple[str, ...], Any] = field(default_factory=dict)
    """(table name, file paths) -> Arrow data set, which caches the files' footers."""


class ParquetClient(DuckReads[Shared]):
    """One thread's cursor on DuckDB, and the writer of parts."""

    engine_name = "parquet"

    def __init__(self, connection: duckdb.DuckDBPyConnection, shared: Shared) -> None:
        super().__init__(connection, shared)
        self._sources: dict[tuple[Any, ...], str] = {}
        """FROM items of a kind and a partition, or of a kind and partitions of each store."""
        self._seen = -1

    # Finding out what there is.

    def check_connection(self) -> None:
        shared = self._shared
        if shared.mode == "write":
            return
        for number, (store, _) in enumerate(self._stores):
            if number and store is self._stores[number - 1].store:
                continue  # another partition of it
            for kind in shared.kinds:
                if names := self._columns(number, kind):
                    table = table_from_names(kind, names, store.directory)
                    self._check_columns(store, shared.tables.setdefault(kind, table), names)
        self._seen = shared.version

    def _columns(self, store: int, kind: Kind) -> list[str]:
        place = self._stores[store].store
        parts, paths = place.parts(kind), place.paths(kind)
        with self._failing():
            if paths:
                return list(pq.read_schema(paths[-1], filesystem=place.file_system()).names)
            if parts:
                return list(pq.read_schema(parts[-1]).names)
        # `convert` makes no file of a kind without documents; a load makes an empty one.
        if kind in KINDS and place.settings is not None and len(place.state.rows()):
            return list(make_table(kind, study_fields=place.settings.study_fields).names)
        return []

    # FROM items.

    def _source(self, table: Table, store: int) -> str:
        source = self._sources.get((table.kind, store))
        if source is None:
            source = self._from_partition(table, self._stores[store])
            self._sources[table.kind, store] = source
        return source

    def _from_partition(self, table: Table, partition: Partition) -> str:
        """The FROM item of a table in one partition, with each id once."""
        store, number = partition
        paths = store.paths(table.kind, None if number is None else (number,))
        parts = store.parts(table.kind)
        if not parts:
            return self._from_files(table, paths)
        names = ", ".join(sql_string(str(part)) for part in parts)
        every = f"read_parquet([{names}], filename = true, file_row_number = true)"
        if paths:
            # The data set is older than any part, and parts are numbered in order.
            every = (
                f"(SELECT {table.select}, filename, file_row_number FROM {every} UNION ALL "
                f"SELECT {table.select}, '', 0 FROM {self._from_files(table, paths)})"
            )
        key = f"({table.key_list})" if table.composite else "_id"
        ((rows, ids),) = self._rows(0, f"SELECT count(*), count(DISTINCT {key}) FROM {every}")
        if rows == ids:
            return f"(SELECT {table.select} FROM {every})"
        return (
            f"(SELECT {table.select} FROM {every} QUALIFY row_number() OVER (PARTITION BY "
            f"{table.key_list} ORDER BY filename DESC, file_row_number DESC) = 1)"
        )

    def _from_files(self, table: Table, paths: Sequence[str]) -> str:
        """A new entry of `_sources`: files of the data sets, as DuckDB or Arrow reads them."""
        if paths and self._shared.reader == "duckdb":
            listed = ", ".join(map(sql_string, paths))
            return f"read_parquet([{listed}], hive_partitioning = false)"
        name = f"storewise_{table.name}_{len(self._sources)}"
        with self._failing():
            self._connection.register(name, self._dataset(table, paths))
        return name

    def _dataset(self, table: Table, paths: Sequence[str]) -> Any:
        # DuckDB asks for ids as binary values of any length. Were the columns of another type,
        # Arrow would convert them row by row and not look at the limits of row groups.
        schema = pa.schema(
            field.with_type(pa.binary()) if pa.types.is_fixed_size_binary(field.type) else field
            for field in arrow_schema(table)
        )
        if not paths:
            return schema.empty_table()
        datasets, key = self._shared.datasets, (table.name, *paths)
        if key not in datasets:
            # Two threads may both make one: it costs nothing, and either will do.
            system = self._shared.places[0].file_system()
            datasets[key] = pads.FileSystemDataset.from_paths(
                list(paths), schema=schema, format=pads.ParquetFileFormat(), filesystem=system
            )
        return datasets[key]

    def _parts(self, table: Table, query: Query) -> Sequence[Part]:
        """All files as one source, without partitions that no condition can match."""
        stores = self._shared.places
        if self._shared.mode == "write" or not all(store.finished for store in stores):
            return super()._parts(table, query)
        where: Sequence[Where] = getattr(query, "where", ())
        partitions = [partitions_with(store, where) for store in stores]
        key = (table.kind, *partitions)
        if key not in self._sources:
            every = zip(stores, partitions, strict=True)
            paths = [path for store, some in every for path in store.paths(table.kind, some)]
            self._sources[key] = self._from_files(table, paths)
        return [(0, self._sources[key])]

    def _table(self, kind: Kind) -> Table:
        self._look()
        return super()._table(kind)

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        self._look()
        return super().get(kind, document_id)

    def _look(self) -> None:
        """Refresh the view of the files if another thread has changed them."""
        shared = self._shared
        if self._seen == shared.version and not shared.buffers:
            return
        with shared.lock:
            for kind in list(shared.buffers):
                self._flush(kind)
            self._seen = shared.version
            self._sources.clear()
            self._points.clear()

    # Writing.

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        store = shared.places[0]
        with shared.lock:
            tables = make_tables(schema, composite=True)
            numbers = [int(part.stem) for kind in tables for part in store.parts(kind)]
            shared.next_part = 1 + max(numbers, default=0)
            for kind, table in tables.items():
                if there := self._columns(0, kind):
                    self._check_columns(store, table, there)
                else:
                    # An empty part tells the columns even where no document of a kind comes.
                    self._write_part(kind, arrow.arrow_table(table, []))
            shared.tables, shared.schema = tables, schema
            shared.version += 1

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        shared = self._writing("insert")
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
            if sum(map(len, buffer)) >= BUFFERED_DOCUMENTS:
                self._flush(kind)

    def finish(self) -> None:
        """Make the parts files of the data set: sorted, partitioned, the last document of an id.

        After an error this client is closed: the next one carries out what has been begun."""
        shared = self._writing("finish")
        if (schema := shared.schema) is None:
            return  # nothing was created
        with shared.lock:
            self._look()
            try:
                with self._failing():
                    # Several threads would mix the rows of a partition.
                    self._connection.execute("SET threads = 1")
                    finish(
                        self._connection,
                        shared.places[0],
                        shared.tables,
                        lambda table: self._source(table, 0),
                        shared.settings,
                        study_fields=schema.study_fields,
                    )
                    self._connection.execute(f"SET threads = {shared.settings.threads}")
            except EngineError:
                self.close()
                raise
            shared.next_part = 1
            shared.version += 1

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Translate errors of the files to EngineError."""
        try:
            yield
        except EngineError:
            raise
        except FAILURES as error:
            self._fail(0, error)
        except (StorewiseError, OSError, pa.ArrowException) as error:
            raise EngineError(f"parquet: {self._shared.places[0]}: {error}") from error

    def _flush(self, kind: Kind) -> None:
        """Write the buffered batches of a kind; they stay buffered when that fails."""
        self._write_part(kind, pa.concat_tables(self._shared.buffers[kind]))
        del self._shared.buffers[kind]

    def _write_part(self, kind: Kind, batch: Any) -> None:
        """Write a batch as a complete file that appears at once under its final name; where
        durable, content and name are on disk afterwards."""
        shared = self._shared
        with shared.lock:
            number = shared.next_part
            shared.next_part += 1
        directory = shared.places[0].parts_of(kind)
        with self._failing():
            if not directory.is_dir():
                directory.mkdir(parents=True, exist_ok=True)
                if shared.durable:
                    for parent in list(directory.parents)[:3]:
                        sync(parent)
            # Parts are read once, by `finish`: no statistics, no dictionaries.
            with aside(directory / f"{number:010d}.parquet", durable=shared.durable) as place:
                pq.write_table(
                    batch, place, compression="zstd", use_dictionary=False, write_statistics=False
                )
            if shared.durable:
                sync(directory)
        with shared.lock:
            shared.version += 1

    def disk_bytes(self) -> int:
        return sum(store.disk_bytes() for store in self._shared.places)
