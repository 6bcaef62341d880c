"""Runs of alignments read by whole columns, without a compiled core.

The lines of a window are found at once, then looked at by their places in the layout: the keys by
eight bytes at a time, the numbers as one array of texts, the residues as one text. It takes the
alignments that have the layout and keep the invariants, up to the first that does not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storewise.ssearch.parse.columns import (
    FLOATS,
    INTEGERS,
    NO_INTEGER,
    Bytes,
    Columns,
    Integers,
    packed_hit,
)
from storewise.ssearch.parse.grammar import CODE_KEY, Layout

Flags = npt.NDArray[np.bool_]
_NEWLINE, _BLANK, _MARK, _SEMICOLON, _MINUS, _ZERO, _NINE, _FORWARD, _REVERSE = b"\n >;-09fr"
_RESIDUES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*/\\-"
_NOT_CONSENSUS = b";>0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CONSENSUS = bytes(set(range(256)) - set(_NOT_CONSENSUS))
_DIGITS = b"0123456789"
_SIGNED = _DIGITS + b"-"
_REAL = _SIGNED + b"+.eE"
#: The reference reader takes longer ones.
_LONGEST_INTEGER = 18
_LONGEST_FLOAT = 24
#: Of `> ..`, without what is between.
_LEAST_HEADER = 3
_WORD = 8
_PIECE = 1 << 16
#: Eight zeros as digits; what lifts a byte above 9 to its sign bit; the sign bits.
_ZEROS, _TO_SIGN, _SIGNS = (np.uint64(0x0101010101010101 * byte) for byte in (0x30, 0x46, 0x80))
_SUMS = tuple(
    (np.uint64(mask), np.uint64(factor), np.uint64(shift))
    for mask, factor, shift in (
        (0x0F0F0F0F0F0F0F0F, 10 * (1 << 8) + 1, 8),
        (0x00FF00FF00FF00FF, 100 * (1 << 16) + 1, 16),
        (0x0000FFFF0000FFFF, 10000 * (1 << 32) + 1, 32),
    )
)
#: Newlines behind a window, so that one may look for a key from each line's start on.
_BEHIND = 256


class _Keys(NamedTuple):
    """The key lines of an alignment, those of the scores and of both sequences in one row.

    `words` are what their beginnings are in eight bytes, at `offsets` from the line's start and
    with only the bits of `masks`; `sizes` is where the value starts, `longest` how long it may be.
    """

    scores: int
    query: int
    offsets: Integers
    words: npt.NDArray[np.uint64]
    masks: npt.NDArray[np.uint64]
    sizes: Integers
    longest: Integers
    roles: dict[str, int]
    """Columns of the fields."""
    integers: list[str]
    reals: list[str]
    numbers: list[int]
    """Columns of numbers that nobody needs."""
    exact: list[int]
    """Columns of lines without a value."""


@lru_cache(maxsize=64)
def _keys(layout: Layout) -> _Keys:
    starts = [b"; " + key + b":" for key, _ in layout.keys]
    roles = {role: i for i, (_, role) in enumerate(layout.keys) if role is not None}
    numbers, exact = [], []
    for which, names in (("query", layout.query), ("library", layout.library)):
        for name in names:
            if name.startswith(b"sq_type="):
                exact.append(len(starts))
                starts.append(b"; sq_type: " + name[8:])
                continue
            if name in (b"al_start", b"al_stop"):
                roles[f"{which}_{name[3:].decode()}"] = len(starts)
            else:
                numbers.append(len(starts))
            starts.append(b"; " + name + b":")
    passes = max((len(start) + _WORD - 1) // _WORD for start in starts)
    offsets = np.zeros((passes, len(starts)), np.int64)
    words = np.zeros(offsets.shape, np.uint64)
    masks = np.zeros(offsets.shape, np.uint64)
    for column, start in enumerate(starts):
        for row in range(passes):
            at = min(row * _WORD, max(len(start) - _WORD, 0))
            piece = start[at : at + _WORD]
            offsets[row, column] = at
            words[row, column] = int.from_bytes(piece, "little")
            masks[row, column] = (1 << 8 * len(piece)) - 1
    longest = np.full(len(starts), np.iinfo(np.int64).max)
    for role, column in roles.items():
        longest[column] = _LONGEST_FLOAT if role in FLOATS else _LONGEST_INTEGER
    longest[numbers] = _LONGEST_INTEGER
    return _Keys(
        scores=len(layout.keys),
        query=len(layout.query),
        offsets=offsets,
        words=words,
        masks=masks,
        sizes=np.array([len(start) for start in starts]),
        longest=longest,
        roles=roles,
        integers=[name for name in INTEGERS if name in roles],
        reals=[name for name in FLOATS if name in roles],
        numbers=numbers,
        exact=exact,
    )


class _Lines:
    """The lines of a window: where each starts and ends (at its newline)."""

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        size = end - start
        self._padded = np.full(size + _BEHIND, _NEWLINE, np.uint8)
        self._padded[:size] = np.frombuffer(buffer, np.uint8, size, start)
        self.bytes: Bytes = self._padded[:size]
        self.ends = np.flatnonzero(self.bytes == _NEWLINE)
        self.starts = np.zeros_like(self.ends)
        np.add(self.ends[:-1], 1, out=self.starts[1:])
        self.first = self.bytes[self.starts]
        # Eight bytes from any place on, as one number.
        self._words = np.ndarray((size + _BEHIND - _WORD,), "<u8", self._padded, strides=(1,))

    def words(self, places: Integers) -> npt.NDArray[np.uint64]:
        """Eight bytes from each place on; behind the window are newlines."""
        return cast(npt.NDArray[np.uint64], self._words[places])

    def begin(self, places: Integers, text: bytes) -> Flags:
        """Which of the places begin with `text`, of at most eight bytes."""
        mask = np.uint64((1 << 8 * len(text)) - 1)
        return cast(Flags, self.words(places) & mask == int.from_bytes(text, "little"))

    def at(self, places: Integers) -> Bytes:
        """The bytes at places; those behind the window are newlines."""
        return self._padded[places]

    def begins(self, numbers: Integers) -> Integers:
        """Where the lines of these numbers start; one behind the last where that ends."""
        behind = numbers == len(self.starts)
        starts = self.starts[np.where(behind, 0, numbers)]
        return np.where(behind, self.ends[-1] + 1, starts)

    def cut(self, count: int) -> None:
        """Keeps the first `count` lines."""
        self.ends, self.starts = self.ends[:count], self.starts[:count]
        self.first = self.first[:count]


class _Window:
    """The alignments of a window that have the layout: the first `count`, fewer with each check."""

    def __init__(self, lines: _Lines, layout: Layout, *, last: bool, most: int) -> None:
        self._lines = lines
        self._layout = layout
        self._keys = keys = _keys(layout)
        marks = np.flatnonzero(lines.first == _MARK)
        count = len(marks) // 3
        if count and 3 * count == len(marks) and not last:
            count -= 1  # what follows it is not in the window
        self.hit, self.query, self.library = (marks[i : 3 * count : 3] for i in range(3))
        self.behind = np.append(marks[3 : 3 * count + 1 : 3], [len(lines.starts)])[:count]
        self.codes = self.behind - layout.codes
        self.residues = self.library + 1 + len(layout.library)
        self.consensus = self.codes
        if layout.consensus:
            semicolons = np.flatnonzero(lines.first == _SEMICOLON)
            semicolons = np.append(semicolons, [len(lines.starts)])
            self.consensus = semicolons[np.searchsorted(semicolons, self.residues)]
        self.count = count
        self.failed = False
        self.keep(
            (self.query == self.hit + 1 + keys.scores)
            & (self.library > self.query + 1 + keys.query)
            & (self.consensus > self.residues)
            & (self.codes >= self.consensus + layout.consensus)
        )
        if self.count > most:
            self.keep(np.arange(self.count) < most)
            self.failed = False

    def keep(self, right: Flags) -> None:
        """Keeps the alignments before the first that is not right."""
        if not right.all():
            self.failed = True
            self.count = int(right.argmin())
            for name in ("hit", "query", "library", "behind", "codes", "residues", "consensus"):
                setattr(self, name, getattr(self, name)[: self.count])

    def read(self, buffer: bytes, start: int, columns: Columns, hit: bytes | None) -> bytes | None:
        """Appends the alignments, of which there are some; returns the last hit's line.

        ValueError where a value is none; nothing is appended then.
        """
        lines, layout, keys = self._lines, self._layout, self._keys
        at = lines.starts[self.hit]
        opens = lines.begin(at, b">>")
        right = np.where(opens, lines.at(at + 2) != _MARK, lines.begin(at, b">--\n"))
        if hit is None:
            right &= np.logical_or.accumulate(opens)
        first = np.concatenate(
            [
                self.hit[:, None] + np.arange(1, keys.scores + 1),
                self.query[:, None] + np.arange(1, keys.query + 1),
                self.library[:, None] + np.arange(1, len(layout.library) + 1),
            ],
            axis=1,
        )
        begins, ends = lines.starts[first], lines.ends[first]
        for offsets, words, masks in zip(keys.offsets, keys.words, keys.masks, strict=True):
            right &= (lines.words(begins + offsets) & masks == words).all(axis=1)
        values = begins + keys.sizes
        right &= (values[:, keys.exact] == ends[:, keys.exact]).all(axis=1)
        values[:, keys.exact] = ends[:, keys.exact]
        for header in (self.query, self.library):
            stop = lines.ends[header]
            right &= stop - lines.starts[header] > _LEAST_HEADER
            right &= lines.begin(stop - 3, b" ..\n")
        if layout.consensus:
            place = lines.starts[self.consensus]
            right &= lines.begin(place, b"; al_con") & lines.begin(place + 8, b"s:\n")
        _pass_blanks(lines, values)
        lengths = ends - values
        right &= (lengths <= keys.longest).all(axis=1)
        numbers = [column for name, column in keys.roles.items() if name != "frame"]
        right &= (lengths[:, [*numbers, *keys.numbers]] > 0).all(axis=1)
        frame: Bytes = np.zeros(self.count, np.uint8)
        if "frame" in keys.roles:
            column = keys.roles["frame"]
            frame = lines.at(values[:, column])
            right &= (lengths[:, column] == 1) & ((frame == _FORWARD) | (frame == _REVERSE))
        self.keep(right)
        if not self.count:
            return hit
        values, lengths = values[: self.count], lengths[: self.count]
        found: dict[str, npt.NDArray[Any]] = {}
        for names, kind, allowed in (
            (keys.integers, pa.int64(), _SIGNED), (keys.reals, pa.float64(), _REAL)
        ):  # fmt: skip
            wanted = [keys.roles[name] for name in names]
            read = self._numbers(values[:, wanted], lengths[:, wanted], kind, allowed)
            found.update(zip(names, read, strict=True))
        self._texts(values[:, keys.numbers], lengths[:, keys.numbers], _DIGITS)
        sequences = self._sequences(buffer, start, found, frame)
        if self.count:
            hit = self._append(buffer, start, columns, hit, opens, frame, found, sequences)
        return hit

    def _small_integers(self, ends: Integers, lengths: Integers) -> dict[str, npt.NDArray[Any]]:
        """The integers, eight digits of each at once; none where one has more or has a sign.

        The digits of a word are added in pairs, the pairs in pairs, and so on (D. Lemire, "Quickly
        parsing eight digits", 2018). Numbers that nobody needs are only checked; ValueError for
        those with another byte.
        """
        keys = self._keys
        wanted = [*(keys.roles[name] for name in keys.integers), *keys.numbers]
        sizes = lengths[:, wanted]
        if not len(sizes) or sizes.max() > _WORD or ends[0, wanted].min() < _WORD:
            self._texts(ends[:, keys.numbers] - lengths[:, keys.numbers], lengths[:, keys.numbers])
            return {}
        unused = (np.uint64(1) << (8 * (_WORD - sizes)).astype(np.uint64)) - np.uint64(1)
        unused[sizes == 0] = np.iinfo(np.uint64).max
        words = self._lines.words(ends[:, wanted] - _WORD)
        words = (words & ~unused) | (_ZEROS & unused)
        if (((words + _TO_SIGN) | (words - _ZEROS)) & _SIGNS).any():
            self._texts(ends[:, keys.numbers] - lengths[:, keys.numbers], lengths[:, keys.numbers])
            return {}
        for mask, factor, shift in _SUMS:
            words = ((words & mask) * factor) >> shift
        return dict(zip(keys.integers, words.T.astype(np.int64), strict=False))

    def _texts(
        self, places: Integers, lengths: Integers, allowed: bytes = _DIGITS
    ) -> tuple[npt.NDArray[np.int32], Bytes]:
        """Values column by column as one text; ValueError for a byte that is not allowed."""
        starts, sizes = places.ravel("F"), lengths.ravel("F")
        ends = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=ends[1:])
        where = np.repeat(starts - ends[:-1], sizes)
        where += np.arange(ends[-1])
        text = self._lines.bytes[where]
        if text.tobytes().translate(None, allowed):
            raise ValueError("a byte that no number has")
        return ends, text

    def _numbers(
        self, places: Integers, lengths: Integers, kind: pa.DataType, allowed: bytes
    ) -> npt.NDArray[Any]:
        """The numbers of each column; ValueError where one is none."""
        ends, text = self._texts(places, lengths, allowed)
        if not len(text):
            return np.empty((places.shape[1], 0))
        begin = text[ends[:-1]]
        odd = np.flatnonzero((begin < _ZERO) | (begin > _NINE))
        if len(odd):  # a minus, behind which must be a digit
            behind = text[np.minimum(ends[odd] + 1, len(text) - 1)]
            right = (begin[odd] == _MINUS) & (behind >= _ZERO) & (behind <= _NINE)
            if not (right & (np.diff(ends)[odd] > 1)).all():
                raise ValueError("no number")
        texts = pa.Array.from_buffers(
            pa.string(), len(begin), [None, pa.py_buffer(ends), pa.py_buffer(text)]
        )
        values = texts.cast(kind).to_numpy()
        if kind == pa.float64() and not np.isfinite(values).all():
            raise ValueError("too large a number")
        return cast(npt.NDArray[Any], values.reshape(places.shape[1], -1))

    def _sequences(
        self, buffer: bytes, start: int, found: dict[str, npt.NDArray[Any]], frame: Bytes
    ) -> list[tuple[bytes, Integers]]:
        """The residues of both sequences and how many of each; the rest of the checks."""
        result = []
        right = np.ones(self.count, np.bool_)
        for which, first, behind in (
            ("query", self.query + 1 + self._keys.query, self.library),
            ("library", self.residues, self.consensus),
        ):
            text, widths = self._joined(buffer, start, first, behind)
            if text.translate(None, _RESIDUES):
                raise ValueError("no residue")
            result.append((text, widths))
            minus = np.frombuffer(text, np.uint8) == _MINUS
            gaps = np.add.reduceat(minus, np.cumsum(widths) - widths, dtype=np.int64)
            span = np.abs(found[f"{which}_stop"] - found[f"{which}_start"]) + 1
            right &= (widths == found["overlap"]) & (widths - gaps == span)
        if frame[0]:
            reverse = found["query_start"] > found["query_stop"]
            right &= (frame[: self.count] == _REVERSE) == reverse
        if self._layout.consensus:
            text, _ = self._joined(buffer, start, self.consensus + 1, self.codes)
            if text.translate(None, _CONSENSUS):
                raise ValueError("a consensus has no such character")
        if self._layout.codes:
            begins, ends = self._lines.begins(self.codes), self._lines.begins(self.behind)
            for begin, end in zip(begins + start, ends + start, strict=True):
                if not all(map(CODE_KEY.fullmatch, buffer[begin : end - 1].split(b"\n"))):
                    raise ValueError("no `al_code` line")
        self.keep(right)
        return result

    def _joined(
        self, buffer: bytes, start: int, first: Integers, behind: Integers
    ) -> tuple[bytes, Integers]:
        """Lines of each alignment, without their newlines, and how many bytes each has of them."""
        begins, ends = self._lines.begins(first), self._lines.begins(behind)
        pieces = [
            buffer[begin:end]
            for begin, end in zip((begins + start).tolist(), (ends + start).tolist(), strict=True)
        ]
        return b"".join(pieces).translate(None, b"\n"), (ends - begins) - (behind - first)

    def _append(
        self,
        buffer: bytes,
        start: int,
        columns: Columns,
        hit: bytes | None,
        opens: Flags,
        frame: Bytes,
        found: dict[str, npt.NDArray[Any]],
        sequences: list[tuple[bytes, Integers]],
    ) -> bytes | None:
        count, row = self.count, columns.rows
        rows = slice(row, row + count)
        for i, name in enumerate(INTEGERS):
            columns.integers[i, rows] = found[name][:count] if name in found else NO_INTEGER
        for i, name in enumerate(FLOATS):
            columns.floats[i, rows] = found[name][:count] if name in found else np.nan
        columns.frame[rows] = frame[:count]
        columns.opens[rows] = opens[:count]
        for column, (text, widths) in zip(columns.texts, sequences, strict=False):
            column.append(row, text[: int(widths[:count].sum())], widths[:count])
        begins = (self._lines.starts[self.hit] + start + 2).tolist()
        ends = (self._lines.ends[self.hit] + start).tolist()
        found_lines = [buffer[begin:end] for begin, end in zip(begins, ends, strict=True)]
        for i in np.flatnonzero(~opens[:count]).tolist():
            previous = found_lines[i - 1] if i else hit
            assert previous is not None
            found_lines[i] = previous
        hits = list(map(packed_hit, found_lines))
        hit = found_lines[-1]
        columns.append_hits(row, hits)
        columns.rows += count
        return hit


def _pass_blanks(lines: _Lines, places: Integers) -> None:
    """Moves places in a two-dimensional array behind blanks, of which there is mostly one."""
    places += lines.at(places) == _BLANK
    rows, columns = np.nonzero(lines.at(places) == _BLANK)
    while len(rows):
        places[rows, columns] += 1
        still = lines.at(places[rows, columns]) == _BLANK
        rows, columns = rows[still], columns[still]


def _mark(buffer: bytes, start: int, end: int) -> int | None:
    """The first line that starts with `>>>`, or None; `bytes.find` looks at each byte."""
    for first in range(start, end, _PIECE):
        size = min(_PIECE + 2, end - first)
        places = np.flatnonzero(np.frombuffer(buffer, np.uint8, size, first) == _MARK) + first
        for place in places[:-2][places[2:] - places[:-2] == 2].tolist():
            if buffer[place - 1] == _NEWLINE:
                return int(place)
    return None


def take(
    buffer: bytes, start: int, end: int, layout: Layout, columns: Columns, hit: bytes | None
) -> tuple[int, bytes | None, bool]:
    """Appends the alignments from buffer position `start` on, of those that are whole before `end`.

    Returns the position behind them, the last hit's line (without its `>>`), and whether there it
    met an alignment that failed a check; `hit` is that which a leading `>--` continues.
    """
    mark = _mark(buffer, start + 1, end)
    if mark is not None:
        behind = buffer.find(b"\n", mark)
        end = len(buffer) if behind < 0 else behind + 1
    lines = _Lines(buffer, start, end)
    empty = np.flatnonzero(lines.starts == lines.ends)
    if len(empty):
        lines.cut(int(empty[0]))
    if not len(lines.starts):
        return start, hit, False
    window = _Window(lines, layout, last=len(empty) > 0, most=columns.room)
    if window.count:
        try:
            hit = window.read(buffer, start, columns, hit)
        except (ValueError, pa.ArrowException):
            return start, hit, True
    if window.count:
        start += int(lines.begins(window.behind[-1:])[0])
    return start, hit, window.failed
