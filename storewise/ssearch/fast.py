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
from operator import eq, gt, sub
from typing import TypeVar

from storewise.ssearch.grammar import (
    FRAME,
    INTEGER,
    NUMBER,
    Layout,
)
from storewise.ssearch.lines import Lines

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
_FULL_WINDOW = 1 << 20
_SMALL_WINDOW = 1 << 12

_REMEMBERED = 100_000
_next_integer: Callable[[int], int] = (1).__add__
_Value = TypeVar("_Value")


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


@dataclass(slots=True)
class Columns:
    """The alignments of a window, field by field; `length` is |stop - start|.

    A score that the layout lacks is a column of None. `hits` are hit lines with their `>>`;
    `opens` says whether the alignment is its hit's first.
    """

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
    overlap: list[int]
    query_start: list[int]
    query_stop: list[int]
    query_length: list[int]
    query_sequence: list[bytes]
    library_start: list[int]
    library_stop: list[int]
    library_length: list[int]
    library_sequence: list[bytes]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def new_hits(self) -> int:
        """How many hits begin here."""
        return sum(self.opens)

    def cut(self, count: int) -> None:
        """Keeps the first `count` alignments."""
        for name in self.__slots__:
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

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._window = _FULL_WINDOW
        self._integers = _Memo(INTEGER, int)
        self._floats = _Memo(NUMBER, float)
        self._frames = _Memo(FRAME, bytes.decode)

    def learn(self, layout: Layout, size: int) -> None:
        """Told of each alignment (of `size` bytes) that the reference reader had to read."""
        if layout != self._layout:
            self._layout = layout
            self._window = _FULL_WINDOW
        elif 2 * size > self._window:
            self._window = min(4 * size, _FULL_WINDOW)

    def take(self, lines: Lines, hit: bytes | None) -> Columns | None:
        """The alignments from the current line on that match and pass every check, or None.

        `hit` is the hit line (without `>>`) that a leading `>--` continues. Moves `lines` behind
        the last one taken.
        """
        if self._layout is None:
            return None
        if 2 * (len(lines.buffer) - lines.position) < self._window:
            lines.fill()
        start = lines.position
        empty = lines.buffer.find(b"\n\n", start, start + self._window)
        end = start + self._window if empty < 0 else empty + 1
        pattern, groups = _compile(self._layout, last=empty >= 0)
        found = pattern.findall(lines.buffer, start, end)
        rest = 0
        if found and found[-1][-1]:
            rest = len(found.pop()[-1])
        if not found:
            return None
        columns = self._columns(list(zip(*found, strict=True)), groups, hit)
        wrong = None if columns is None else _first_wrong(columns)
        if columns is None or wrong == 0:
            self._window = _SMALL_WINDOW
            return None
        if wrong is None:
            self._window = min(self._window * 2, _FULL_WINDOW)
            stop = min(end, len(lines.buffer)) - rest
        else:
            columns.cut(wrong)
            self._window = max(self._window // 4, _SMALL_WINDOW)
            matches = pattern.finditer(lines.buffer, start, end)
            stop = next(islice(matches, wrong, None)).start()
        lines.jump(stop)
        return columns

    def _columns(
        self, table: list[tuple[bytes, ...]], groups: dict[str, int], hit: bytes | None
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

        def convert(role: str, memo: _Memo[_Value]) -> list[_Value]:
            return list(map(memo.__getitem__, table[groups[role]]))

        def optional(role: str, memo: _Memo[_Value]) -> list[_Value | None]:
            return [*convert(role, memo)] if role in groups else [None] * count

        def joined(role: str) -> list[bytes]:
            return [lines.replace(b"\n", b"") for lines in table[groups[role]]]

        integers, floats = self._integers, self._floats
        try:
            query_start = convert("query_start", integers)
            query_stop = convert("query_stop", integers)
            library_start = convert("library_start", integers)
            library_stop = convert("library_stop", integers)
            return Columns(
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
                overlap=convert("overlap", integers),
                query_start=query_start,
                query_stop=query_stop,
                query_length=list(map(abs, map(sub, query_stop, query_start))),
                query_sequence=joined("query_sequence"),
                library_start=library_start,
                library_stop=library_stop,
                library_length=list(map(abs, map(sub, library_stop, library_start))),
                library_sequence=joined("library_sequence"),
            )
        except ValueError:
            return None


def _first_wrong(columns: Columns) -> int | None:
    """The first alignment that breaks an invariant of untranslated alignments, or None.

    The whole columns are compared at once; only a difference is looked for one by one.
    """
    overlap = columns.overlap
    wrong: list[int] = []
    for sequences, lengths in (
        (columns.query_sequence, columns.query_length),
        (columns.library_sequence, columns.library_length),
    ):
        widths = list(map(len, sequences))
        if widths != overlap:
            wrong.append(list(map(eq, widths, overlap)).index(False))
        letters = list(map(sub, overlap, [sequence.count(b"-") for sequence in sequences]))
        spans = list(map(_next_integer, lengths))
        if letters != spans:
            wrong.append(list(map(eq, letters, spans)).index(False))
    if columns.frame[0] is not None:
        turned = list(map(gt, columns.query_start, columns.query_stop))
        reverse = list(map("r".__eq__, columns.frame))
        # Alignments of one column cannot show their direction; the reference reader knows.
        if turned != reverse:
            wrong.append(list(map(eq, turned, reverse)).index(False))
    return min(wrong, default=None)
