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
from storewise.ssearch.parse.grammar import CODE_KEY, Layout, key_lines

Flags = npt.NDArray[np.bool_]
_FIELDS = frozenset((*INTEGERS, *FLOATS, "frame"))
_NEWLINE, _BLANK, _MARK, _SEMICOLON, _MINUS, _ZERO, _NINE, _FORWARD, _REVERSE = b"\n >;-09fr"
_RESIDUES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz*/\\-"
_NOT_CONSENSUS = b";>0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: With the newlines between its lines.
_CONSENSUS = bytes(set(range(256)) - set(_NOT_CONSENSUS))
_DIGITS = b"0123456789"
#: How the line of a search begins.
_SEARCH = b">>>"
_SIGNED = _DIGITS + b"-"
_REAL = _SIGNED + b"+.eE"
#: The reference reader takes longer ones.
_MAX_INTEGER_BYTES = 18
_MAX_FLOAT_BYTES = 24
#: Of `> ..`, without what is between.
_MIN_HEADER_BYTES = 3
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
#: The bytes of a word that a number of so many digits, at its end, leaves unused.
_UNUSED = np.array([(1 << 8 * (_WORD - size)) - 1 for size in range(_WORD + 1)], np.uint64)
#: Newlines after a window, so that one may look for a key from each line's start on.
_BEHIND = 256


class _Keys(NamedTuple):
    """The key lines of an alignment: those of the scores, the query and the library sequence.

    `words` are how the lines begin, eight bytes after the other, of which only the bits of `masks`
    count: a row of words for each line. `sizes` is where a line's value starts, `longest` how long
    it may be; both have one column.
    """

    words: npt.NDArray[np.uint64]
    masks: npt.NDArray[np.uint64]
    sizes: Integers
    longest: Integers
    roles: dict[str, int]
    """Lines of the fields."""
    integers: list[str]
    reals: list[str]
    wanted: list[int]
    """Lines of the integers, then of numbers that nobody needs."""
    filled: list[int]
    """Lines that must have a value."""
    exact: list[int]
    """Lines without a value."""


