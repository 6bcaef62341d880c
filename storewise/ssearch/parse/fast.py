"""The fast reader of alignments: one anchored regular expression over the bytes of a window.

The expression is made from the layout (key lines in order) of an alignment that the reference
reader has read. Where it does not match, or where a check fails, the alignment is left to the
reference reader, which reads it or says what is wrong; so the fast reader only has to be right
about the alignments that it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from storewise.ssearch.parse.grammar import FRAME, INTEGER, NUMBER, Layout
from storewise.ssearch.parse.lines import Lines

#: Any value: `_Memo` reads each different one once, and strictly.
_VALUE = rb"([^\n]++)\n"
_INTEGER = rb" [0-9]{1,18}\n"
#: One set with the newline in it is faster than lines in a group. An empty line would look like a
#: part of the sequence, so `take` never shows one to the expression.
_RESIDUES = rb"([A-Za-z*/\\\n-]++)(?<=\n)"
_CONSENSUS = rb"; al_cons:\n[^;>0-9A-Za-z]*+(?<=\n)"
_CODE = rb"; al_code[A-Za-z0-9_]*:[^\n]*+\n"

#: Bytes that one expression looks at. It shrinks where alignments fail a check (outputs made
#: without `-W 0` show residues around each), for what lies behind a failure is matched in vain.
#: The full one is small enough for what it makes to stay in the processor's cache.
_FULL_WINDOW = 1 << 18
_SMALL_WINDOW = 1 << 12
#: After a failure so many alignments at most, first one, then twice as many each time, are left to
#: the reference reader before the next try.
_LONGEST_REST = 256

_REMEMBERED = 100_000
#: A layout of more keys, which no program writes, would take longer to compile than to read.
_MOST_KEYS = 100
_Value = TypeVar("_Value")
#: 64-bit integers: enough for the 18 digits that `grammar.INTEGER` allows.
Integers = npt.NDArray[np.int64]


class _Memo(dict[bytes, _Value]):
    """Printed values that have been read: the same few thousand come again and again."""

    def __init__(self, shape: re.Pattern[bytes], make: Callable[[bytes], _Value]) -> None:
        super().__init__()
        self._shape = shape
        self._make = make

    def __missing__(self, printed: bytes) -> _Value:
        stripped = printed.strip()
        if not self._shape.fullmatch(stripped):
            raise ValueError(printed)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[printed] = value = self._make(stripped)
        return value


def _finite(printed: bytes) -> float:
    """A float; ValueError where it would be infinite, which the reference reader makes a null."""
    value = float(printed)
    if not isfinite(value):
        raise ValueError(printed)
    return value


@dataclass(slots=True)
class Columns:
    """The alignments of a window, field by field; `length` is |stop - start|.

    `layout` is that of them all. A score that the layout lacks is a column of None. `hits` are hit
    lines with their `>>`; `opens` says whether the alignment is its hit's first.
    """

    layout: Layout
    hits: list[bytes]
    opens: list[bool]
    frame: list[str | None]
    s_w: list[int | None]
    z: list[float | None]
    bits: list[float | None]
    expect: list[float | None]
    score: list[int | None]
    ident: list[float | None]
    sim: list[float | None]
    overlap: Integers
    query_start: Integers
    query_stop: Integers
    query_length: Integers
    query_sequence: list[bytes]
    library_start: Integers
    library_stop: Integers
    library_length: Integers
    library_sequence: list[bytes]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def new_hits(self) -> int:
        """How many hits begin here."""
        return sum(self.opens)

    def cut(self, count: int) -> None:
        """Keeps the first `count` alignments."""
        for name in self.__slots__[1:]:
            setattr(self, name, getattr(self, name)[:count])


@lru_cache(maxsize=64)
def _compile(layout: Layout, *, last: bool) -> tuple[re.Pattern[bytes], dict[str, int]]:
    """The expression for `layout` and the group (0-based) of each role in `findall`'s tuples.

    It matches one whole alignment, or else everything that is left, which is then the last group:
    so the matches of a window follow each other without gaps, and only the last can be no
    alignment. With `last` an alignment may end where the window ends: at an empty line.
    """
    parts = [rb"(?:(>>(?!>)[^\n]*+|>--)\n"]
    groups = {"hit": 0}

    def capture(role: str) -> None:
        groups[role] = len(groups)

    for key, role in layout.keys:
        parts.append(rb"; " + re.escape(key) + rb":")
        if role is None:
            parts.append(rb"[^\n]*+\n")
        else:
            capture(role)
            parts.append(_VALUE)
    for which, keys in (("query", layout.query), ("library", layout.library)):
        parts.append(rb">[^\n]*+(?<= \.\.)\n")
        for name in keys:
            if name.startswith(b"sq_type="):
                parts.append(rb"; sq_type: *" + re.escape(name[8:]) + rb"\n")
                continue
            parts.append(rb"; " + re.escape(name) + rb":")
            if name in (b"al_start", b"al_stop"):
                capture(f"{which}_{name[3:].decode()}")
                parts.append(_VALUE)
            else:
                parts.append(_INTEGER)
        capture(f"{which}_sequence")
        parts.append(_RESIDUES)
    if layout.consensus:
        parts.append(_CONSENSUS)
    parts.extend([_CODE] * layout.codes)
    parts.append(rb")(?=>|\Z)" if last else rb")(?=>)")
    parts.append(rb"|(?s:(.+))")
    return re.compile(b"".join(parts)), groups


class FastReader:
    """Takes runs of alignments from the buffer of `Lines`."""

    def __init__(self, *, patient: bool = False) -> None:
        """A reader that is not `patient` rests after alignments that it could not take."""
        self._patient = patient
        self._layout: Layout | None = None
        self._rest = 0
        self._next_rest = 1
        self._window = _FULL_WINDOW
        self._integers = _Memo(INTEGER, int)
        self._floats = _Memo(NUMBER, _finite)
        self._frames = _Memo(FRAME, bytes.decode)

    def learn(self, layout: Layout, size: int) -> None:
        """Told of each alignment (of `size` bytes) that the reference reader had to read."""
        if len(layout.keys) + layout.codes > _MOST_KEYS:
            return
        if layout != self._layout:
            self._layout = layout
            self._window = _FULL_WINDOW
            self._rest = 0
        elif 2 * size > self._window:
            self._window = min(4 * size, _FULL_WINDOW)

    def take(self, lines: Lines, hit: bytes | None) -> Columns | None:
        """The alignments from the current line on that match and pass every check, or None.

        `hit` is the hit line (without `>>`) that a leading `>--` continues. Moves `lines` behind
        the last one taken.
        """
        if self._layout is None:
            return None
        if self._rest and not self._patient:
            self._rest -= 1
            return None
        columns = self._try(lines, hit, self._layout)
        if columns is None:
            self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, _LONGEST_REST)
        else:
            self._next_rest = 1
        return columns

    def _try(self, lines: Lines, hit: bytes | None, layout: Layout) -> Columns | None:
        if 2 * (len(lines.buffer) - lines.position) < self._window:
            lines.fill()
        start = lines.position
        end = min(start + self._window, len(lines.buffer))
        empty = lines.empty_line(end)
        if empty is not None:
            end = empty
        pattern, groups = _compile(layout, last=empty is not None)
        matched = pattern.findall(lines.buffer, start, end)
        rest = 0
        if matched and matched[-1][-1]:
            rest = len(matched.pop()[-1])
        if not matched:
            return None
        columns = self._columns(list(zip(*matched, strict=True)), groups, hit, layout)
        wrong = None if columns is None else _first_wrong(columns)
        if columns is None or wrong == 0:
            self._window = _SMALL_WINDOW
            return None
        if wrong is None:
            self._window = min(self._window * 2, _FULL_WINDOW)
            stop = end - rest
        else:
            columns.cut(wrong)
            self._window = max(self._window // 4, _SMALL_WINDOW)
            matches = pattern.finditer(lines.buffer, start, end)
            stop = next(islice(matches, wrong, None)).start()
        lines.jump(stop)
        return columns

    def _columns(
        self,
        table: list[tuple[bytes, ...]],
        groups: dict[str, int],
        hit: bytes | None,
        layout: Layout,
    ) -> Columns | None:
        """Typed columns; None where a `>--` continues nothing or a value is not what it should."""
        count = len(table[0])
        hits = list(table[groups["hit"]])
        opens = [True] * count
        if b">--" in hits:
            last = None if hit is None else b">>" + hit
            for i, line in enumerate(hits):
                if line != b">--":
                    last = line
                    continue
                if last is None:
                    return None
                hits[i] = last
                opens[i] = False

        def numbers(role: str) -> Integers:
            values = map(integers.__getitem__, table[groups[role]])
            return np.fromiter(values, np.int64, count)

        def optional(role: str, memo: _Memo[_Value]) -> list[_Value | None]:
            if role not in groups:
                return [None] * count
            return list(map(memo.__getitem__, table[groups[role]]))

        def joined(role: str) -> list[bytes]:
            return [lines.replace(b"\n", b"") for lines in table[groups[role]]]

        integers, floats = self._integers, self._floats
        try:
            query_start = numbers("query_start")
            query_stop = numbers("query_stop")
            library_start = numbers("library_start")
            library_stop = numbers("library_stop")
            return Columns(
                layout=layout,
                hits=hits,
                opens=opens,
                frame=optional("frame", self._frames),
                s_w=optional("s_w", integers),
                z=optional("z", floats),
                bits=optional("bits", floats),
                expect=optional("expect", floats),
                score=optional("score", integers),
                ident=optional("ident", floats),
                sim=optional("sim", floats),
                overlap=numbers("overlap"),
                query_start=query_start,
                query_stop=query_stop,
                query_length=np.abs(query_stop - query_start),
                query_sequence=joined("query_sequence"),
                library_start=library_start,
                library_stop=library_stop,
                library_length=np.abs(library_stop - library_start),
                library_sequence=joined("library_sequence"),
            )
        except ValueError:
            return None


def _first_wrong(columns: Columns) -> int | None:
    """The first alignment that breaks an invariant of untranslated alignments, or None.

    The whole columns are compared at once.
    """
    count = len(columns)
    right = np.ones(count, np.bool_)
    for sequences, lengths in (
        (columns.query_sequence, columns.query_length),
        (columns.library_sequence, columns.library_length),
    ):
        widths = np.fromiter(map(len, sequences), np.int64, count)
        gaps = np.fromiter([sequence.count(b"-") for sequence in sequences], np.int64, count)
        right &= (widths == columns.overlap) & (widths - gaps == lengths + 1)
    if columns.frame[0] is not None:
        reverse = np.fromiter(map("r".__eq__, columns.frame), np.bool_, count)
        # Alignments of one column cannot show their direction; the reference reader knows.
        right &= reverse == (columns.query_start > columns.query_stop)
    return None if right.all() else int(right.argmin())
