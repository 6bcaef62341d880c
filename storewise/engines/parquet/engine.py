"""Parquet files read through DuckDB: the "no database" choice.

A store directory holds per kind, while it is loaded, the directory ``<table>.parts`` of numbered
files, and after `finish` one file ``<table>.parquet``, sorted by id, whose key-value metadata
``storewise.parts`` is the highest part number that went into it. A part with a higher number was
written later. The last document of an id counts.

Format: https://parquet.apache.org/docs/file-format/; reading:
https://duckdb.org/docs/stable/data/parquet/overview.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import duckdb
from pydantic import Field as Setting

from storewise.atomic import aside, clear_unfinished
from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Engine, Mode, Schema
from storewise.engines.sql.duckdb_reads import DuckReads, DuckSettings, open_duckdb, sql_string
from storewise.engines.sql.reads import FLAGS, SqlState
from storewise.engines.support.table import Table, make_tables
from storewise.errors import EngineError

PARTS_KEY = "storewise.parts"


def final_file(store: Path, kind: Kind) -> Path:
    """The one file of a kind after `finish`."""
    return store / f"{kind.table}.parquet"


def parts_directory(store: Path, kind: Kind) -> Path:
    """Where the parts of a kind are while it is loaded."""
    return store / f"{kind.table}.parts"


def part_files(store: Path, kind: Kind) -> list[Path]:
    """The parts of a kind, oldest first."""
    return sorted(parts_directory(store, kind).glob("*.parquet"))


def last_part(store: Path, kind: Kind) -> int:
    """The number of the newest part; 0 where there is none."""
    parts = part_files(store, kind)
    return int(parts[-1].stem) if parts else 0


def sync(path: Path) -> None:
    """Force a directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ParquetSettings(DuckSettings):
    """Settings of the Parquet files."""

    # A point read decodes one row group, so small groups make it cheap: 4,000 to 10,000 rows read
    # five to ten times as fast as DuckDB's usual 122,880, for less than a percent of size.
    row_group_size: int = Setting(
        default=8192, ge=1, description="documents of a row group in the finished files"
    )
    compression_level: int = Setting(
        default=3, ge=1, le=22, description="zstd level of the finished files"
    )
    buffer_documents: int = Setting(
        default=65536,
        ge=1,
        description="relaxed only: documents of a kind in memory before a part is written",
    )


@dataclass(slots=True, kw_only=True, eq=False)
class _Shared(SqlState):
    settings: ParquetSettings
    durable: bool
    next_part: dict[Kind, int] = field(default_factory=dict)
    buffers: dict[Kind, list[Any]] = field(default_factory=dict)
    version: int = 0
    """Grows with every change of files; clients look at it before they read."""


