"""Runs: documents of some inputs, sorted, in memory or in files of Arrow.

A run is what fits into memory; data sets are made of sorted runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from storewise.dataset import pieces as piece
from storewise.dataset.settings import Settings
from storewise.documents import KINDS, Kind
from storewise.ssearch.parse.arrow import arrow_schema

#: Bytes of Arrow that a run may have, for each partition and at least and at most.
_PARTITION_BYTES, _LEAST_BYTES, _MOST_BYTES = 1 << 19, 4 << 20, 64 << 20
#: Rows of a batch in a file: what a reader of many runs has of each in memory.
BATCH_ROWS = 8192
#: Of `KINDS` those with a row for each alignment.
ALIGNED = KINDS[1:]
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(slots=True)
class Run:
    """`tables` and their `pieces` by kind, both in the order of the pieces' keys."""

    tables: dict[Kind, Any]
    pieces: dict[Kind, Any]

    def slices(self, kind: Kind, partition: int) -> tuple[Any, Any]:
        """The pieces and rows of a kind in a partition."""
        pieces = self.pieces[kind]
        partitions = pieces["partition"].to_numpy()
        first, last = np.searchsorted(partitions, [partition, partition + 1])
        ends = np.concatenate([[0], np.cumsum(pieces["rows"].to_numpy())])
        start, stop = int(ends[first]), int(ends[last])
        return pieces.slice(first, last - first), self.tables[kind].slice(start, stop - start)


@dataclass(slots=True)
class RunBuilder:
    """Collects batches of inputs, one input after the other, until they are a `Run`."""

    settings: Settings
    size: int = 0
    _batches: dict[Kind, list[Any]] = field(default_factory=dict)
    _pieces: dict[Kind, list[tuple[int, int, str, str, int, int, int]]] = field(
        default_factory=dict
    )
    #: Of the searches of the input that is being read, whose rows may come in several batches.
    _searches: dict[int, piece.SortKey] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether what was collected is a run of the size that is to be: of many partitions each
        shall have rows enough in it."""
        wanted = self.settings.partitions * _PARTITION_BYTES
        return self.size >= min(max(wanted, _LEAST_BYTES), _MOST_BYTES)

    def begin_input(self) -> None:
        """What comes is of another input."""
        self._searches.clear()

    def add(self, number: int, digest: bytes, batch: Any) -> None:
        """Take a `DocumentBatch` of record batches with all fields, of the input `number`."""
        if self.settings.by_ids:
            self._add_whole(number, piece.digest_number(digest), batch)
        else:
            self._add_searches(number, piece.digest_number(digest), batch)
        for kind, part in batch:
            if len(part):
                names = arrow_schema(kind, study_fields=self.settings.study_fields).names
                part = part.select(names)
                self._batches.setdefault(kind, []).append(part)
                self.size += part.nbytes

    def _append(self, kind: Kind, row: tuple[int, int, str, str, int, int, int]) -> None:
        """Take a piece, which may go on with the last one."""
        rows = self._pieces.setdefault(kind, [])
        if rows and rows[-1][:-1] == row[:-1]:
            rows[-1] = (*row[:-1], rows[-1][-1] + row[-1])
        else:
            rows.append(row)

    def _add_whole(self, number: int, digest: int, batch: Any) -> None:
        key = piece.sort_key_of(self.settings, None, None, digest)
        for kind, part in batch:
            if len(part):
                self._append(kind, (key.partition, number, "", "", digest, 0, len(part)))

    def _add_searches(self, number: int, digest: int, batch: Any) -> None:
        _, ordinals = piece.digests_and_ordinals(piece.ids_of(batch.tasks.column("_id")))
        columns = (batch.tasks.column(name).to_pylist() for name in ("lib", "q"))
        for ordinal, library, query in zip(ordinals.tolist(), *columns, strict=True):
            key = piece.sort_key_of(self.settings, library, query, digest)
            self._searches[ordinal] = key
            row = (key.partition, number, key.library, key.query, digest, ordinal, 1)
            self._append(Kind.TASKS, row)
        ids = piece.ids_of(batch.align.column("ti"))
        starts = piece.runs_of(ids)
        _, ordinals = piece.digests_and_ordinals(ids[starts[:-1]])
        for ordinal, rows in zip(ordinals.tolist(), np.diff(starts).tolist(), strict=True):
            key = self._searches[ordinal]
            row = (key.partition, number, key.library, key.query, digest, ordinal, rows)
            for kind in ALIGNED:
                self._append(kind, row)

    def take(self) -> Run:
        """What was collected, sorted; the builder is empty then."""
        run = Run({}, {})
        for kind in KINDS:
            schema = arrow_schema(kind, study_fields=self.settings.study_fields)
            rows = pa.Table.from_batches(self._batches.pop(kind, []), schema)
            pieces = piece.table(self._pieces.pop(kind, []))
            order = piece.order(pieces)
            if (np.diff(order) != 1).any():
                lengths = pieces["rows"].to_numpy()
                starts = np.cumsum(lengths) - lengths
                rows = rows.combine_chunks().take(piece.spread(starts[order], lengths[order]))
                pieces = pieces.take(order)
            run.tables[kind], run.pieces[kind] = rows, pieces
        self.size = 0
        return run


class RunWriter:
    """Writes runs below a directory: a file a kind for all of them, and one of their pieces."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self._directory = directory
        self._settings = settings
        self._runs = 0
        self._files: dict[str, Any] = {}

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            file.close()

    def _write(self, name: str, rows: Any) -> None:
        if name not in self._files:
            path = str(self._directory / f"{name}.arrow")
            self._files[name] = pa.ipc.new_file(path, rows.schema, options=_LZ4)
        self._files[name].write_table(rows, max_chunksize=BATCH_ROWS)

    def write(self, run: Run) -> None:
        """Write a run; no batch of its files has rows of two partitions."""
        for kind in KINDS:
            pieces = run.pieces[kind]
            number = pa.array(np.full(len(pieces), self._runs, np.int32))
            self._write(f"{kind.table}.pieces", pieces.append_column("run", number))
            for partition in np.unique(pieces["partition"].to_numpy()).tolist():
                _, rows = run.slices(kind, partition)
                # In one piece: else batches would end where those of the parser did.
                self._write(kind.table, rows.combine_chunks())
        self._runs += 1