@lru_cache(maxsize=64)
def _keys(layout: Layout) -> _Keys:
    lines = [line for part in key_lines(layout) for line in part]
    starts = [start for start, _ in lines]
    roles = {role: i for i, (_, role) in enumerate(lines) if role in _FIELDS}
    numbers, exact = (
        [i for i, (_, role) in enumerate(lines) if role == check] for check in ("number", "exact")
    )
    longest = np.full((len(starts), 1), np.iinfo(np.int64).max)
    for role, row in roles.items():
        longest[row] = _MAX_FLOAT_BYTES if role in FLOATS else _MAX_INTEGER_BYTES
    longest[numbers] = _MAX_INTEGER_BYTES
    integers = [name for name in INTEGERS if name in roles]
    width = -(-max(map(len, starts)) // _WORD) * _WORD
    words = b"".join(start.ljust(width, b"\0") for start in starts)
    masks = b"".join((b"\xff" * len(start)).ljust(width, b"\0") for start in starts)
    return _Keys(
        words=np.frombuffer(words, "<u8").reshape(len(starts), -1),
        masks=np.frombuffer(masks, "<u8").reshape(len(starts), -1),
        sizes=np.array([[len(start)] for start in starts]),
        longest=longest,
        roles=roles,
        integers=integers,
        reals=[name for name in FLOATS if name in roles],
        wanted=[*(roles[name] for name in integers), *numbers],
        filled=[*(row for name, row in roles.items() if name != "frame"), *numbers],
        exact=exact,
    )


class _Lines:
    """The lines of a window: where each starts and ends (at its newline).

    A window ends after the next line that starts with `>>>`; its lines, before the first empty
    one (`cut`: whether there is one). `starts` has one more: where the last
    line ends.
    """

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        self.ends, size = _newlines(buffer, start, end)
        self._padded = np.full(size + _BEHIND, _NEWLINE, np.uint8)
        self._padded[:size] = np.frombuffer(buffer, np.uint8, size, start)
        self.bytes: Bytes = self._padded[:size]
        self.starts = np.zeros(len(self.ends) + 1, np.int64)
        np.add(self.ends, 1, out=self.starts[1:])
        empty = np.flatnonzero(self.starts[:-1] == self.ends)
        self.cut = len(empty) > 0
        if self.cut:
            self.ends, self.starts = self.ends[: empty[0]], self.starts[: empty[0] + 1]
        self.first = self.bytes.take(self.starts[:-1])

    def words(self, places: Integers, count: int) -> npt.NDArray[np.uint64]:
        """The bytes from each place on as `count` numbers of eight bytes, in a last axis; after
        the window are newlines."""
        size = _WORD * count
        # Elements of many bytes take numpy no longer than those of eight.
        strings = np.ndarray((len(self._padded) - size,), f"V{size}", self._padded, strides=(1,))
        return strings[places].view("<u8").reshape(*places.shape, count)

    def word(self, places: Integers) -> npt.NDArray[np.uint64]:
        """The eight bytes from each place on."""
        return self.words(places, 1)[..., 0]

    def begin(self, places: Integers, text: bytes) -> Flags:
        """A mask of the places that begin with `text`, of at most eight bytes."""
        mask = np.uint64((1 << 8 * len(text)) - 1)
        return cast(Flags, self.word(places) & mask == int.from_bytes(text, "little"))

    def at(self, places: Integers) -> Bytes:
        """The bytes at places; those after the window are newlines."""
        return self._padded[places]

    def text(self, first: Integers, behind: Integers) -> tuple[bytes, Integers]:
        """Lines from those of numbers `first` to those before `behind`, one alignment after the
        other, and how many bytes each has without its newlines."""
        begins, ends = self.starts[first], self.starts[behind]
        # Every other piece, of what is between them too.
        edges = np.empty(2 * len(begins) + 1, np.int32)
        edges[:-1:2], edges[1::2], edges[-1] = begins, ends, ends[-1]
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self._padded)]
        pieces = pa.Array.from_buffers(pa.binary(), 2 * len(begins), buffers)
        text = pieces.take(pa.array(np.arange(0, 2 * len(begins), 2))).buffers()[2]
        widths = ends - begins
        return text.slice(0, int(widths.sum())).to_pybytes(), widths - (behind - first)


