"""Runs of alignments read by whole columns, without a compiled core.

The lines of a window are found at once, then looked at by their places in the layout: the keys by
eight bytes at a time, the numbers as one array of texts, the residues as one text. It takes the
alignments that have the layout and keep the invariants, up to the first that does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Ends,
    Integers,
    packed_hit,
)
from storewise.ssearch.parse.grammar import CODE_KEY, Layout

_NEWLINE, _BLANK, _MARK, _SEMICOLON, _MINUS, _ZERO, _NINE, _FORWARD, _REVERSE = b"\n >;-09fr"
_RESIDUES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*/\\-"
_NOT_CONSENSUS = b";>0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CONSENSUS = bytes(set(range(256)) - set(_NOT_CONSENSUS))
_DIGITS = b"0123456789"
#: The reference reader takes longer ones.
_LONGEST_INTEGER = 18
_LONGEST_FLOAT = 24
#: Of `> ..`, without what is between.
_LEAST_HEADER = 3
_WORD = 8


class _Key(NamedTuple):
    """A key line: its bytes up to the value, and what the value is: the field that it feeds,
    "number", "exact" for none, or None for anything."""

    start: bytes
    role: str | None


@lru_cache(maxsize=64)
def _blocks(layout: Layout) -> tuple[tuple[_Key, ...], tuple[_Key, ...], tuple[_Key, ...]]:
    scores = tuple(_Key(b"; " + key + b":", role) for key, role in layout.keys)
    sequences = []
    for which, names in (("query", layout.query), ("library", layout.library)):
        keys = []
        for name in names:
            if name.startswith(b"sq_type="):
                keys.append(_Key(b"; sq_type: " + name[8:], "exact"))
            elif name in (b"al_start", b"al_stop"):
                keys.append(_Key(b"; " + name + b":", f"{which}_{name[3:].decode()}"))
            else:
                keys.append(_Key(b"; " + name + b":", "number"))
        sequences.append(tuple(keys))
    return scores, sequences[0], sequences[1]


class _Lines:
    """The lines of a window: where each starts and ends (at its newline)."""

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        self.bytes: Bytes = np.frombuffer(buffer, np.uint8, end - start, start)
        self.ends = np.flatnonzero(self.bytes == _NEWLINE)
        self.starts = np.empty_like(self.ends)
        if len(self.ends):
            self.starts[0] = 0
            self.starts[1:] = self.ends[:-1] + 1
        self.first = self.bytes[self.starts]
        # Eight bytes from any place on, as one number; behind the window there is none.
        self._padded = np.concatenate([self.bytes, np.full(_WORD, _NEWLINE, np.uint8)])
        self._words = np.ndarray((len(self.bytes) + 1,), "<u8", self._padded, strides=(1,))

    def begin(self, places: Integers, text: bytes) -> Any:
        """Which of the places begin with `text`."""
        right: Any = True
        for at in range(0, len(text), _WORD):
            piece = text[at : at + _WORD]
            if len(piece) < _WORD and at:
                at -= _WORD - len(piece)
                piece = text[-_WORD:]
            wanted = int.from_bytes(piece, "little")
            words = self._words[np.minimum(places + at, len(self.bytes))]
            if len(piece) < _WORD:
                words = words & np.uint64((1 << 8 * len(piece)) - 1)
            right = right & (words == np.uint64(wanted))
        return right

    def at(self, places: Integers) -> Bytes:
        """The bytes at places; those behind the window are newlines."""
        return self._padded[np.minimum(places, len(self.bytes))]

    def begins(self, numbers: Integers) -> Integers:
        """Where the lines of these numbers start; one behind the last where that ends."""
        behind = numbers == len(self.starts)
        starts = self.starts[np.where(behind, 0, numbers)]
        return np.where(behind, self.ends[-1] + 1, starts)

    def cut(self, count: int) -> None:
        """Keeps the first `count` lines."""
        self.ends, self.starts, self.first = (
            self.ends[:count], self.starts[:count], self.first[:count]
        )  # fmt: skip


class _Places(NamedTuple):
    """Line numbers of each alignment's parts; `behind` is that of what follows it."""

    hit: Integers
    query: Integers
    library: Integers
    consensus: Integers
    codes: Integers
    behind: Integers


