"""Segments: rows of a kind that follow each other in an input and have one place in the order.

A segment is one search of one input, or a whole input where ids alone say where rows go. Its rows
are in the order of their ids already, so only segments are sorted; no row is ever compared. What
fits into memory becomes a sorted run, which may be spilled to files of Arrow.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storewise.atomic import sync
from storewise.dataset.settings import Settings
from storewise.documents import DIGEST_BYTES, ID_BYTES, KINDS, ORDINAL_BITS, Kind
from storewise.ssearch.parse.arrow import arrow_schema

Integers = npt.NDArray[np.int64]
Whole = TypeVar("Whole", int, Integers)

#: `input` is a number that its run gives to an input. `library` and `query` are empty where they
#: are no part of the order. `digest` is the first 7 bytes of ids, `search` a search's ordinal.
#: `start` is a segment's first row in the rows of its run, `rows` their number.
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("library", pa.string()),
        ("query", pa.string()),
        ("digest", pa.int64()),
        ("search", pa.int64()),
        ("input", pa.int32()),
        ("start", pa.int64()),
        ("rows", pa.int64()),
    ]
)
#: The columns of `SCHEMA` that say where a segment goes.
_KEY = ("partition", "library", "query", "digest", "search")
#: Rows of segments, on average, from which on slices serve: they need less memory than copies, and
#: are written as fast.
_LONG_SEGMENT = 64
#: Bytes of Arrow that a run may have: for each partition, at least and at most.
_PARTITION_BYTES, _MIN_RUN_BYTES, _MAX_RUN_BYTES = 1 << 19, 4 << 20, 64 << 20


class SortKey(NamedTuple):
    """The partition and the sort order of a search's rows. A name that is not part of the sort
    order is empty."""

    partition: int
    library: str
    query: str


def digest_number(digest: bytes) -> int:
    """The first 7 bytes of a digest, or of an id, as one number."""
    return int.from_bytes(digest[:DIGEST_BYTES], "big")


def partition_of_byte(first: Whole, partitions: int) -> Whole:
    """The partition of ids by their first byte (an int, or an array of them): partitions are ranges
    of ids."""
    return first * partitions >> 8


def partition_of_name(name: str, partitions: int) -> int:
    """The partition of a query, or of a library."""
    return zlib.crc32(name.encode()) % partitions


def sort_key_of(settings: Settings, library: str | None, query: str | None, digest: int) -> SortKey:
    """The sort key of a search's documents, the same for every kind."""
    if settings.by == "hash":
        first = digest >> 8 * (DIGEST_BYTES - 1)
        partition = partition_of_byte(first, settings.partitions)
    else:
        name = library if settings.by == "library" else query
        partition = partition_of_name(name or "", settings.partitions)
    order = settings.order
    return SortKey(
        partition, (library or "") if "lib" in order else "", (query or "") if "q" in order else ""
    )


def _ordinals_of(column: Any) -> tuple[Integers, Integers]:
    """Where runs of equal ids begin in a column of ids without nulls (and their number at the end),
    and the ordinals of these ids."""
    buffer = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    start = column.offset * ID_BYTES
    ids = buffer[start : start + len(column) * ID_BYTES].reshape(-1, ID_BYTES)
    differs = (ids[1:] != ids[:-1]).any(axis=1)
    starts = np.concatenate([[0], np.flatnonzero(differs) + 1])[: len(ids)]
    wide = np.zeros((len(starts), 8), np.uint8)
    wide[:, 8 - (ID_BYTES - DIGEST_BYTES) :] = ids[starts, DIGEST_BYTES:]
    ordinals = wide.view(">u8")[:, 0].astype(np.int64) & ((1 << ORDINAL_BITS) - 1)
    return np.append(starts, len(ids)), ordinals


def sort_order(segments: Any, *more: str) -> Integers:
    """The order of segments by their keys, then by `more` columns, which tell equal ones apart."""
    keys = [(name, "ascending") for name in (*_KEY, *more)]
    result: Integers = pc.sort_indices(segments, sort_keys=keys).to_numpy().astype(np.int64)
    return result