class _Window:
    """The alignments of a window that have the layout: the first `count`, fewer with each check."""

    def __init__(self, lines: _Lines, layout: Layout, *, last: bool, room: int) -> None:
        self._lines = lines
        self._layout = layout
        self._keys = _keys(layout)
        marks = np.flatnonzero(lines.first == _MARK)
        count = len(marks) // 3
        if count and 3 * count == len(marks) and not last:
            count -= 1  # what follows it is not in the window
        self.hit, self.query, self.library = (marks[i : 3 * count : 3] for i in range(3))
        self.behind = np.append(marks[3 : 3 * count + 1 : 3], [len(lines.ends)])[:count]
        self.codes = self.behind - layout.codes
        self.residues = self.library + 1 + len(layout.library)
        self.consensus = self.codes
        if layout.consensus:
            semicolons = np.flatnonzero(lines.first == _SEMICOLON)
            found = np.searchsorted(semicolons, self.residues)
            # Of an alignment that has lost its end even the residues are after the last line.
            self.consensus = np.append(semicolons, [len(lines.ends)])[found]
        self.count = count
        self.failed = False
        self.keep(
            (self.query == self.hit + 1 + len(layout.keys))
            & (self.library > self.query + 1 + len(layout.query))
            & (self.consensus > self.residues)
            & (self.codes >= self.consensus + layout.consensus)
        )
        if self.count > room:
            self.keep(np.arange(self.count) < room)
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
        begins, ends = self._key_lines()
        wrong = np.zeros(self.count, np.uint64)
        read = lines.words(begins, keys.words.shape[1])
        for i in range(keys.words.shape[1]):
            differ = read[:, :, i] ^ keys.words[:, i, None]
            differ &= keys.masks[:, i, None]
            wrong |= np.bitwise_or.reduce(differ, axis=0)
        right &= wrong == 0
        values = begins
        values += keys.sizes
        right &= (values[keys.exact] == ends[keys.exact]).all(axis=0)
        values[keys.exact] = ends[keys.exact]
        for header in (self.query, self.library):
            stop = lines.ends[header]
            right &= stop - lines.starts[header] > _MIN_HEADER_BYTES
            right &= lines.begin(stop - 3, b" ..\n")
        if layout.consensus:
            place = lines.starts[self.consensus]
            right &= lines.begin(place, b"; al_con") & lines.begin(place + 8, b"s:\n")
        _pass_blanks(lines, values)
        lengths = ends - values
        right &= (lengths <= keys.longest).all(axis=0)
        right &= (lengths[keys.filled] > 0).all(axis=0)
        frame: Bytes = np.zeros(self.count, np.uint8)
        if "frame" in keys.roles:
            row = keys.roles["frame"]
            frame = lines.at(values[row])
            right &= (lengths[row] == 1) & ((frame == _FORWARD) | (frame == _REVERSE))
        self.keep(right)
        if not self.count:
            return hit
        values, lengths = values[:, : self.count], lengths[:, : self.count]
        found = self._integers(values, lengths)
        reals = [keys.roles[name] for name in keys.reals]
        read = self._numbers(values[reals], lengths[reals], pa.float64(), _REAL)
        found.update(zip(keys.reals, read, strict=True))
        sequences = self._sequences(buffer, start, found, frame)
        if self.count:
            hit = self._append(buffer, start, columns, hit, opens, frame, found, sequences)
        return hit

    def _key_lines(self) -> tuple[Integers, Integers]:
        """Starts and ends of the key lines: a row of each key, a column of each alignment."""
        layout = self._layout
        begins = np.empty((len(self._keys.sizes), self.count), np.int64)
        ends = np.empty_like(begins)
        row = 0
        for header, count in (
            (self.hit, len(layout.keys)),
            (self.query, len(layout.query)),
            (self.library, len(layout.library)),
        ):
            stops = self._lines.ends.take(header + np.arange(count + 1)[:, None])
            np.add(stops[:-1], 1, out=begins[row : row + count])
            ends[row : row + count] = stops[1:]
            row += count
        return begins, ends

    def _integers(self, values: Integers, lengths: Integers) -> dict[str, npt.NDArray[Any]]:
        """The values as integers; those of unused keys are only validated.

        Raises ValueError if a value is not an integer.

        Eight digits at once: they are added in pairs, the pairs in pairs, and so on (D. Lemire,
        "Quickly parsing eight digits", 2018).
        """
        keys = self._keys
        ends, sizes = (values + lengths)[keys.wanted], lengths[keys.wanted]
        if sizes.max() <= _WORD and ends[:, 0].min() >= _WORD:
            words = self._lines.word(ends - _WORD)
            unused = _UNUSED.take(sizes)
            words &= ~unused
            words |= unused & _ZEROS
            if not (((words + _TO_SIGN) | (words - _ZEROS)) & _SIGNS).any():
                words = words[: len(keys.integers)]
                for mask, factor, shift in _SUMS:
                    words = ((words & mask) * factor) >> shift
                return dict(zip(keys.integers, words.astype(np.int64), strict=True))
        # One has a sign, or more digits, or is none.
        known = len(keys.integers)
        self._texts(values[keys.wanted[known:]], lengths[keys.wanted[known:]], _DIGITS)
        rows = keys.wanted[:known]
        read = self._numbers(values[rows], lengths[rows], pa.int64(), _SIGNED)
        return dict(zip(keys.integers, read, strict=True))

    def _texts(
        self, places: Integers, lengths: Integers, allowed: bytes
    ) -> tuple[npt.NDArray[np.int32], Bytes]:
        """Values row by row as one text; ValueError for a byte that is not allowed."""
        starts, sizes = places.ravel(), lengths.ravel()
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
        """The numbers of each row; ValueError if one is not a number."""
        ends, text = self._texts(places, lengths, allowed)
        if not len(text):
            return np.empty(places.shape)
        begin = text[ends[:-1]]
        odd = np.flatnonzero((begin < _ZERO) | (begin > _NINE))
        if len(odd):  # a minus, after which must be a digit
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
        return cast(npt.NDArray[Any], values.reshape(places.shape))

    def _sequences(
        self, buffer: bytes, start: int, found: dict[str, npt.NDArray[Any]], frame: Bytes
    ) -> list[tuple[bytes, Integers]]:
        """The residues of both sequences and how many of each; the rest of the checks."""
        result = []
        right = np.ones(self.count, np.bool_)
        for which, first, behind in (
            ("query", self.query + 1 + len(self._layout.query), self.library),
            ("library", self.residues, self.consensus),
        ):
            text, widths = self._lines.text(first, behind)
            text = text.translate(None, b"\n")
            if text.translate(None, _RESIDUES):
                raise ValueError("no residue")
            result.append((text, widths))
            minus = np.flatnonzero(np.frombuffer(text, np.uint8) == _MINUS)
            ends = np.cumsum(widths)
            gaps = np.searchsorted(minus, ends) - np.searchsorted(minus, ends - widths)
            span = np.abs(found[f"{which}_stop"] - found[f"{which}_start"]) + 1
            right &= (widths == found["overlap"]) & (widths - gaps == span)
        if frame[0]:
            reverse = found["query_start"] > found["query_stop"]
            right &= (frame[: self.count] == _REVERSE) == reverse
        if self._layout.consensus:
            text, _ = self._lines.text(self.consensus + 1, self.codes)
            if text.translate(None, _CONSENSUS):
                raise ValueError("a consensus has no such character")
        if self._layout.codes:
            begins, ends = self._lines.starts[self.codes], self._lines.starts[self.behind]
            for begin, end in zip(begins + start, ends + start, strict=True):
                if not all(map(CODE_KEY.fullmatch, buffer[begin : end - 1].split(b"\n"))):
                    raise ValueError("no `al_code` line")
        self.keep(right)
        return result

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
    """Moves places past blanks, of which there is mostly one; `places` is contiguous."""
    flat = places.reshape(-1)
    flat += lines.at(flat) == _BLANK
    still = np.flatnonzero(lines.at(flat) == _BLANK)
    while len(still):
        flat[still] += 1
        still = still[lines.at(flat[still]) == _BLANK]