def _places(lines: _Lines, layout: Layout, *, last: bool) -> tuple[_Places, Any]:
    """Where the parts of each alignment are, and which alignments are as the layout says."""
    scores, query_keys, library_keys = _blocks(layout)
    marks = np.flatnonzero(lines.first == _MARK)
    count = len(marks) // 3
    if count and 3 * count == len(marks) and not last:
        count -= 1  # what follows it is not in the window
    hit, query, library = (marks[i : 3 * count : 3] for i in range(3))
    behind = np.append(marks[3 : 3 * count + 1 : 3], [len(lines.starts)])[:count]
    right = (query == hit + 1 + len(scores)) & (library > query + 1 + len(query_keys))
    residues = library + 1 + len(library_keys)
    codes = behind - layout.codes
    consensus = codes
    if layout.consensus:
        semicolons = np.append(np.flatnonzero(lines.first == _SEMICOLON), [len(lines.starts)])
        consensus = semicolons[np.searchsorted(semicolons, residues)]
    right &= (consensus > residues) & (codes >= consensus + layout.consensus)
    return _Places(hit, query, library, consensus, codes, behind), right


def _at(lines: _Lines, numbers: Integers) -> Integers:
    """Where lines start; that behind the last is the window's end."""
    starts = np.append(lines.starts, [lines.ends[-1] + 1])
    return cast(Integers, starts[np.minimum(numbers, len(lines.starts))])


class _Values:
    """The values of key lines, gathered to be read at once: of each line one value a row."""

    def __init__(self, lines: _Lines, allowed: bytes, longest: int) -> None:
        self._lines = lines
        self._allowed = allowed
        self._longest = longest
        self._starts: list[Integers] = []
        self._lengths: list[Integers] = []

    def add(self, places: Integers, ends: Integers) -> Any:
        """The values between places and ends, behind blanks; which are of usual length."""
        blank = self._lines.at(places) == _BLANK
        while blank.any():
            places = places + blank
            blank = self._lines.at(places) == _BLANK
        lengths = ends - places
        self._starts.append(places)
        self._lengths.append(lengths)
        return (lengths > 0) & (lengths <= self._longest)

    def gather(self, rows: int) -> tuple[Ends, Bytes]:
        """The values of the first `rows` rows as one text; ValueError for a byte not allowed."""
        starts = np.concatenate([s[:rows] for s in self._starts])
        lengths = np.concatenate([n[:rows] for n in self._lengths])
        ends = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=ends[1:])
        places = np.repeat(starts - ends[:-1], lengths)
        places += np.arange(ends[-1])
        data = self._lines.bytes[places]
        if data.tobytes().translate(None, self._allowed):
            raise ValueError("a byte that no number has")
        return ends, data

    def read(self, rows: int, kind: pa.DataType) -> npt.NDArray[Any]:
        """Numbers, a row for each line that was added; ValueError where one is none."""
        ends, data = self.gather(rows)
        begin = data[ends[:-1]]
        odd = (begin < _ZERO) | (begin > _NINE)
        if odd.any():  # a sign, behind which must be a digit
            behind = data[ends[:-1][odd] + 1] if np.diff(ends)[odd].min() > 1 else begin[odd]
            if not ((begin[odd] == _MINUS) & (behind >= _ZERO) & (behind <= _NINE)).all():
                raise ValueError("no number")
        texts = pa.Array.from_buffers(
            pa.string(), len(begin), [None, pa.py_buffer(ends), pa.py_buffer(data)]
        )
        values = texts.cast(kind).to_numpy()
        if kind == pa.float64() and not np.isfinite(values).all():
            raise ValueError("too large a number")
        return cast(npt.NDArray[Any], values.reshape(len(self._starts), rows))


