"""A data set of Parquet files as a store, without a database.

The engine reads and writes the data sets of `storewise convert` (docs/dataset.md). DuckDB answers
queries; DuckDB or Arrow reads the files.

Format: https://parquet.apache.org/docs/file-format/; reading:
https://duckdb.org/docs/stable/data/parquet/overview,
https://arrow.apache.org/docs/python/dataset.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from storewise.documents import KINDS
from storewise.engines.contract.engine import Client, Cluster, Engine, Mode, Schema
from storewise.engines.parquet.settings import ParquetSettings, Reader
from storewise.engines.sql.duckdb_reads import open_duckdb
from storewise.engines.sql.reads import FLAGS
from storewise.errors import EngineError, StorewiseError


class ParquetEngine(Engine):
    """A data set of sorted Parquet files, read in the client's process."""

    name = "parquet"
    language = "sql"
    title = "Parquet files"
    in_first_study = True
    encoding = "arrow"
    flags = replace(FLAGS, secondary_indexes=False, updates=False, deletes=False)
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": (
            "a batch is a complete file, on the local disk (fsync) when acknowledged; with `place` "
            "on S3 it is uploaded at the end of the load"
        ),
        "relaxed": (
            "a batch is in the memory of the process when acknowledged, until 65,536 documents "
            "make a file, or the load ends; files are written without fsync"
        ),
    }
    Settings = ParquetSettings
    packages = ("duckdb", "pyarrow")

    def check_schema(self, settings: Mapping[str, Any], schema: Schema) -> None:
        partition = self.settings_of(settings).partition
        if partition == "hash":
            return
        needs = f"`partition: {partition}` needs the queries and libraries of SSEARCH outputs"
        if not set(schema.kinds) <= set(KINDS):
            tables = ", ".join(kind.table for kind in schema.kinds)
            raise EngineError(f"{needs}; this workload has {tables}: leave it out")
        if schema.study_fields:
            raise EngineError(
                f"{needs}, which are no fields of the published study; leave it out, or set "
                "`study_fields: false`"
            )

    def directories(self, settings: Mapping[str, Any], own: Path) -> tuple[Path, ...] | None:
        # Another place also holds the stores of other writers and trials.
        return None if self.settings_of(settings).place else (own,)

    def connect(self, cluster: Cluster, mode: Mode) -> Client:
        settings: ParquetSettings = self.settings_of(cluster.settings)
        level = self.level_of(cluster)
        directories = self.stores_of(cluster, mode)
        # Imported here: reading a study's settings should not import Arrow.
        from storewise.dataset.segments import partition_of_name
        from storewise.engines.parquet.client import ParquetClient, Shared
        from storewise.engines.parquet.partitions import Partition, PartitionRouter, ranges_of
        from storewise.engines.parquet.store import Store

        writes = mode == "write"
        stores = [Store(path) for path in directories]
        try:
            if writes:
                stores[0].make_place(settings.place)
                stores[0].repair()
            else:
                for store in stores:
                    store.look()
                    if store.finished and not store.state.commits:
                        raise StorewiseError("has no Parquet files: nothing was loaded")
        except (StorewiseError, OSError) as error:
            raise EngineError(f"{self.name}: {directories[0]}: {error}") from error
        remote = any(store.remote for store in stores)
        reader: Reader = "pyarrow" if remote else settings.reader or "duckdb"
        ranges = [[Partition(store)] if writes else ranges_of(store) for store in stores]
        shared = Shared(
            mode=mode,
            kinds=cluster.kinds,
            stores=tuple(chain.from_iterable(ranges)),
            router=PartitionRouter(ranges, cluster.placement),
            places=stores,
            settings=settings,
            durable=level == "durable",
            reader=reader,
        )
        if reader == "pyarrow":
            import pyarrow as pa

            pa.set_cpu_count(settings.threads)
        # Readers come after `finish`, which alone replaces files: DuckDB may keep their footers.
        extra = {"parquet_metadata_cache": not writes}
        connection = open_duckdb(self.name, ":memory:", settings, extra)
        if writes:
            # A type for each argument, and that of the result.
            types = ["VARCHAR", "INTEGER"], "INTEGER"
            connection.create_function("partition_of_name", partition_of_name, *types)
        return ParquetClient(connection, shared).connected()

    def remove(self, cluster: Cluster) -> None:
        from storewise.engines.parquet.store import Store

        for directory in cluster.stores:
            try:
                Store(directory).remove()
            except (StorewiseError, OSError) as error:
                raise EngineError(f"{self.name}: {directory}: {error}") from error
