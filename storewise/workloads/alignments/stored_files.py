"""Lists of input files: those a write worker stored, and all ids that they stand for.

A list is a Parquet file with the columns of a shard list (``ssearch.shards``): path, bytes,
digest (16 bytes), queries, alignments, documents, shard. The ids of a file's documents follow
from its digest and counts alone, so nothing else is needed to read a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from storewise.ssearch.inputs.table import rows_of
from storewise.workloads.contract import LoadedFile

#: Ids drawn at a time: little enough that drawing never stalls a client for a millisecond.
_DRAW = 1024
#: Ids in one list.
_IDS = 500
_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(FULL_DIGEST_BYTES), nullable=False),
        pa.field("queries", pa.int64(), nullable=False),
        pa.field("alignments", pa.int64(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("shard", pa.int32(), nullable=False),
    ]
)


def write_files(path: Path, files: Iterable[LoadedFile]) -> None:
    """Write a list of stored files, whole or not at all."""
    rows = list(files)
    table = pa.table(
        {name: [getattr(row, name) for row in rows] for name in _SCHEMA.names}, schema=_SCHEMA
    )
    with aside(path) as place:
        pq.write_table(table, place, compression="zstd")


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """All stored files of a trial as arrays with one entry per file, ordered by path.

    A study can have a million files, and each reading process has one of these.

    `sizes` are bytes on disk; `prefixes` has shape (files, 7): the first bytes of each digest.
    """

    paths: Any
    """Arrow array of strings."""
    sizes: NDArray[np.int64]
    prefixes: NDArray[np.uint8]
    digests: Any
    """Arrow array of 16 bytes each."""
    queries: NDArray[np.int64]
    alignments: NDArray[np.int64]
    shards: NDArray[np.int64]
    added: NDArray[np.int64] | None = None
    """Documents of each kind that phases after the load have stored, shape (files, 4); such a
    file has no queries and alignments above. None where there are none."""
    unsure: NDArray[np.int64] | None = None
    """Documents whose insert was not acknowledged, in the same form: stored or not."""

    @classmethod
    def read(cls, lists: Sequence[Path]) -> StoredFiles:
        """The files of these lists together; raises ResultError for a list that is none."""
        tables = []
        for path in lists:
            try:
                # read_table would import the dataset machinery; a worker starts in a hurry.
                tables.append(pq.ParquetFile(path).read().select(_SCHEMA.names).cast(_SCHEMA))
            except (OSError, KeyError, ValueError, pa.ArrowException) as error:
                raise ResultError(f"{path}: not a list of stored files: {error}") from error
        table = pa.concat_tables(tables) if tables else _SCHEMA.empty_table()
        table = table.sort_by("path")
        digests = table["digest"].combine_chunks()
        raw = b"".join(digest[:DIGEST_BYTES] for digest in digests.to_pylist())
        prefixes = np.frombuffer(raw, dtype=np.uint8)

        def column(name: str) -> NDArray[np.int64]:
            return np.asarray(table[name].to_numpy(), dtype=np.int64)

        return cls(
            table["path"].combine_chunks(),
            column("bytes"),
            prefixes.reshape(-1, DIGEST_BYTES),
            digests,
            column("queries"),
            column("alignments"),
            column("shard"),
        )

    def counts(self, kind: Kind) -> NDArray[np.int64]:
        """Documents of a kind in each file."""
        loaded = self.queries if kind is Kind.TASKS else self.alignments
        return loaded if self.added is None else loaded + self.added[:, kind.number]

    def every_id(self, kind: Kind) -> Iterator[list[bytes]]:
        """All stored ids of a kind, in lists."""
        for prefix, count in zip(self.prefixes, self.counts(kind).tolist(), strict=True):
            for start in range(0, count, _IDS):
                ordinals = np.arange(start, min(count, start + _IDS))
                yield make_ids(np.tile(prefix, (len(ordinals), 1)), kind, ordinals)

    def unsure_of(self, kind: Kind) -> int:
        """Documents of a kind that may be stored or not."""
        return 0 if self.unsure is None else int(self.unsure[:, kind.number].sum())

    def with_notes(self, notes: Iterable[Mapping[str, Any]]) -> StoredFiles:
        """The same files with what later phases' notes say that they stored of them.

        Of several notes on a file the one with the most counts: a step goes on where the last one
        has ended.
        """
        stored = [note for note in notes if "stored" in note]
        if not stored:
            return self
        places = {prefix.tobytes(): place for place, prefix in enumerate(self.prefixes)}
        added = np.zeros((len(self.prefixes), len(KINDS)), dtype=np.int64)
        unsure = np.zeros_like(added)
        for note in stored:
            place = places[bytes.fromhex(note["digest"])[:DIGEST_BYTES]]
            documents = np.asarray(note["documents"], dtype=np.int64)
            if documents.sum() >= added[place].sum():
                added[place], unsure[place] = documents, note["unsure"]
        return replace(self, added=added, unsure=unsure)

    def of_shard(self, shard: int) -> StoredFiles:
        """Only the files of one shard."""
        mine = np.flatnonzero(self.shards == shard)
        return StoredFiles(
            self.paths.take(pa.array(mine)),
            self.sizes[mine],
            self.prefixes[mine],
            self.digests.take(pa.array(mine)),
            self.queries[mine],
            self.alignments[mine],
            self.shards[mine],
            None if self.added is None else self.added[mine],
            None if self.unsure is None else self.unsure[mine],
        )

    def sources(self) -> tuple[SourceFile, ...]:
        """What an engine needs that answers from the files themselves."""
        counts = np.stack([self.counts(kind) for kind in KINDS], axis=1).tolist()
        return tuple(
            SourceFile(path, size, digest, tuple(documents), shard)
            for path, size, digest, documents, shard in zip(
                self.paths.to_pylist(),
                self.sizes.tolist(),
                self.digests.to_pylist(),
                counts,
                self.shards.tolist(),
                strict=True,
            )
        )

    def path(self, file: int) -> str:
        return str(self.paths[file].as_py())

    def digest(self, file: int) -> bytes:
        """The whole digest of a file (16 bytes)."""
        return bytes(self.digests[file].as_py())

    def total(self, kind: Kind) -> int:
        return int(self.counts(kind).sum())


def files_to_come(shards: Path) -> tuple[SourceFile, ...]:
    """All files of a list of shards, nothing of which is stored yet."""
    return tuple(
        SourceFile(file.path, file.bytes, file.digest, (0,) * len(KINDS), file.shard or 0)
        for file in rows_of(load_shards(shards))
    )


class ShardPlacement(Placement):
    """The store of an id is the shard of the file that its digest prefix names."""

    def __init__(self, files: StoredFiles) -> None:
        self._stores: dict[bytes, int] = {
            prefix.tobytes(): shard
            for prefix, shard in zip(files.prefixes, files.shards.tolist(), strict=True)
        }

    def store_of(self, document_id: bytes) -> int:
        return self._stores[document_id[:DIGEST_BYTES]]


class IdDraw:
    """Draws ids of stored documents, each with the same chance, from a seeded generator."""

    def __init__(self, files: StoredFiles, generator: np.random.Generator) -> None:
        self._files = files
        self._generator = generator
        self._ends = {kind: np.cumsum(files.counts(kind)) for kind in KINDS}
        totals = np.array([files.total(kind) for kind in KINDS], dtype=np.float64)
        self.documents = int(totals.sum())
        self._shares = totals / totals.sum() if self.documents else totals

    def single_ids(self, count: int | None) -> Iterator[tuple[Kind, bytes]]:
        """Draw `count` ids (None: without end) uniformly from all stored documents."""
        done = 0
        while count is None or done < count:
            size = _DRAW if count is None else min(_DRAW, count - done)
            done += size
            numbers = self._generator.choice(len(KINDS), size=size, p=self._shares)
            drawn: list[Any] = [None] * size
            for kind in KINDS:
                places = np.flatnonzero(numbers == kind.number).tolist()
                for place, document_id in zip(
                    places, self.ids(kind, len(places)) if places else (), strict=True
                ):
                    drawn[place] = (kind, document_id)
            yield from drawn

    def id_batches(self, count: int | None, batch: int) -> Iterator[tuple[Kind, list[bytes]]]:
        """Draw `count` lists (None: without end) of `batch` ids of one kind.

        A list's kind is drawn in proportion to the number of documents of each kind, its ids
        uniformly within the kind: all documents are equally likely, whatever the batch.
        """
        done = 0
        while count is None or done < count:
            size = _DRAW if count is None else min(_DRAW, count - done)
            done += size
            numbers = self._generator.choice(len(KINDS), size=size, p=self._shares).tolist()
            ids = {
                kind: iter(self.ids(kind, numbers.count(kind.number) * batch))
                for kind in KINDS
                if kind.number in numbers
            }
            for number in numbers:
                kind = KINDS[number]
                yield kind, list(islice(ids[kind], batch))

    def ids(self, kind: Kind, count: int) -> list[bytes]:
        """`count` ids of a kind, drawn with replacement."""
        ends = self._ends[kind]
        at = self._generator.integers(0, int(ends[-1]), size=count)
        file = np.searchsorted(ends, at, side="right")
        ordinals = at - (ends[file] - self._files.counts(kind)[file])
        return make_ids(self._files.prefixes[file], kind, ordinals)


def make_ids(prefixes: NDArray[np.uint8], kind: Kind, ordinals: NDArray[np.int64]) -> list[bytes]:
    """Ids as `documents.make_id` makes them, for arrays of (n, 7) prefixes and n ordinals."""
    tails = ((kind.number << ORDINAL_BITS) | ordinals).astype(">u8").view(np.uint8).reshape(-1, 8)
    raw = np.concatenate((prefixes, tails[:, 8 - (ID_BYTES - DIGEST_BYTES) :]), axis=1).tobytes()
    return [raw[i : i + ID_BYTES] for i in range(0, len(raw), ID_BYTES)]
