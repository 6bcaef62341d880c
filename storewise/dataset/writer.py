"""The Parquet files of a kind and partition, of sorted sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.dataset import pieces as piece
from storewise.dataset.settings import Settings
from storewise.dataset.threads import BackgroundCall
from storewise.documents import KINDS, PARAMS_COLUMN, Kind
from storewise.ssearch.parse.arrow import arrow_schema

#: Arrow's bytes of a row group at most, about: a writer has one in memory, and a copy.
GROUP_BYTES = 128 << 20
#: Columns with few values, or with the same one in many rows that follow each other. For others
#: dictionaries would be begun and thrown away.
_DICTIONARIES = {"f", "q", "lib", "gene", "chr", "seqid", "ti", PARAMS_COLUMN}


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


@dataclass(slots=True)
class Source:
    """Rows in the order of their pieces, as batches that come one after the other.

    `keep` says which of its inputs are wanted, by the pieces' `input`; None for all.
    """

    pieces: Any
    batches: Iterable[Any]
    keep: Sequence[bool] | None = None
    _coming: Iterator[Any] | None = None
    #: The batches that hold rows from `_start` on, which were not asked for yet.
    _waiting: list[Any] = field(default_factory=list)
    _start: int = 0

    def row_bytes(self) -> int:
        """Bytes of a row, about: those of the first batch; 1 where there is no row."""
        if not len(self.pieces):
            return 1
        self._fetch(1)
        return max(1, int(self._waiting[0].nbytes) // len(self._waiting[0]))

    def _fetch(self, stop: int, start: int = 0) -> None:
        """Have the batches with the rows before `stop`; those without a row from `start` on go."""
        if self._coming is None:
            self._coming = iter(self.batches)
        end = self._start + sum(map(len, self._waiting))
        while end < stop:
            batch = next(self._coming)
            end += len(batch)
            if end <= start:
                self._start = end
            else:
                self._waiting.append(batch)

    def rows(self, start: int, stop: int) -> list[Any]:
        """Rows `start` to `stop` in batches; none before `stop` is asked for again."""
        self._drop(start)
        self._fetch(stop, start)
        result, at = [], self._start
        for batch in self._waiting:
            first, last = max(start, at), min(stop, at + len(batch))
            if first < last:
                result.append(batch.slice(first - at, last - first))
            at += len(batch)
        self._drop(stop)
        return result

    def _drop(self, before: int) -> None:
        while self._waiting and self._start + len(self._waiting[0]) <= before:
            self._start += len(self._waiting.pop(0))


def kind_named(table: str) -> Kind:
    """The kind of a table; kinds exist once in a process and are sent by name."""
    return next(kind for kind in KINDS if kind.table == table)


def partition_name(table: str, partition: int) -> str:
    """The directory of a partition of a table below that of the data set, as Hive names it."""
    return f"{table}/part={partition:02d}"


def group_rows(settings: Settings, row_bytes: int) -> int:
    """Rows of a row group, where one has about so many bytes in memory."""
    return min(settings.row_group, max(1, GROUP_BYTES // max(1, row_bytes)))


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which rows come in which order: `rows` of `source` from its row `start` on, of each piece."""

    source: piece.Integers
    start: piece.Integers
    rows: piece.Integers

    @classmethod
    def of(cls, sources: Sequence[Source]) -> _Plan:
        tables = []
        for number, source in enumerate(sources):
            rows = source.pieces["rows"].to_numpy()
            columns = {
                "source": np.full(len(rows), number),
                "start": np.cumsum(rows) - rows,
            }
            table = source.pieces
            for name, values in columns.items():
                table = table.append_column(name, pa.array(values, pa.int64()))
            if source.keep is not None:
                wanted = pa.array(source.keep, pa.bool_()).take(table["input"].combine_chunks())
                table = table.filter(wanted)
            tables.append(table)
        pieces = pa.concat_tables(tables).combine_chunks()
        pieces = pieces.take(piece.order(pieces, "source", "start"))
        columns_ = (pieces[name].to_numpy() for name in ("source", "start", "rows"))
        return cls(*columns_)

    def windows(self, size: int) -> Iterator[tuple[_Plan, int]]:
        """Plans of `size` rows each, one after the other, and their rows."""
        ends = np.cumsum(self.rows)
        total = int(ends[-1]) if len(ends) else 0
        for begin in range(0, total, size):
            end = min(begin + size, total)
            first = int(np.searchsorted(ends, begin, "right"))
            last = int(np.searchsorted(ends, end, "left")) + 1
            start, rows = self.start[first:last].copy(), self.rows[first:last].copy()
            skipped = begin - (int(ends[first]) - int(rows[0]))
            start[0] += skipped
            rows[0] -= skipped
            rows[-1] -= int(ends[last - 1]) - end
            yield _Plan(self.source[first:last], start, rows), end - begin

    def gather(self, sources: Sequence[Source], schema: Any) -> Any:
        """The rows as one table."""
        batches: list[Any] = []
        offsets = np.empty_like(self.start)
        base = 0
        for number in np.unique(self.source).tolist():
            mine = self.source == number
            start = int(self.start[mine].min())
            stop = int((self.start[mine] + self.rows[mine]).max())
            offsets[mine] = self.start[mine] - start + base
            base += stop - start
            batches += sources[number].rows(start, stop)
        return piece.arranged(pa.Table.from_batches(batches, schema), offsets, self.rows)


