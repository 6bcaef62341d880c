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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import duckdb
from pydantic import Field as Setting

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Engine, EngineSettings, Flags, Mode, Schema
from storewise.engines.sql.duckdb_reads import (
    DuckReads,
    DuckSettings,
    open_duckdb,
    sql_string,
)
from storewise.engines.sql.reads import SqlState
from storewise.engines.support.checks import consistency_of, parse_settings, store_directories
from storewise.engines.support.routing import Router
from storewise.engines.support.table import Keys, Table, make_tables, table_from_names
from storewise.errors import EngineError

PARTS_KEY = "storewise.parts"
#: Row groups are left out by the limits of single columns.
KEYS: Keys = "columns"


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
    """Force a file or directory to disk."""
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
        shared = self._writing("create")
        if schema.index_time != "none" and schema.indexes:
            raise EngineError("parquet has no secondary indexes: its flags say so")
        with shared.lock:
            shared.tables = make_tables(schema, KEYS)
            for kind, table in shared.tables.items():
                # An empty part makes the columns known even where no document of a kind comes.
                last, final = last_part(self._stores[0], kind), final_file(self._stores[0], kind)
                if final.is_file():
                    # A finished file takes parts up to its own number for merged already.
                    last = max(last, _merged_parts(self, 0, final))
                shared.next_part[kind] = last + 1
                self._write_part(kind, _arrow().arrow_table(table, []))

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        shared = self._writing("insert")
        table = shared.tables.get(kind) or super()._table(kind)
        batch = _arrow().arrow_table(table, documents)
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
        aside = path.with_suffix(".tmp")
        try:
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                if shared.durable:
                    sync(directory.parent)
            # Parts are read once, by `finish`: no statistics, no dictionaries.
            pq.write_table(
                batch, aside, compression="zstd", use_dictionary=False, write_statistics=False
            )
            self._publish(aside, path)
        except (OSError, pa.ArrowException) as error:
            aside.unlink(missing_ok=True)
            raise EngineError(f"parquet: {path}: {error}") from error
        with shared.lock:
            shared.version += 1

    def _publish(self, aside: Path, path: Path) -> None:
        """Rename a finished file; where durable, only after its content is on disk."""
        if self._shared.durable:
            sync(aside)
        aside.replace(path)
        if self._shared.durable:
            sync(path.parent)

    def _merge(self, table: Table) -> None:
        shared, store = self._shared, self._stores[0]
        last = last_part(store, table.kind)
        path = final_file(store, table.kind)
        parts = part_files(store, table.kind)
        if not parts:
            return
        aside = path.with_suffix(".tmp")
        size = shared.settings.row_group_size
        try:
            self._rows(
                0,
                f"COPY (SELECT {table.select} FROM {self._source(table, 0)} "
                f"ORDER BY {table.key_list}) "
                f"TO {sql_string(str(aside))} (FORMAT parquet, COMPRESSION zstd, "
                f"COMPRESSION_LEVEL {shared.settings.compression_level}, ROW_GROUP_SIZE {size}, "
                f"KV_METADATA {{{sql_string(PARTS_KEY)}: {sql_string(str(last))}}})",
            )
            self._publish(aside, path)
            # From here on the parts are superseded, whether they can be removed or not.
            shared.version += 1
            for part in parts:
                part.unlink()
            parts_directory(store, table.kind).rmdir()
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise EngineError(f"parquet: {path}: {error}") from error
        except EngineError:
            aside.unlink(missing_ok=True)
            raise


def _arrow() -> Any:
    return import_module("storewise.engines.sql.arrow")


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


def _find_tables(client: ParquetClient) -> dict[Kind, Table]:
    """The tables that all stores have, from the files themselves."""
    tables: dict[Kind, Table] = {}
    for store, directory in enumerate(client._stores):
        kinds = 0
        for kind in client._shared.kinds:
            files = part_files(directory, kind)
            if final_file(directory, kind).is_file():
                files.append(final_file(directory, kind))
            if not files:
                continue
            kinds += 1
            sql = f"DESCRIBE SELECT * FROM read_parquet({sql_string(str(files[-1]))})"
            names = [row[0] for row in client._rows(store, sql)]
            table = table_from_names(kind, names, files[-1], KEYS)
            if tables.setdefault(kind, table) != table:
                raise EngineError(f"parquet: {files[-1]} has other columns than the store before")
        if not kinds:
            raise EngineError(f"parquet: {directory} has no Parquet files: nothing was loaded")
    return tables


class ParquetEngine(Engine):
    """Sorted Parquet files, read through DuckDB in the client's process."""

    name: ClassVar[str] = "parquet"
    title: ClassVar[str] = "Parquet files"
    flags: ClassVar[Flags] = Flags(
        embedded=True,
        durable=True,
        scans=True,
        ranges=True,
        server_aggregation=True,
        finds=True,
        explains=True,
        concurrent_writers=False,
    )
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "a batch is a complete file of its own, on disk (fsync) when acknowledged",
        "relaxed": (
            "a batch is in the memory of the process when acknowledged; it is lost with the "
            "process until a part is full or the load is finished, and nothing is forced to disk"
        ),
    }
    Settings: ClassVar[type[EngineSettings]] = ParquetSettings

    def versions(self) -> dict[str, str]:
        return {"duckdb": duckdb.__version__, "pyarrow": version("pyarrow")}

    def connect(self, cluster: Cluster, mode: Mode) -> ParquetClient:
        settings = parse_settings(ParquetSettings, self, cluster)
        level = consistency_of(self, cluster)
        stores = store_directories(self, cluster, mode)
        shared = _Shared(
            mode=mode,
            kinds=cluster.kinds,
            stores=stores,
            router=Router(len(stores), cluster.placement),
            settings=settings,
            durable=level == "durable",
        )
        # Readers come after `finish`, which alone replaces files: DuckDB may keep their footers.
        extra = {"parquet_metadata_cache": mode == "read"}
        client = ParquetClient(open_duckdb(self.name, ":memory:", settings, extra), shared)
        try:
            if mode == "write":
                _arrow()
                if not os.access(stores[0], os.W_OK | os.X_OK):
                    raise EngineError(f"parquet: {stores[0]} is not writable")
            else:
                shared.tables = _find_tables(client)
                client._look()
        except EngineError:
            client.close()
            raise
        return client