def _newlines(buffer: bytes, start: int, end: int) -> tuple[Integers, int]:
    """Positions of the window's newlines, from its start on, and its size."""
    window = np.frombuffer(buffer, np.uint8, end - start, start)
    found: list[Integers] = []
    for first in range(0, len(window), _PIECE):
        ends = np.flatnonzero(window[first : first + _PIECE] == _NEWLINE)
        ends += first
        marks = ends[: np.searchsorted(ends, len(window) - len(_SEARCH))]
        for i in range(1, len(_SEARCH) + 1):
            marks = marks[window.take(marks + i) == _MARK]
        if len(marks):
            mark = int(marks[0])
            behind = buffer.find(b"\n", start + mark + 1) + 1 or len(buffer)
            ends = ends[: np.searchsorted(ends, mark + 1)]
            if buffer[behind - 1] == _NEWLINE:
                ends = np.append(ends, behind - 1 - start)
            return np.concatenate([*found, ends]), behind - start
        found.append(ends)
    return np.concatenate(found) if found else np.empty(0, np.int64), len(window)


def take(
    buffer: bytes, start: int, end: int, layout: Layout, columns: Columns, hit: bytes | None
) -> tuple[int, bytes | None, bool]:
    """Appends the alignments from buffer position `start` on, of those that are whole before `end`.

    Returns the position after them, the last hit's line (without its `>>`), and whether there it
    met an alignment that failed a check; `hit` is that which a leading `>--` continues.
    """
    lines = _Lines(buffer, start, end)
    if not len(lines.ends):
        return start, hit, False
    window = _Window(lines, layout, last=lines.cut, room=columns.room)
    if window.count:
        try:
            hit = window.read(buffer, start, columns, hit)
        except (ValueError, pa.ArrowException):
            return start, hit, True
    if window.count:
        start += int(lines.starts[window.behind[-1]])
    return start, hit, window.failed
