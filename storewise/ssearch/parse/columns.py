"""Alignments field by field: the form in which they travel from the bytes to the stores.

Who reads alignments appends rows; `documents` and `arrow` make documents of the whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from storewise.ssearch.parse.grammar import Alignment, Hit, read_hit

Bytes = npt.NDArray[np.uint8]
Ends = npt.NDArray[np.int32]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.uint8]

#: Rows of `Columns.integers` and `Columns.floats`; `_core.c` counts in the same order.
INTEGERS = (
    "s_w", "score", "overlap", "query_start", "query_stop", "library_start", "library_stop",
)  # fmt: skip
FLOATS = ("z", "bits", "expect", "ident", "sim")
TEXTS = ("query", "library", "seqid", "gene", "chr")
#: An integer that the output lacks; no number of 18 digits is so small. Of the floats it is NaN,
#: and of the frame 0.
NO_INTEGER = np.iinfo(np.int64).min

_CACHED_HITS = 50_000
_TEXT_BYTES_PER_ROW = 64
#: More text than the ends, which are 32-bit integers, can count: a batch is far from it.
_MAX_TEXT_BYTES = np.iinfo(np.int32).max


_T = TypeVar("_T")


class PackedHit(NamedTuple):
    """Fields of a hit's line, in UTF-8; empty where it names no gene or no chromosome."""

    seqid: bytes
    gene: bytes
    chr: bytes
    has_gene: bool
    has_chr: bool
    sizes: bytes
    """Lengths of the texts, then both flags: five 32-bit integers."""


@lru_cache(maxsize=_CACHED_HITS)
def packed_hit(line: bytes) -> PackedHit:
    """A hit's line (without its `>>`); each library sequence comes back for each query."""
    hit: Hit = read_hit(line)
    gene, chromosome = hit.gene, hit.chromosome
    texts = hit.seqid.encode(), (gene or "").encode(), (chromosome or "").encode()
    has = gene is not None, chromosome is not None
    return PackedHit(*texts, *has, np.array([*map(len, texts), *has], np.int32).tobytes())


class TextColumn:
    """Texts of the rows, one after the other: row i is ``data[ends[i]:ends[i + 1]]``."""

    __slots__ = ("data", "ends")

    def __init__(self, rows: int, size: int) -> None:
        self.data: Bytes = np.empty(size, np.uint8)
        self.ends: Ends = np.zeros(rows + 1, np.int32)

    def room(self, row: int, size: int) -> None:
        """Makes room for `size` more bytes after `row` rows."""
        used = int(self.ends[row])
        if used + size > len(self.data):
            if used + size > _MAX_TEXT_BYTES:
                raise OverflowError("a batch of more than 2 GiB of text; ask for smaller ones")
            data = np.empty(min(max(used + size, 2 * len(self.data)), _MAX_TEXT_BYTES), np.uint8)
            data[:used] = self.data[:used]
            self.data = data

    def free(self, row: int) -> int:
        """Bytes for which there is room after `row` rows."""
        return len(self.data) - int(self.ends[row])

    def append(self, row: int, text: bytes, lengths: Integers) -> None:
        """Adds the texts of `len(lengths)` rows from `row` on, which stand together in `text`."""
        self.room(row, len(text))
        start = int(self.ends[row])
        self.data[start : start + len(text)] = np.frombuffer(text, np.uint8)
        np.cumsum(lengths, out=lengths)
        self.ends[row + 1 : row + 1 + len(lengths)] = lengths + start

    def take(self, ends: Ends, data: Bytes) -> None:
        """Take the texts of all rows from `data`: row i from ``ends[i]`` to ``ends[i + 1]``."""
        start, stop = int(ends[0]), int(ends[-1])
        self.data = np.array(data[start:stop])
        self.ends = (ends - start).astype(np.int32)

    def texts(self, rows: int) -> list[bytes]:
        """The texts of the first `rows` rows."""
        data, ends = self.data[: self.ends[rows]].tobytes(), self.ends[: rows + 1].tolist()
        return [data[start:end] for start, end in pairwise(ends)]


@dataclass(slots=True)
class Run:
    """The rows from `row` on, up to the next run's, are of one search."""

    row: int
    task: bytes
    query: str