def gather(rows: Any, starts: Integers, lengths: Integers) -> Any:
    """Slices of a table, one after the other, copied only if they are short."""
    if len(starts) * _LONG_SEGMENT > len(rows):
        first = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return rows.combine_chunks().take(pa.array(first + np.arange(len(first))))
    pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
    return pa.concat_tables(rows.slice(start, length) for start, length in pairs)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of one kind in the order of their segments; they may be mapped from a file."""

    segments: Any
    rows: Any

    def of_partition(self, partition: int, keep: Sequence[bool]) -> Source:
        """The segments of a partition, of the inputs that are to be kept."""
        wanted = pc.equal(self.segments["partition"], partition)
        if not all(keep):
            kept = pa.array(keep, pa.bool_()).take(self.segments["input"].combine_chunks())
            wanted = pc.and_(wanted, kept)
        return Source(self.segments.filter(wanted), self.rows)


#: Documents of some inputs, sorted, by kind.
Run = dict[Kind, Source]


@dataclass(slots=True)
class RunBuilder:
    """Collects batches of inputs, one input after the other, until they are a `Run`."""

    settings: Settings
    size: int = 0
    _batches: dict[Kind, list[Any]] = field(default_factory=dict)
    #: By kind, rows of a table of segments but their `start`.
    _segments: dict[Kind, list[tuple[int, str, str, int, int, int, int]]] = field(
        default_factory=dict
    )
    #: Of the searches of the input that is being read, whose rows may come in several batches.
    _searches: dict[int, SortKey] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether the collected rows make a run: the more partitions, the larger, so that each has
        rows enough."""
        wanted = self.settings.partitions * _PARTITION_BYTES
        return self.size >= min(max(wanted, _MIN_RUN_BYTES), _MAX_RUN_BYTES)

    def begin_input(self) -> None:
        """Begin another input."""
        self._searches.clear()

    def add(self, number: int, digest: bytes, batch: Any) -> None:
        """Add a `DocumentBatch` of record batches with all fields, of the input `number`."""
        if self.settings.by_ids:
            key = sort_key_of(self.settings, None, None, digest_number(digest))
            for kind, part in batch:
                self._append(kind, key, digest_number(digest), 0, number, len(part))
        else:
            self._add_searches(number, digest_number(digest), batch)
        for kind, part in batch:
            names = arrow_schema(kind, study_fields=self.settings.study_fields).names
            part = part.select(names)
            self._batches.setdefault(kind, []).append(part)
            self.size += part.nbytes

    def _append(
        self, kind: Kind, key: SortKey, digest: int, search: int, number: int, rows: int
    ) -> None:
        """Add a segment, or extend the last one."""
        if not rows:
            return
        segments = self._segments.setdefault(kind, [])
        segment = (*key, digest, search, number)
        if segments and segments[-1][:-1] == segment:
            rows += segments.pop()[-1]
        segments.append((*segment, rows))

    def _add_searches(self, number: int, digest: int, batch: Any) -> None:
        _, ordinals = _ordinals_of(batch.tasks.column("_id"))
        columns = (batch.tasks.column(name).to_pylist() for name in ("lib", "q"))
        for ordinal, library, query in zip(ordinals.tolist(), *columns, strict=True):
            key = sort_key_of(self.settings, library, query, digest)
            self._searches[ordinal] = key
            self._append(Kind.TASKS, key, digest, ordinal, number, 1)
        starts, ordinals = _ordinals_of(batch.align.column("ti"))
        for ordinal, rows in zip(ordinals.tolist(), np.diff(starts).tolist(), strict=True):
            for kind in KINDS:
                if kind is not Kind.TASKS:
                    self._append(kind, self._searches[ordinal], digest, ordinal, number, rows)

    def take(self) -> Run:
        """Return what was collected, sorted, and empty the builder."""
        run = {}
        for kind in KINDS:
            schema = arrow_schema(kind, study_fields=self.settings.study_fields)
            rows = pa.Table.from_batches(self._batches.pop(kind, []), schema)
            columns = [list(c) for c in zip(*self._segments.pop(kind, []), strict=True)]
            *keys, lengths = columns or [[] for _ in SCHEMA.names[1:]]
            ends = np.cumsum(lengths, dtype=np.int64)
            starts = ends - np.array(lengths, np.int64)
            segments = pa.table([*keys, starts, lengths], schema=SCHEMA)
            order = sort_order(segments)
            if (np.diff(order) != 1).any():
                segments = segments.take(order)
                lengths = segments["rows"].to_numpy()
                rows = gather(rows, segments["start"].to_numpy(), lengths)
                starts = np.cumsum(lengths) - lengths
                place = SCHEMA.get_field_index("start")
                segments = segments.set_column(place, SCHEMA.field(place), pa.array(starts))
            run[kind] = Source(segments, rows)
        self.size = 0
        return run


class RunWriter:
    """Writes runs below a directory: a file a kind for all of them, and one of their segments."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._runs = 0
        self._files: dict[Path, Any] = {}

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        for path, file in self._files.items():
            file.close()
            # After a crash of the host it must not have gaps: whoever maps it would not see them.
            sync(path)

    def _write(self, name: str, rows: Any) -> None:
        path = self._directory / f"{name}.arrow"
        if path not in self._files:
            # Not compressed: the file is mapped into memory as it is.
            self._files[path] = pa.ipc.new_file(str(path), rows.schema)
        self._files[path].write_table(rows)

    def write(self, run: Run) -> None:
        """Write a run."""
        for kind, source in run.items():
            number = pa.array(np.full(len(source.segments), self._runs))
            self._write(f"{kind.table}.segments", source.segments.append_column("run", number))
            self._write(kind.table, source.rows.combine_chunks())
        self._runs += 1


def spilled(directory: Path, kind: Kind) -> Iterator[Source]:
    """The runs below a directory, of one kind."""
    paths = [directory / f"{name}.arrow" for name in (f"{kind.table}.segments", kind.table)]
    if not all(path.exists() for path in paths):
        return  # no input could be read
    segments, rows = (pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in paths)
    begin = 0
    for run in pc.unique(segments["run"]):
        mine = segments.filter(pc.equal(segments["run"], run)).drop_columns(["run"])
        length = pc.sum(mine["rows"]).as_py() or 0
        yield Source(mine, rows.slice(begin, length))
        begin += length
