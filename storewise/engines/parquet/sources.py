"""FROM items: data files as DuckDB reads them, itself or through Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from storewise.dataset.writer import DataFile
from storewise.engines.parquet.settings import Reader
from storewise.engines.parquet.store import Store
from storewise.engines.sql.duckdb_reads import sql_string
from storewise.engines.support.batches import arrow_schema
from storewise.engines.support.table import Table

#: The name of a table, and where its files are.
_Key = tuple[str, ...]


@dataclass(slots=True)
class Views:
    """Arrow's views of data files, for all connections of a process: they keep what was read of
    the files' ends."""

    _datasets: dict[_Key, Any] = field(default_factory=dict)

    def of(self, table: Table, paths: Sequence[str], system: Any) -> Any:
        """The files of a table; an empty table where there are none."""
        # DuckDB asks for ids as binary values of any length. Were the columns of another type,
        # Arrow would convert them row by row and not look at the limits of row groups.
        schema = pa.schema(
            field.with_type(pa.binary()) if pa.types.is_fixed_size_binary(field.type) else field
            for field in arrow_schema(table)
        )
        if not paths:
            return schema.empty_table()
        key = (table.name, *paths)
        if key not in self._datasets:
            # Two threads may both make one: it costs nothing, and either will do.
            self._datasets[key] = pads.FileSystemDataset.from_paths(
                list(paths), schema=schema, format=pads.ParquetFileFormat(), filesystem=system
            )
        return self._datasets[key]


class Sources:
    """The FROM items of one connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, reader: Reader, views: Views) -> None:
        self._connection = connection
        self._reader = reader
        self._views = views
        self._names: dict[_Key, str] = {}

    def of(self, table: Table, files: Mapping[Store, Sequence[DataFile]]) -> str:
        """Files of stores that lie on one file system; duckdb.Error for a closed connection."""
        paths = [path for store, some in files.items() for path in store.paths(some)]
        if paths and self._reader == "duckdb":
            listed = ", ".join(map(sql_string, paths))
            return f"read_parquet([{listed}], hive_partitioning = false)"
        key = (table.name, *paths)
        if key not in self._names:
            name = f"storewise_{table.name}_{len(self._names)}"
            system = next(iter(files)).file_system()
            self._connection.register(name, self._views.of(table, paths, system))
            self._names[key] = name
        return self._names[key]
