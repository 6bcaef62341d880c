"""Lists of input files that a load worker has stored, and the ids of their documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from storewise.atomic import aside
from storewise.documents import DIGEST_BYTES, FULL_DIGEST_BYTES, ID_BYTES, KINDS, ORDINAL_BITS, Kind
from storewise.engines.contract.engine import Placement, SourceFile
from storewise.errors import ResultError
from storewise.ssearch.inputs.shards import load_shards
from storewise.ssearch.inputs.table import SHARDS_SCHEMA, rows_of
from storewise.workloads.contract import LoadedFile, blocks

Integers = NDArray[np.int64]

#: Ids drawn at a time: little enough that drawing never stalls a client for a millisecond.
_DRAW = 1024
#: Ids in one list.
_IDS = 500
_COLUMNS = ("path", "bytes", "digest", "queries", "alignments", "documents", "shard", "format")
_SCHEMA = pa.schema([SHARDS_SCHEMA.field(name) for name in _COLUMNS])


def write_files(path: Path, files: Iterable[LoadedFile]) -> None:
    """Write a list of stored files atomically."""
    rows = list(files)
    columns = {name: [getattr(row, name) for row in rows] for name in _COLUMNS}
    with aside(path) as place:
        pq.write_table(pa.table(columns, schema=_SCHEMA), place, compression="zstd")


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """All stored files of a trial, ordered by path.

    A study can have a million files, and each reading process has one of these.
    """

    table: Any
    """Arrow table of paths, bytes on disk, digests (16 bytes), shards and formats."""
    prefixes: NDArray[np.uint8]
    """Shape (files, 7): the first bytes of each digest."""
    documents: Integers
    """Documents of each kind that are stored, shape (files, 4)."""
    unsure: Integers
    """Documents whose insert was not acknowledged, in the same form: stored or not."""
    ends: Mapping[Kind, Integers] = field(init=False)
    """Documents of each kind up to the end of each file."""

    def __post_init__(self) -> None:
        ends = {kind: np.cumsum(self.documents[:, kind.number]) for kind in KINDS}
        object.__setattr__(self, "ends", ends)

    @classmethod
    def read(cls, lists: Sequence[Path]) -> StoredFiles:
        """The files of these lists together; raises ResultError for a list that is none."""
        tables = [_SCHEMA.empty_table()]
        for path in lists:
            try:
                # read_table would import the dataset machinery; a worker starts in a hurry.
                tables.append(pq.ParquetFile(path).read().select(_COLUMNS).cast(_SCHEMA))
            except (OSError, KeyError, ValueError, pa.ArrowException) as error:
                raise ResultError(f"{path}: not a list of stored files: {error}") from error
        table = pa.concat_tables(tables).sort_by("path").combine_chunks()
        digests = np.frombuffer(b"".join(table["digest"].to_pylist()), dtype=np.uint8)
        queries, alignments = (table[name].to_numpy() for name in ("queries", "alignments"))
        documents = np.stack([queries, alignments, alignments, alignments], axis=1)
        prefixes = digests.reshape(-1, FULL_DIGEST_BYTES)[:, :DIGEST_BYTES]
        return cls(table, prefixes, documents, np.zeros_like(documents))

    def with_notes(self, notes: Iterable[Mapping[str, Any]]) -> StoredFiles:
        """The same files with the documents that later phases stored, according to their notes.

        The note with the largest counts wins for each file: each step continues the last one.
        The load has stored nothing of such a file.
        """
        stored = [note for note in notes if "stored" in note]
        if not stored:
            return self
        places = {prefix.tobytes(): place for place, prefix in enumerate(self.prefixes)}
        documents, unsure = self.documents.copy(), self.unsure.copy()
        for note in stored:
            place = places[bytes.fromhex(note["digest"])[:DIGEST_BYTES]]
            if sum(note["documents"]) >= documents[place].sum():
                documents[place], unsure[place] = note["documents"], note["unsure"]
        return replace(self, documents=documents, unsure=unsure)

    def take(self, places: NDArray[Any]) -> StoredFiles:
        """The files at these places."""
        return StoredFiles(
            self.table.take(pa.array(places)),
            self.prefixes[places],
            self.documents[places],
            self.unsure[places],
        )

    def of_shard(self, shard: int) -> StoredFiles:
        """The files of one shard."""
        return self.take(np.flatnonzero(self.table["shard"].to_numpy() == shard))

    def column(self, name: str) -> list[Any]:
        """The column `path`, `bytes` (on disk), `digest`, `shard` or `format`, a value per file."""
        return list(self.table[name].to_pylist())

    def total(self, kind: Kind) -> int:
        """The number of documents of a kind."""
        return int(self.ends[kind][-1]) if len(self.table) else 0

    def ids(self, kind: Kind, numbers: Integers) -> list[bytes]:
        """The ids of documents of a kind by their numbers, which count over all files."""
        file = np.searchsorted(self.ends[kind], numbers, side="right")
        begins = self.ends[kind][file] - self.documents[file, kind.number]
        return make_ids(self.prefixes[file], kind, numbers - begins)

    def every_id(self, kind: Kind) -> Iterator[list[bytes]]:
        """Yield all stored ids of a kind, in lists."""
        total = self.total(kind)
        for start in range(0, total, _IDS):
            yield self.ids(kind, np.arange(start, min(total, start + _IDS)))

    def sources(self) -> tuple[SourceFile, ...]:
        """The files for engines that answer from the files themselves."""
        columns = [self.column(name) for name in ("path", "bytes", "digest", "shard", "format")]
        counts = map(tuple, self.documents.tolist())
        return tuple(
            SourceFile(path, size, digest, documents, shard, form)
            for path, size, digest, shard, form, documents in zip(*columns, counts, strict=True)
        )


def files_to_come(shards: Path) -> tuple[SourceFile, ...]:
    """All files of a list of shards, each with no document stored yet."""
    return tuple(
        SourceFile(
            file.path, file.bytes, file.digest, (0,) * len(KINDS), file.shard or 0, file.format
        )
        for file in rows_of(load_shards(shards))
    )


def shard_placement(files: StoredFiles) -> Placement:
    """The store of an id is the shard of the file that its digest prefix names."""
    shards = dict(zip(map(bytes, files.prefixes), files.column("shard"), strict=True))
    return partial(_shard_of, shards)


def _shard_of(shards: Mapping[bytes, int], document_id: bytes) -> int:
    return shards[document_id[:DIGEST_BYTES]]


class IdDraw:
    """Draws ids of stored documents, each with the same chance, from a seeded generator."""

    def __init__(self, files: StoredFiles, generator: np.random.Generator) -> None:
        self._files = files
        self._generator = generator
        totals = np.array([files.total(kind) for kind in KINDS], dtype=np.float64)
        self.documents = int(totals.sum())
        self._shares = totals / totals.sum() if self.documents else totals

    def single_ids(self, count: int | None) -> Iterator[tuple[Kind, bytes]]:
        """Draw `count` ids (None: without end) uniformly from all stored documents."""
        return ((kind, next(ids)) for kind, ids in self._draws(count, 1))

    def id_batches(self, count: int | None, batch: int) -> Iterator[tuple[Kind, list[bytes]]]:
        """Draw `count` lists (None: without end) of `batch` ids of one kind.

        A list's kind is drawn in proportion to the number of documents of each kind, its ids
        uniformly within the kind: all documents are equally likely, whatever the batch.
        """
        return ((kind, list(islice(ids, batch))) for kind, ids in self._draws(count, batch))

    def _draws(self, count: int | None, batch: int) -> Iterator[tuple[Kind, Iterator[bytes]]]:
        """Draw `count` kinds, each with an iterator whose next `batch` ids are for it."""
        for size in blocks(count, _DRAW):
            numbers = self._generator.choice(len(KINDS), size=size, p=self._shares).tolist()
            ids = {
                kind.number: iter(self.ids(kind, numbers.count(kind.number) * batch))
                for kind in KINDS
                if kind.number in numbers
            }
            for number in numbers:
                yield KINDS[number], ids[number]

    def ids(self, kind: Kind, count: int) -> list[bytes]:
        """`count` ids of a kind, drawn with replacement."""
        numbers = self._generator.integers(0, self._files.total(kind), size=count)
        return self._files.ids(kind, numbers)


def make_ids(prefixes: NDArray[np.uint8], kind: Kind, ordinals: NDArray[np.int64]) -> list[bytes]:
    """Ids as `documents.make_id` makes them, for arrays of (n, 7) prefixes and n ordinals."""
    tails = ((kind.number << ORDINAL_BITS) | ordinals).astype(">u8").view(np.uint8).reshape(-1, 8)
    raw = np.concatenate((prefixes, tails[:, 8 - (ID_BYTES - DIGEST_BYTES) :]), axis=1).tobytes()
    return [raw[i : i + ID_BYTES] for i in range(0, len(raw), ID_BYTES)]
