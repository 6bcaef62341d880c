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
from operator import eq, gt, methodcaller, sub
from typing import Any

from storewise.ssearch.grammar import FLOAT_ROLES, INTEGER_ROLES, Layout
from storewise.ssearch.lines import Lines

_INTEGER = rb" *(-?[0-9]{1,18})\n"
_NUMBER = rb" *([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\n"
_FRAME = rb" *([fr0-9])\n"
_RESIDUES = rb"((?:[A-Za-z*/\\-]++\n)++)"
_CONSENSUS = rb"; al_cons:\n(?:[^\n;>0-9A-Za-z]++\n)*+"
_CODE = rb"; al_code[A-Za-z0-9_]*:[^\n]*+\n"

#: Bytes that one expression looks at. It shrinks where alignments fail a check (outputs made
#: without `-W 0` show residues around each), for what lies behind a failure is matched in vain.
_FULL_WINDOW = 1 << 20
_SMALL_WINDOW = 1 << 12

_without_newlines = methodcaller("replace", b"\n", b"")
_gaps = methodcaller("count", b"-")
_next_integer: Callable[[int], int] = (1).__add__


@dataclass(slots=True)
class Columns:
    """The alignments of a window, field by field; `length` is |stop - start|.

    A score that the layout lacks is a column of None. `hits` are hit lines without their `>>`;
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
def _compile(layout: Layout) -> tuple[re.Pattern[bytes], dict[str, int]]:
    """The expression for `layout` and the group (0-based) of each role in `findall`'s tuples.

    It matches one whole alignment, or else everything that is left: so the matches of a window
    follow each other without gaps, and only the last can be no alignment.
    """
    parts = [rb"((>>(?!>)[^\n]*+|>--)\n"]
    groups = {"block": 0, "hit": 1}

    def capture(role: str) -> None:
        groups[role] = len(groups)

    for key, role in layout.keys:
        parts.append(rb"; " + re.escape(key) + rb":")
        if role is None:
            parts.append(rb"[^\n]*+\n")
            continue
        capture(role)
        parts.append(_FRAME if role == "frame" else _INTEGER if role in INTEGER_ROLES else _NUMBER)
    for which, keys in (("query", layout.query), ("library", layout.library)):
        parts.append(rb">[^\n]*+(?<= \.\.)\n")
        for name in keys:
            if name.startswith(b"sq_type="):
                parts.append(rb"; sq_type: *" + re.escape(name[8:]) + rb"\n")
                continue
            parts.append(rb"; " + re.escape(name) + rb":")
            if name in (b"al_start", b"al_stop"):
                capture(f"{which}_{name[3:].decode()}")
                parts.append(_INTEGER)
            else:
                parts.append(_INTEGER.replace(b"(", b"(?:"))
        capture(f"{which}_sequence")
        parts.append(_RESIDUES)
    if layout.consensus:
        parts.append(_CONSENSUS)
    parts.extend([_CODE] * layout.codes)
    parts.append(rb")(?=[>\n])|(?s:.+)")
    return re.compile(b"".join(parts)), groups


class FastReader:
    """Takes runs of alignments from the buffer of `Lines`."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._window = _FULL_WINDOW

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
        pattern, groups = _compile(self._layout)
        start = lines.position
        found = pattern.findall(lines.buffer, start, start + self._window)
        if found and not found[-1][0]:
            found.pop()
        if not found:
            return None
        table = list(zip(*found, strict=True))
        columns = _columns(table, groups, hit)
        wrong = None if columns is None else _first_wrong(columns)
        if columns is None or wrong == 0:
            self._window = _SMALL_WINDOW
            return None
        if wrong is not None:
            columns.cut(wrong)
            self._window = max(self._window // 4, _SMALL_WINDOW)
        else:
            self._window = min(self._window * 2, _FULL_WINDOW)
        size = sum(map(len, table[0][:wrong]))
        lines.jump(start + size, lines.buffer.count(b"\n", start, start + size))
        return columns


def _columns(
    table: list[tuple[bytes, ...]], groups: dict[str, int], hit: bytes | None
) -> Columns | None:
    """Typed columns, or None where a `>--` continues nothing."""
    count = len(table[0])
    hits: list[bytes] = [line[2:] for line in table[1]]
    opens = [True] * count
    if b">--" in table[1]:
        for i, line in enumerate(table[1]):
            if line == b">--":
                if hit is None:
                    return None
                hits[i] = hit
                opens[i] = False
            hit = hits[i]

    def convert(role: str, make: Callable[[bytes], Any]) -> list[Any]:
        group = groups.get(role)
        return [None] * count if group is None else list(map(make, table[group]))

    values: dict[str, list[Any]] = {"frame": convert("frame", _ascii)}
    for role in INTEGER_ROLES:
        values[role] = convert(role, int)
    for role in FLOAT_ROLES:
        values[role] = convert(role, float)
    for which in ("query", "library"):
        starts = convert(f"{which}_start", int)
        stops = convert(f"{which}_stop", int)
        values[f"{which}_start"] = starts
        values[f"{which}_stop"] = stops
        values[f"{which}_length"] = list(map(abs, map(sub, stops, starts)))
        values[f"{which}_sequence"] = convert(f"{which}_sequence", _without_newlines)
    return Columns(hits=hits, opens=opens, **values)


def _ascii(data: bytes) -> str:
    return data.decode("ascii")


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
        letters = list(map(sub, overlap, map(_gaps, sequences)))
        spans = list(map(_next_integer, lengths))
        if letters != spans:
            wrong.append(list(map(eq, letters, spans)).index(False))
    turned = list(map(gt, columns.query_start, columns.query_stop))
    for i, (frame, back) in enumerate(zip(columns.frame, turned, strict=True)):
        # One column long alignments cannot show their direction; they go to the reference too.
        if (frame == "r") != back and frame in ("f", "r"):
            wrong.append(i)
            break
    return min(wrong, default=None)