class ParquetClient(DuckReads[_Shared]):
    """One thread's cursor on DuckDB, and the writer of parts."""

    engine_name = "parquet"

    def __init__(self, connection: duckdb.DuckDBPyConnection, shared: _Shared) -> None:
        super().__init__(connection, shared)
        self._sources: dict[tuple[Kind, int], str] = {}
        self._seen = -1

    def greet(self) -> None:
        if self._shared.mode == "write" and not os.access(self._stores[0], os.W_OK | os.X_OK):
            raise EngineError(f"parquet: {self._stores[0]} is not writable")
        super().greet()
        self._seen = self._shared.version

    def _attach(self, store: int) -> None:
        if next(self._stores[store].rglob("*.parquet"), None) is None:
            raise EngineError(
                f"parquet: {self._stores[store]} has no Parquet files: nothing was loaded"
            )

    def _columns(self, store: int, kind: Kind) -> list[str]:
        directory = self._stores[store]
        final = final_file(directory, kind)
        files = [final] if final.is_file() else part_files(directory, kind)
        if not files:
            return []
        sql = f"DESCRIBE SELECT * FROM read_parquet({sql_string(str(files[-1]))})"
        return [row[0] for row in self._rows(store, sql)]

    def _source(self, table: Table, store: int) -> str:
        source = self._sources.get((table.kind, store))
        if source is None:
            source = _from_item(self, table, store)
            self._sources[table.kind, store] = source
        return source

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

    def create(self, schema: Schema) -> None:
        from storewise.engines.sql import arrow

        shared = self._writing("create")
        if schema.index_time != "none" and schema.indexes:
            raise EngineError("parquet has no secondary indexes: its flags say so")
        with shared.lock:
            try:
                clear_unfinished(self._stores[0])  # a store has one writer at a time
            except OSError as error:
                raise EngineError(f"parquet: {self._stores[0]}: {error}") from error
            shared.tables = make_tables(schema, self.keys)
            for kind, table in shared.tables.items():
                # An empty part makes the columns known even where no document of a kind comes.
                last, final = last_part(self._stores[0], kind), final_file(self._stores[0], kind)
                if final.is_file():
                    # A finished file takes parts up to its own number for merged already.
                    last = max(last, _merged_parts(self, 0, final))
                shared.next_part[kind] = last + 1
                self._write_part(kind, arrow.arrow_table(table, []))

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        from storewise.engines.sql import arrow

        shared = self._writing("insert")
        table = shared.tables.get(kind) or super()._table(kind)
        batch = arrow.arrow_table(table, documents)
        if shared.durable:
            self._write_part(kind, batch)
            return
        with shared.lock:
            buffer = shared.buffers.setdefault(kind, [])
            buffer.append(batch)
            if sum(map(len, buffer)) >= shared.settings.buffer_documents:
                self._flush(kind)

    def finish(self) -> None:
        """Merge the parts of each kind into its one file, sorted by id, last document first."""
        shared = self._writing("finish")
        with shared.lock:
            self._look()
            for table in shared.tables.values():
                self._merge(table)

    def status(self) -> dict[str, float]:
        """Memory and temporary space in bytes, and the number of Parquet files."""
        files = sum(1 for store in self._stores for _ in store.rglob("*.parquet"))
        return {**super().status(), "files": float(files)}

    def _flush(self, kind: Kind) -> None:
        """Write the buffered batches of a kind; they stay buffered when that fails."""
        import pyarrow as pa

        buffer = self._shared.buffers[kind]
        self._write_part(kind, pa.concat_tables(buffer))
        del self._shared.buffers[kind]

    def _write_part(self, kind: Kind, batch: Any) -> None:
        """Write a batch as a complete file that appears at once under its final name."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        shared = self._shared
        with shared.lock:
            number = shared.next_part[kind]
            shared.next_part[kind] = number + 1
        directory = parts_directory(self._stores[0], kind)
        path = directory / f"{number:010d}.parquet"
        try:
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                if shared.durable:
                    sync(directory.parent)
            # Parts are read once, by `finish`: no statistics, no dictionaries.
            with self._published(path) as place:
                pq.write_table(
                    batch, place, compression="zstd", use_dictionary=False, write_statistics=False
                )
        except (OSError, pa.ArrowException) as error:
            raise EngineError(f"parquet: {path}: {error}") from error
        with shared.lock:
            shared.version += 1

    @contextmanager
    def _published(self, path: Path) -> Iterator[Path]:
        """Where a file is written before it gets its name; where durable, content and name are on
        disk afterwards."""
        with aside(path, durable=self._shared.durable) as place:
            yield place
        if self._shared.durable:
            sync(path.parent)

    def _merge(self, table: Table) -> None:
        shared, store = self._shared, self._stores[0]
        last = last_part(store, table.kind)
        path = final_file(store, table.kind)
        parts = part_files(store, table.kind)
        if not parts:
            return
        size = shared.settings.row_group_size
        try:
            with self._published(path) as place:
                self._rows(
                    0,
                    f"COPY (SELECT {table.select} FROM {self._source(table, 0)} "
                    f"ORDER BY {table.key_list}) "
                    f"TO {sql_string(str(place))} (FORMAT parquet, COMPRESSION zstd, "
                    f"COMPRESSION_LEVEL {shared.settings.compression_level}, "
                    f"ROW_GROUP_SIZE {size}, "
                    f"KV_METADATA {{{sql_string(PARTS_KEY)}: {sql_string(str(last))}}})",
                )
            # From here on the parts are superseded, whether they can be removed or not.
            shared.version += 1
            for part in parts:
                part.unlink()
            parts_directory(store, table.kind).rmdir()
        except OSError as error:
            raise EngineError(f"parquet: {path}: {error}") from error


def _from_item(client: ParquetClient, table: Table, store: int) -> str:
    """The FROM item of a kind in one store: its finished file where that is all there is."""
    directory = client._stores[store]
    final, parts = final_file(directory, table.kind), part_files(directory, table.kind)
    if final.is_file():
        merged = _merged_parts(client, store, final)
        parts = [part for part in parts if int(part.stem) > merged]
        if not parts:
            return f"read_parquet({sql_string(str(final))})"
    files = ", ".join(sql_string(str(f)) for f in ([final] if final.is_file() else []) + parts)
    source = f"read_parquet([{files}], filename = true, file_row_number = true)"
    key = f"({table.key_list})" if table.composite else "_id"
    ((rows, ids),) = client._rows(store, f"SELECT count(*), count(DISTINCT {key}) FROM {source}")
    if rows == ids:
        return f"read_parquet([{files}])"
    # The finished file is older than any part, and parts are numbered in order.
    newest = f"filename <> {sql_string(str(final))} DESC, filename DESC, file_row_number DESC"
    return (
        f"(SELECT {table.select} FROM {source} "
        f"QUALIFY row_number() OVER (PARTITION BY {table.key_list} ORDER BY {newest}) = 1)"
    )


def _merged_parts(client: ParquetClient, store: int, final: Path) -> int:
    rows = client._rows(
        store,
        f"SELECT decode(value) FROM parquet_kv_metadata({sql_string(str(final))}) "
        f"WHERE decode(key) = {sql_string(PARTS_KEY)}",
    )
    if len(rows) != 1:
        raise EngineError(f"parquet: {final} was not written by this engine: no {PARTS_KEY}")
    return int(rows[0][0])


class ParquetEngine(Engine):
    """Sorted Parquet files, read through DuckDB in the client's process."""

    name = "parquet"
    title = "Parquet files"
    encoding = "arrow"
    flags = replace(FLAGS, secondary_indexes=False, updates=False, deletes=False)
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "a batch is a complete file of its own, on disk (fsync) when acknowledged",
        "relaxed": (
            "a batch is in the memory of the process when acknowledged; it is lost with the "
            "process until a part is full or the load is finished, and nothing is forced to disk"
        ),
    }
    Settings = ParquetSettings
    packages = ("duckdb", "pyarrow")

    def connect(self, cluster: Cluster, mode: Mode) -> ParquetClient:
        settings: ParquetSettings = self.settings_of(cluster.settings)
        shared = _Shared.of(
            cluster,
            mode,
            self.stores_of(cluster, mode),
            settings=settings,
            durable=self.level_of(cluster) == "durable",
        )
        # Readers come after `finish`, which alone replaces files: DuckDB may keep their footers.
        extra = {"parquet_metadata_cache": mode == "read"}
        if mode == "write":
            import_module("storewise.engines.sql.arrow")
        connection = open_duckdb(self.name, ":memory:", settings, extra)
        return ParquetClient(connection, shared).greeted()
