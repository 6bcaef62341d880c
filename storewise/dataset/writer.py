"""The Parquet files of a kind and partition, of sorted sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import sync
from storewise.dataset.segments import Integers, Source, gather, sort_order
from storewise.dataset.settings import Settings
from storewise.documents import KINDS, PARAMS_COLUMN, Kind
from storewise.ssearch.parse.arrow import arrow_schema

#: Arrow's bytes of a row group at most, about: a writer has one in memory, and a copy.
GROUP_BYTES = 128 << 20
#: Columns with few values, or with the same one in many rows that follow each other. For others
#: dictionaries would be begun and thrown away.
_DICTIONARIES = {"f", "q", "lib", "gene", "chr", "seqid", "t", "ti", PARAMS_COLUMN}


class DataFile(NamedTuple):
    """A file of a data set: its name below the directory, ``KIND/part=NN/STEM-N.parquet``."""

    name: str
    rows: int
    bytes: int

    @property
    def table(self) -> str:
        """The table whose rows it has."""
        return self.name.split("/")[0]

    @property
    def partition(self) -> int:
        """The number of its partition."""
        return int(self.name.split("/")[1].removeprefix("part="))


def kind_named(table: str) -> Kind:
    """The kind of a table; kinds exist once in a process and are sent by name."""
    return next(kind for kind in KINDS if kind.table == table)


def partition_name(table: str, partition: int) -> str:
    """The directory of a partition of a table below that of the data set, as Hive names it."""
    return f"{table}/part={partition:02d}"


class PartitionFiles:
    """The Parquet files of a partition one after another, each until it has the target size.

    A context manager, which ends the last file.
    """

    def __init__(
        self, directory: Path, kind: Kind, partition: int, stem: str, settings: Settings
    ) -> None:
        self._directory = directory
        self._folder = partition_name(kind.table, partition)
        self._stem = stem
        self._settings = settings
        self.schema = arrow_schema(kind, study_fields=settings.study_fields)
        self._dictionaries = [
            field.name
            for field in self.schema
            if field.name in _DICTIONARIES or pa.types.is_floating(field.type)
        ]
        # Smaller than plain numbers and made in half the time; all readers know it. Ids stay
        # plain: DuckDB reads DELTA_BYTE_ARRAY of fixed length, polars does not, and neither of
        # them reads BYTE_STREAM_SPLIT.
        self._encodings = {
            field.name: "DELTA_BINARY_PACKED"
            for field in self.schema
            if pa.types.is_integer(field.type) and field.name not in self._dictionaries
        }
        self._file: Any = None
        self._writer: Any = None
        self._rows = 0
        self.done: list[DataFile] = []

    def __enter__(self) -> PartitionFiles:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self._end()
        elif self._file is not None:
            self._file.close()

    def _name(self) -> str:
        return f"{self._folder}/{self._stem}-{len(self.done)}.parquet"

    def _sorting(self) -> list[Any] | None:
        """The sort order in the file's metadata; None if this kind lacks a column of it."""
        names, order = self.schema.names, self._settings.order
        if not set(order) <= set(names):
            return None
        return [pq.SortingColumn(names.index(name)) for name in order]

    def write(self, rows: Any) -> None:
        """Write a row group."""
        if self._writer is None:
            path = self._directory / self._name()
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pa.OSFile(str(path), "wb")
            self._writer = pq.ParquetWriter(
                self._file,
                self.schema,
                compression="zstd",
                compression_level=self._settings.level,
                use_dictionary=self._dictionaries,
                column_encoding=self._encodings,
                write_page_index=True,
                sorting_columns=self._sorting(),
            )
        self._writer.write_table(rows, row_group_size=self._settings.row_group)
        self._rows += len(rows)
        if self._file.tell() >= self._settings.target_bytes:
            self._end()

    def _end(self) -> None:
        """End the file that is being written, if there is one; its content is on disk then."""
        if self._writer is None:
            return
        self._writer.close()
        self._file.close()
        path = self._directory / self._name()
        sync(path)
        self.done.append(DataFile(self._name(), self._rows, path.stat().st_size))
        self._writer, self._rows = None, 0


def write_files(
    sources: Sequence[Source],
    directory: Path,
    kind: Kind,
    partition: int,
    stem: str,
    settings: Settings,
) -> list[DataFile]:
    """Write the rows of sorted sources, in the order of all their segments, below `directory`.

    OSError where the disk is full.
    """
    sources = [source for source in sources if len(source.segments)]
    if not sources:
        return []
    files = PartitionFiles(directory, kind, partition, stem, settings)
    with files:
        for rows in _row_groups(sources, settings):
            files.write(rows)
    return files.done


def _row_groups(sources: Sequence[Source], settings: Settings) -> Iterator[Any]:
    """Yield a table for each row group: the rows of all sources in the order of their segments."""
    segments = pa.concat_tables(
        source.segments.append_column("source", pa.array(np.full(len(source.segments), number)))
        for number, source in enumerate(sources)
    )
    segments = segments.take(sort_order(segments, "source", "start"))
    number, start, rows = (segments[name].to_numpy() for name in ("source", "start", "rows"))
    ends = np.cumsum(rows)
    row_bytes = max(1, sources[0].rows.nbytes // len(sources[0].rows))
    size = min(settings.row_group, max(1, GROUP_BYTES // row_bytes))
    for begin in range(0, int(ends[-1]), size):
        end = min(begin + size, int(ends[-1]))
        first, last = np.searchsorted(ends, [begin, end - 1], "right")
        window = slice(int(first), int(last) + 1)
        # The first and the last segment may be in two groups.
        left = np.maximum(ends[window] - rows[window], begin)
        lengths = np.minimum(ends[window], end) - left
        starts = start[window] + left - (ends[window] - rows[window])
        yield _gather(sources, number[window], starts, lengths)


def _gather(
    sources: Sequence[Source], number: Integers, starts: Integers, lengths: Integers
) -> Any:
    """Rows of several sources as one table. Each source is sorted: its rows lie close together."""
    parts, base = [], 0
    for source in np.unique(number).tolist():
        mine = number == source
        begin, end = starts[mine].min(), (starts[mine] + lengths[mine]).max()
        parts.append(sources[source].rows.slice(begin, end - begin))
        starts[mine] += base - begin
        base += int(end - begin)
    return gather(pa.concat_tables(parts), starts, lengths)
