"""Lists of input files: those a write worker stored, and all ids that they stand for.

A list is a Parquet file with columns of a shard list (``ssearch.shards``). The ids of a file's
documents follow from its digest and counts alone, so nothing else is needed to read a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
_COLUMNS = ("path", "bytes", "digest", "queries", "alignments", "documents", "shard")
_SCHEMA = pa.schema([SHARDS_SCHEMA.field(name) for name in _COLUMNS])


def write_files(path: Path, files: Iterable[LoadedFile]) -> None:
    """Write a list of stored files, whole or not at all."""
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
    """Arrow table of paths, bytes on disk, digests and shards."""
    prefixes: NDArray[np.uint8]
    """Shape (files, 7): the first bytes of each digest."""
    documents: Integers
    """Documents of each kind that are stored, shape (files, 4)."""
    unsure: Integers
    """Documents whose insert was not acknowledged, in the same form: stored or not."""

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
        return cls(
            table,
            digests.reshape(-1, FULL_DIGEST_BYTES)[:, :DIGEST_BYTES],
            documents,
            np.zeros_like(documents),
        )

    def with_notes(self, notes: Iterable[Mapping[str, Any]]) -> StoredFiles:
        """The same files with what later phases' notes say that they stored of them.

        Of several notes on a file the one with the most counts: a step goes on where the last one
        has ended. The load has stored nothing of such a file.
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

    def of_shard(self, shard: int) -> StoredFiles:
        """Only the files of one shard."""
        mine = self.table["shard"].to_numpy() == shard
        return StoredFiles(
            self.table.filter(pa.array(mine)),
            self.prefixes[mine],
            self.documents[mine],
            self.unsure[mine],
        )

    @property
    def paths(self) -> list[str]:
        return list(self.table["path"].to_pylist())

    @property
    def sizes(self) -> Integers:
        """Bytes on disk."""
        return np.asarray(self.table["bytes"].to_numpy())

    @property
    def digests(self) -> list[bytes]:
        """Whole digests (16 bytes)."""
        return list(self.table["digest"].to_pylist())

    @property
    def shards(self) -> list[int]:
        return list(self.table["shard"].to_pylist())

    def counts(self, kind: Kind) -> Integers:
        """Documents of a kind in each file."""
        return self.documents[:, kind.number]

    def total(self, kind: Kind) -> int:
        return int(self.counts(kind).sum())

    def unsure_of(self, kind: Kind) -> int:
        """Documents of a kind that may be stored or not."""
        return int(self.unsure[:, kind.number].sum())

    def path(self, file: int) -> str:
        return str(self.table["path"][file].as_py())

    def digest(self, file: int) -> bytes:
        """The whole digest of a file (16 bytes)."""
        return bytes(self.table["digest"][file].as_py())

    def every_id(self, kind: Kind) -> Iterator[list[bytes]]:
        """All stored ids of a kind, in lists."""
        for prefix, count in zip(self.prefixes, self.counts(kind).tolist(), strict=True):
            for start in range(0, count, _IDS):
                ordinals = np.arange(start, min(count, start + _IDS))
                yield make_ids(np.tile(prefix, (len(ordinals), 1)), kind, ordinals)

    def sources(self) -> tuple[SourceFile, ...]:
        """What an engine needs that answers from the files themselves."""
        counts = map(tuple, self.documents.tolist())
        columns = (self.paths, self.sizes.tolist(), self.digests, counts, self.shards)
        return tuple(map(SourceFile, *columns))


def files_to_come(shards: Path) -> tuple[SourceFile, ...]:
    """All files of a list of shards, nothing of which is stored yet."""
    return tuple(
        SourceFile(file.path, file.bytes, file.digest, (0,) * len(KINDS), file.shard or 0)
        for file in rows_of(load_shards(shards))
    )


def shard_placement(files: StoredFiles) -> Placement:
    """The store of an id is the shard of the file that its digest prefix names."""
    prefixes = (prefix.tobytes() for prefix in files.prefixes)
    return partial(_shard_of, dict(zip(prefixes, files.shards, strict=True)))


def _shard_of(shards: Mapping[bytes, int], document_id: bytes) -> int:
    return shards[document_id[:DIGEST_BYTES]]


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
        for size in blocks(count, _DRAW):
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
        for size in blocks(count, _DRAW):
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