class Columns:
    """Up to `capacity` alignments in file order; the first `rows` are there.

    `integers` and `floats` have a row for each name in INTEGERS and FLOATS; `frame` is a letter's
    code; `opens` says whether an alignment is its hit's first; `has` whether it has a gene, a
    chromosome, and both aligned sequences (tables mostly lack them). `first` is the ordinal of row
    0 in the file.
    """

    def __init__(self, capacity: int, first: int, sizes: Sequence[int] = ()) -> None:
        """`sizes` are how many bytes the texts are likely to have."""
        self.capacity = capacity
        self.first = first
        self.rows = 0
        self.integers: Integers = np.empty((len(INTEGERS), capacity), np.int64)
        self.floats: Floats = np.empty((len(FLOATS), capacity), np.float64)
        self.frame: Flags = np.empty(capacity, np.uint8)
        self.opens: Flags = np.empty(capacity, np.uint8)
        self.has: Flags = np.ones((4, capacity), np.uint8)
        sizes = sizes or [capacity * _TEXT_BYTES_PER_ROW] * len(TEXTS)
        self.texts = tuple(TextColumn(capacity, size) for size in sizes)
        self.runs: list[Run] = []

    def __len__(self) -> int:
        return self.rows

    @property
    def room(self) -> int:
        """Number of further alignments for which there is room."""
        return self.capacity - self.rows

    def next(self, first: int) -> Columns:
        """Empty columns for what follows in the file, with room as these have come to have."""
        return Columns(self.capacity, first, [len(text.data) for text in self.texts])

    def of(self, task: bytes, query: str) -> None:
        """Begin a search: what is appended from here on belongs to it."""
        if not self.runs or self.runs[-1].task != task:
            self.runs.append(Run(self.rows, task, query))

    def buffers(self) -> tuple[Any, ...]:
        """All arrays, in the order of `core/module.c`."""
        texts = (array for text in self.texts for array in (text.data, text.ends))
        return (self.integers, self.floats, self.frame, self.opens, *self.has, *texts)

    def grow(self) -> None:
        """Enlarge the text buffer that is most probably full."""
        text = min(self.texts, key=lambda text: text.free(self.rows))
        text.room(self.rows, 2 * len(text.data))

    def integer(self, name: str) -> Integers:
        return self.integers[INTEGERS.index(name), : self.rows]

    def real(self, name: str) -> Floats:
        return self.floats[FLOATS.index(name), : self.rows]

    def text(self, name: str) -> TextColumn:
        return self.texts[TEXTS.index(name)]

    def repeated(self, of: Callable[[Run], _T]) -> Iterator[tuple[_T, int]]:
        """A value of each run and how many rows it has."""
        for run, following in zip_longest(self.runs, self.runs[1:]):
            yield of(run), (following.row if following else self.rows) - run.row

    def append_hits(self, row: int, hits: Sequence[PackedHit]) -> None:
        """Append the fields of the hits' lines for the rows from `row` on."""
        *texts, _, _, sizes = zip(*hits, strict=True)
        numbers = np.frombuffer(b"".join(sizes), np.int32).reshape(-1, 5).T
        for text, pieces, lengths in zip(self.texts[2:], texts, numbers, strict=False):
            text.append(row, b"".join(pieces), lengths.astype(np.int64))
        self.has[:2, row : row + len(hits)] = numbers[3:]

    def append(self, alignment: Alignment, *, opens: bool) -> None:
        """Append one alignment from the reference reader; `opens`: it is the first of its hit."""
        row = self.rows
        for i, name in enumerate(INTEGERS):
            value = getattr(alignment, name)
            self.integers[i, row] = NO_INTEGER if value is None else value
        for i, name in enumerate(FLOATS):
            value = getattr(alignment, name)
            self.floats[i, row] = np.nan if value is None else value
        self.frame[row] = 0 if alignment.frame is None else ord(alignment.frame)
        self.opens[row] = opens
        sequences = (alignment.query_sequence, alignment.library_sequence)
        for text, sequence in zip(self.texts, sequences, strict=False):
            text.append(row, sequence, np.array([len(sequence)]))
        self.append_hits(row, [packed_hit(alignment.hit)])
        self.rows += 1


class RepeatedStatistics:
    """Counts the further alignments of a hit (`>--`) that only repeat the statistics of its first.

    Versions before June 2021, and sometimes later fasta36, print the z-score, bits and e-value of
    the first alignment for all alignments of a hit, although their raw scores differ.
    """

    _STATISTICS = ("z", "bits", "expect")
    _SCORES = ("s_w", "score")
    _values = attrgetter(*_STATISTICS, *_SCORES)

    def __init__(self) -> None:
        self.count = 0
        #: Of the hit that was read last; None or NaN where the output does not have it.
        self._first: tuple[float | None, ...] = (None,) * 5

    def add_rows(self, columns: Columns, first: int) -> None:
        """Add alignments in columns, from row `first` on."""
        values = np.vstack(
            [
                *(columns.real(name)[first:] for name in self._STATISTICS),
                *(columns.integer(name)[first:] for name in self._SCORES),
            ]
        )
        opens = columns.opens[first : columns.rows].astype(np.bool_)
        if not opens.all():
            known = np.hstack([np.array(self._first, np.float64)[:, None], values])
            of = np.maximum.accumulate(np.where(opens, np.arange(1, len(opens) + 1), 0))
            same = known[:, 1:] == known[:, of]
            again = same[:3].all(axis=0) & ~same[3:].all(axis=0) & ~opens
            self.count += int(np.count_nonzero(again))
            values = known[:, of]
        self._first = tuple(values[:, -1].tolist())

    def add(self, alignment: Alignment, *, opens: bool) -> None:
        """Add one alignment of the reference reader; `opens` if it is the first of its hit.

        By plain comparisons: arrays of five numbers cost a tenth of what reading takes.
        """
        values = self._values(alignment)
        if opens:
            self._first = values
        elif None not in values[:3] and values[:3] == self._first[:3]:
            self.count += values[3:] != self._first[3:]