class PartitionFiles:
    """The Parquet files of a partition one after another, each until it has the target size.

    `order` are the columns that the rows are sorted by.
    """

    def __init__(
        self,
        directory: Path,
        table: str,
        partition: int,
        stem: str,
        settings: Settings,
        schema: Any,
        order: Sequence[str],
    ) -> None:
        self._directory = directory
        self._folder = partition_name(table, partition)
        self._stem = stem
        self._settings = settings
        self._schema = schema
        self._order = order
        self._dictionaries = [
            field.name
            for field in self._schema
            if field.name in _DICTIONARIES or pa.types.is_floating(field.type)
        ]
        # Smaller than plain numbers and made in half the time; all readers know it.
        self._encodings = {
            field.name: "DELTA_BINARY_PACKED"
            for field in self._schema
            if pa.types.is_integer(field.type) and field.name not in self._dictionaries
        }
        self._file: Any = None
        self._writer: Any = None
        self._rows = 0
        self.done: list[DataFile] = []

    def _name(self) -> str:
        return f"{self._folder}/{self._stem}-{len(self.done)}.parquet"

    def _sorting(self) -> list[Any] | None:
        """What readers are told of the order; nothing where a column of it is in another kind."""
        names = self._schema.names
        if not set(self._order) <= set(names):
            return None
        return [pq.SortingColumn(names.index(name)) for name in self._order]

    def write(self, rows: Any) -> None:
        """Write a row group."""
        if self._writer is None:
            path = self._directory / self._name()
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pa.OSFile(str(path), "wb")
            self._writer = pq.ParquetWriter(
                self._file,
                self._schema,
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
            self.end()

    def end(self) -> None:
        """End the file that is being written, if there is one; its content is on disk then."""
        if self._writer is None:
            return
        self._writer.close()
        self._file.close()
        path = self._directory / self._name()
        with path.open("rb") as file:
            os.fsync(file.fileno())
        self.done.append(DataFile(self._name(), self._rows, path.stat().st_size))
        self._writer, self._rows = None, 0

    def abandon(self) -> None:
        """Close what is open after an error."""
        if self._file is not None:
            self._file.close()


def write_files(
    sources: Sequence[Source],
    directory: Path,
    kind: Kind,
    partition: int,
    stem: str,
    settings: Settings,
    advance: Callable[[int], None] = lambda rows: None,
) -> list[DataFile]:
    """Write the rows of sorted sources, in the order of all their pieces, below `directory`.

    `advance` is told the rows of each row group. OSError where the disk is full.
    """
    if not sources:
        return []
    schema = arrow_schema(kind, study_fields=settings.study_fields)
    order = settings.order
    files = PartitionFiles(directory, kind.table, partition, stem, settings, schema, order)
    group = group_rows(settings, sources[0].row_bytes())
    try:
        with BackgroundCall() as background:
            for window, rows in _Plan.of(sources).windows(group):
                background.do(files.write, window.gather(sources, schema))
                advance(rows)
        files.end()
    except BaseException:
        files.abandon()
        raise
    return files.done