class _Window:
    """The alignments of a window that have the layout; `count` of them, fewer with each check."""

    def __init__(self, lines: _Lines, layout: Layout, *, last: bool, most: int) -> None:
        self._lines = lines
        self._layout = layout
        self._scores, self._query, self._library = _blocks(layout)
        marks = np.flatnonzero(lines.first == _MARK)
        count = len(marks) // 3
        if count and 3 * count == len(marks) and not last:
            count -= 1  # what follows it is not in the window
        self.hit, self.query, self.library = (marks[i : 3 * count : 3] for i in range(3))
        self.behind = np.append(marks[3 : 3 * count + 1 : 3], [len(lines.starts)])[:count]
        self.codes = self.behind - layout.codes
        self.residues = self.library + 1 + len(self._library)
        self.consensus = self.codes
        if layout.consensus:
            semicolons = np.flatnonzero(lines.first == _SEMICOLON)
            semicolons = np.append(semicolons, [len(lines.starts)])
            self.consensus = semicolons[np.searchsorted(semicolons, self.residues)]
        self.count = min(count, most)
        self.keep(
            (self.query == self.hit + 1 + len(self._scores))
            & (self.library > self.query + 1 + len(self._query))
            & (self.consensus > self.residues)
            & (self.codes >= self.consensus + layout.consensus)
        )

    def keep(self, right: npt.NDArray[np.bool_]) -> None:
        """Keeps the alignments before the first that is not right."""
        if not right.all():
            self.count = min(self.count, int(right.argmin()))
        for name in ("hit", "query", "library", "behind", "codes", "residues", "consensus"):
            setattr(self, name, getattr(self, name)[: self.count])

    def read(self, buffer: bytes, start: int, columns: Columns, hit: bytes | None) -> bytes | None:
        """Appends the alignments, of which there are some; returns the last hit's line.

        ValueError where a value is none; nothing is appended then.
        """
        lines, layout = self._lines, self._layout
        at = lines.starts[self.hit]
        opens = lines.begin(at, b">>")
        right = np.where(opens, lines.at(at + 2) != _MARK, lines.begin(at, b">--\n"))
        if hit is None:
            right &= opens | (np.cumsum(opens) > 0)
        integers = _Values(lines, _DIGITS + b"-", _LONGEST_INTEGER)
        floats = _Values(lines, _DIGITS + b"+-.eE", _LONGEST_FLOAT)
        ignored = _Values(lines, _DIGITS, _LONGEST_INTEGER)
        names: dict[_Values, list[str]] = {integers: [], floats: []}
        frame = np.zeros(self.count, np.uint8)
        for first, keys in (
            (self.hit, self._scores), (self.query, self._query), (self.library, self._library)
        ):  # fmt: skip
            for i, key in enumerate(keys):
                begin, stop = lines.starts[first + 1 + i], lines.ends[first + 1 + i]
                right &= lines.begin(begin, key.start)
                value = begin + len(key.start)
                if key.role == "exact":
                    right &= value == stop
                elif key.role == "frame":
                    frame = lines.at(value + 1)
                    right &= (stop == value + 2) & (lines.at(value) == _BLANK)
                    right &= (frame == _FORWARD) | (frame == _REVERSE)
                elif key.role == "number":
                    right &= ignored.add(value, stop)
                elif key.role is not None:
                    values = floats if key.role in FLOATS else integers
                    right &= values.add(value, stop)
                    names[values].append(key.role)
        for first in (self.query, self.library):
            right &= (lines.ends[first] - lines.starts[first] > _LEAST_HEADER) & lines.begin(
                lines.ends[first] - 3, b" ..\n"
            )
        if layout.consensus:
            right &= lines.begin(lines.starts[self.consensus], b"; al_cons:\n")
        for i in range(layout.codes):
            right &= lines.begin(lines.starts[self.codes + i], b"; al_code")
        self.keep(right)
        if not self.count:
            return hit
        ignored.gather(self.count)
        numbers: dict[str, npt.NDArray[Any]] = {}
        for values, kind in ((integers, pa.int64()), (floats, pa.float64())):
            if names[values]:
                numbers.update(zip(names[values], values.read(self.count, kind), strict=True))
        texts = []
        right = np.ones(self.count, np.bool_)
        for which, first, behind in (
            ("query", self.query + 1 + len(self._query), self.library),
            ("library", self.residues, self.consensus),
        ):
            text, widths = self._joined(buffer, start, first, behind)
            if text.translate(None, _RESIDUES):
                raise ValueError("no residue")
            texts.append((text, widths))
            ends = np.cumsum(widths)
            gaps = np.add.reduceat(np.frombuffer(text, np.uint8) == _MINUS, ends - widths, dtype=int)
            span = np.abs(numbers[f"{which}_stop"] - numbers[f"{which}_start"]) + 1
            right &= (widths == numbers["overlap"]) & (widths - gaps == span)
        if frame[0]:
            reverse = numbers["query_start"] > numbers["query_stop"]
            right &= (frame[: self.count] == _REVERSE) == reverse
        if layout.consensus:
            text, _ = self._joined(buffer, start, self.consensus + 1, self.codes)
            if text.translate(None, _CONSENSUS):
                raise ValueError("a consensus has no such character")
        if layout.codes:
            self._check_codes(buffer, start)
        self.keep(right)
        return self._append(buffer, start, columns, hit, opens, frame, numbers, texts)

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

    def _check_codes(self, buffer: bytes, start: int) -> None:
        begins, ends = self._lines.begins(self.codes) + start, self._lines.begins(self.behind) + start
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            for line in buffer[begin : end - 1].split(b"\n"):
                if not CODE_KEY.fullmatch(line):
                    raise ValueError(line)

    def _append(
        self,
        buffer: bytes,
        start: int,
        columns: Columns,
        hit: bytes | None,
        opens: npt.NDArray[np.bool_],
        frame: Bytes,
        numbers: Mapping[str, npt.NDArray[Any]],
        texts: Sequence[tuple[bytes, Integers]],
    ) -> bytes | None:
        count, row = self.count, columns.rows
        if not count:
            return hit
        stop = row + count
        for i, name in enumerate(INTEGERS):
            columns.integers[i, row:stop] = numbers[name][:count] if name in numbers else NO_INTEGER
        for i, name in enumerate(FLOATS):
            columns.floats[i, row:stop] = numbers[name][:count] if name in numbers else np.nan
        columns.frame[row:stop] = frame[:count]
        columns.opens[row:stop] = opens[:count]
        for column, (text, widths) in zip(columns.texts, texts, strict=False):
            widths = widths[:count]
            column.append(row, text[: int(widths.sum())], widths)
        begins = (self._lines.starts[self.hit] + start + 2).tolist()
        ends = (self._lines.ends[self.hit] + start).tolist()
        hits = []
        for begin, end, new in zip(begins, ends, opens[:count].tolist(), strict=True):
            if new:
                hit = buffer[begin:end]
            assert hit is not None
            hits.append(packed_hit(hit))
        columns.append_hits(row, hits)
        columns.rows = stop
        return hit


def take(
    buffer: bytes, start: int, end: int, layout: Layout, columns: Columns, hit: bytes | None
) -> tuple[int, bytes | None]:
    """Appends the alignments from buffer position `start` on, of those that are whole before `end`.

    Returns the position behind them, and the last hit's line (without its `>>`); `hit` is that
    which a leading `>--` continues.
    """
    lines = _Lines(buffer, start, end)
    empty = np.flatnonzero(lines.starts == lines.ends)
    if len(empty):
        lines.cut(int(empty[0]))
    if not len(lines.starts):
        return start, hit
    window = _Window(lines, layout, last=len(empty) > 0, most=columns.room)
    if not window.count:
        return start, hit
    try:
        hit = window.read(buffer, start, columns, hit)
    except (ValueError, pa.ArrowException):
        return start, hit
    if not window.count:
        return start, hit
    return start + int(lines.begins(window.behind[-1:])[0]), hit
