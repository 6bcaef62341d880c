"""Pieces: rows of a kind that follow each other in an input and have one place in the order.

A piece is one search of one input, or a whole input where ids alone say where rows go. Its
rows are in the order of their ids already, so only pieces are sorted; no row is ever compared.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storewise.dataset.settings import Settings
from storewise.documents import DIGEST_BYTES, ID_BYTES, ORDINAL_BITS

Integers = npt.NDArray[np.int64]
Whole = TypeVar("Whole", int, Integers)

#: `input` is a number that its source gives to an input. `library` and `query` are empty where they
#: are no part of the order. `digest` is the first 7 bytes of ids, `search` a search's ordinal.
SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("input", pa.int32()),
        ("library", pa.string()),
        ("query", pa.string()),
        ("digest", pa.int64()),
        ("search", pa.int64()),
        ("rows", pa.int64()),
    ]
)
#: Rows of pieces, on average, from which on slices serve: they need less memory than copies, and
#: are written as fast.
_LONG_PIECE = 64
KEY = ("partition", "library", "query", "digest", "search")


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
    """The partition of the ids that begin with a byte, or with each of several ones, where
    partitions are ranges of ids."""
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


def ids_of(column: Any) -> npt.NDArray[np.uint8]:
    """A column of ids as rows of 12 bytes; the column has no nulls."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # where it is empty, in some versions
            column = pa.concat_arrays(column.chunks)
    buffer = np.frombuffer(column.buffers()[1] or b"", np.uint8)
    start = column.offset * ID_BYTES
    return buffer[start : start + len(column) * ID_BYTES].reshape(-1, ID_BYTES)


def digests_and_ordinals(ids: npt.NDArray[np.uint8]) -> tuple[Integers, Integers]:
    """The digests' 7 bytes and the ordinals of ids."""
    wide = np.zeros((len(ids), 16), np.uint8)
    wide[:, 1 : 1 + DIGEST_BYTES] = ids[:, :DIGEST_BYTES]
    wide[:, 8 + 8 - (ID_BYTES - DIGEST_BYTES) :] = ids[:, DIGEST_BYTES:]
    numbers = wide.view(">u8").astype(np.int64)
    return numbers[:, 0], numbers[:, 1] & ((1 << ORDINAL_BITS) - 1)


def runs_of(ids: npt.NDArray[np.uint8]) -> Integers:
    """Where runs of equal ids begin, and the number of ids at the end."""
    if not len(ids):
        return np.zeros(1, np.int64)
    differs = (ids[1:] != ids[:-1]).any(axis=1)
    return np.concatenate([[0], np.flatnonzero(differs) + 1, [len(ids)]]).astype(np.int64)


def table(rows: Sequence[tuple[int, int, str, str, int, int, int]]) -> Any:
    """A table of pieces from its rows, in the order of SCHEMA."""
    columns = zip(*rows, strict=True) if rows else [[] for _ in SCHEMA]
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMA)


def order(pieces: Any, *more: str) -> Integers:
    """The order of pieces by their keys, then by `more` columns, which tell equal ones apart."""
    if len(pieces) < 2:
        return np.arange(len(pieces))
    keys = [(name, "ascending") for name in (*KEY, *more)]
    result: Integers = pc.sort_indices(pieces, sort_keys=keys).to_numpy().astype(np.int64)
    return result


def spread(starts: Integers, lengths: Integers) -> Integers:
    """The numbers ``start, start + 1, ...``, `length` of them, of each start, one after another."""
    total = int(lengths.sum())
    steps = np.ones(total, np.int64)
    filled = lengths > 0
    starts, lengths = starts[filled], lengths[filled]
    if not total:
        return steps
    ends = np.cumsum(lengths)
    steps[0] = starts[0]
    steps[ends[:-1]] = starts[1:] - (starts[:-1] + lengths[:-1] - 1)
    return np.cumsum(steps)


def arranged(rows: Any, starts: Integers, lengths: Integers) -> Any:
    """Pieces of a table, one after the other; what need not be copied is not."""
    ends = starts + lengths
    if lengths.sum() == len(rows) and (starts[1:] == ends[:-1]).all():
        return rows
    if len(starts) * _LONG_PIECE > len(rows):
        return rows.combine_chunks().take(pa.array(spread(starts, lengths)))
    pairs = zip(starts.tolist(), lengths.tolist(), strict=True)
    return pa.concat_tables(rows.slice(start, length) for start, length in pairs)