@dataclass(frozen=True, slots=True)
class Spilled:
    """Rows of one kind and partition in a file of a `RunWriter`: batches from `first` on."""

    file: Any
    first: int
    batches: int

    def __iter__(self) -> Iterator[Any]:
        return (self.file.get_batch(self.first + i) for i in range(self.batches))


def spilled(directory: Path, kind: Kind, partition: int) -> Iterator[tuple[Any, Spilled]]:
    """The pieces and rows of a kind and partition, of each run below a directory that has some."""
    path = directory / f"{kind.table}.pieces.arrow"
    if not path.exists():
        return
    with pa.memory_map(str(path)) as source:
        pieces = pa.ipc.open_file(source).read_all()
    if not (directory / f"{kind.table}.arrow").exists():
        return
    # Not mapped: the pages would count as memory of this process.
    file = pa.ipc.open_file(pa.OSFile(str(directory / f"{kind.table}.arrow")))
    runs, partitions = pieces["run"].to_numpy(), pieces["partition"].to_numpy()
    rows = pieces["rows"].to_numpy()
    # Pieces of one run and partition follow each other, as their batches do in the file.
    starts = np.flatnonzero(np.diff(runs, prepend=-1) | np.diff(partitions, prepend=-1))
    batch = 0
    for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
        batches = -(-int(rows[start:stop].sum()) // BATCH_ROWS)
        if partitions[start] == partition:
            mine = pieces.slice(start, stop - start).drop_columns(["run"])
            yield mine, Spilled(file, batch, batches)
        batch += batches
