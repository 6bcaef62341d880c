"""The reference reader of one alignment: line by line, every rule spelled out.

It is the definition of the format for the fast reader, its fallback, and the only one that words
errors about alignments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from storewise.errors import InputError
from storewise.ssearch.parse.grammar import (
    CODE_KEY,
    CONSENSUS_KEY,
    CONSENSUS_LINE,
    FRAME,
    INTEGER,
    KEY_LINE,
    NEXT_ALIGNMENT,
    NOT_FINITE,
    NUMBER,
    ROLES,
    SEQUENCE_HEADER,
    SEQUENCE_KEY_LINE,
    SEQUENCE_LINE,
    Alignment,
    Layout,
    translated_side,
)
from storewise.ssearch.parse.lines import Lines, shown

_SEQUENCE_INTEGERS = ("al_start", "al_stop", "al_display_start", "sq_len")
_FRAME_SHIFTS = (b"/", b"\\")
_CODON = 3
_PROTEIN = b"p"
_NAMES = ("query", "library sequence")


@dataclass(slots=True)
class _Sequence:
    """One of the two sequences of an alignment, as displayed."""

    keys: list[bytes] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    type: bytes = b""
    displayed: bytes = b""

    @property
    def start(self) -> int:
        return self.values["al_start"]

    @property
    def stop(self) -> int:
        return self.values["al_stop"]


def _integer(lines: Lines, name: str, value: bytes) -> int:
    stripped = value.strip()
    if not INTEGER.fullmatch(stripped):
        raise lines.error("bad number", expected=f"an integer for {name}", found=shown(stripped))
    return int(stripped)


def _number(lines: Lines, name: str, value: bytes) -> float | None:
    """A finite number; None for one that the program could not compute, or no float can hold."""
    stripped = value.strip()
    if NOT_FINITE.fullmatch(stripped):
        return None
    if not NUMBER.fullmatch(stripped):
        raise lines.error("bad number", expected=f"a number for {name}", found=shown(stripped))
    number = float(stripped)
    return number if isfinite(number) else None


def _whole_line(lines: Lines, expected: str) -> bytes:
    """The current line, which must be there and end with a newline."""
    if lines.line is None or not lines.terminated:
        raise lines.unexpected(expected, "the file ends inside an alignment")
    return lines.line


def _line_behind(lines: Lines) -> bytes:
    """The current line, which may be the first after an alignment: that it has its newline is then
    not the alignment's matter."""
    if lines.line is not None and lines.line.startswith(b">"):
        return lines.line
    return _whole_line(lines, "what follows an alignment")


def _scores(lines: Lines) -> tuple[dict[str, object], list[tuple[bytes, str | None]]]:
    values: dict[str, object] = {}
    keys: list[tuple[bytes, str | None]] = []
    while (line := _whole_line(lines, "a '; key: value' line of the alignment")).startswith(b";"):
        match = KEY_LINE.fullmatch(line)
        if match is None:
            raise lines.unexpected("'; PREFIX_KEY: VALUE' such as '; sw_score: 123'")
        prefix, name, value = match.groups()
        key = prefix + b"_" + name
        role = ROLES.get(name)
        if role is not None and role in values:
            raise lines.unexpected("each key once in an alignment", "a key given twice")
        shown_key = key.decode("ascii")
        if role == "frame":
            frame = value.strip()
            if not FRAME.fullmatch(frame):
                raise lines.error("bad frame", expected="f or r", found=shown(frame))
            values[role] = frame.decode("ascii")
        elif role in ("s_w", "score", "overlap"):
            values[role] = number = _integer(lines, shown_key, value)
            if role == "overlap" and number < 1:
                raise lines.error(
                    "bad number",
                    expected=f"a positive integer for {shown_key}",
                    found=shown(value.strip()),
                )
        elif role is not None:
            values[role] = _number(lines, shown_key, value)
        keys.append((key, role))
        lines.next()
    if not keys:
        raise lines.unexpected("'; KEY: VALUE' lines after the '>>' line")
    if "overlap" not in values:
        raise lines.unexpected("the alignment's '; ..._overlap:' line", "the overlap is missing")
    return values, keys


def _sequence(lines: Lines, which: str) -> _Sequence:
    line = _whole_line(lines, f"the '>ID ..' line of the {which}")
    if not SEQUENCE_HEADER.fullmatch(line):
        raise lines.unexpected(f"the '>ID ..' line of the {which}")
    lines.next()
    sequence = _Sequence()
    while (line := _whole_line(lines, f"lines of the {which}")).startswith(b";"):
        match = SEQUENCE_KEY_LINE.fullmatch(line)
        if match is None:
            raise lines.unexpected("'; sq_KEY: VALUE' or '; al_KEY: VALUE'")
        name = f"{match[1].decode()}_{match[2].decode('utf-8', 'replace')}"
        if line.startswith(CONSENSUS_KEY) or CODE_KEY.fullmatch(line):
            break
        if name == "sq_type":
            sequence.type = match[3].strip()
            sequence.keys.append(b"sq_type=" + sequence.type)
        else:
            if name in sequence.values:
                raise lines.unexpected("each key once in a sequence", "a key given twice")
            sequence.values[name] = _integer(lines, name, match[3])
            sequence.keys.append(name.encode())
        lines.next()
    for name in _SEQUENCE_INTEGERS:
        if name not in sequence.values:
            raise lines.unexpected(f"'; {name}:' of the {which}", f"{name} is missing")
    pieces = []
    while SEQUENCE_LINE.fullmatch(line):
        pieces.append(line)
        lines.next()
        line = _line_behind(lines)
    if not pieces:
        raise lines.unexpected(f"residues of the {which}")
    sequence.displayed = b"".join(pieces)
    return sequence


def _span(sequence: _Sequence) -> int:
    return abs(sequence.stop - sequence.start) + 1


def _shifts(sequence: _Sequence) -> int:
    return sum(sequence.displayed.count(mark) for mark in _FRAME_SHIFTS)


@dataclass(slots=True)
class _Pair:
    """Both sequences of an alignment, to be checked against each other and the scores.

    `at` is the line and offset of the alignment's first line, to which errors refer. `lower_case`
    as of `read_alignment`.
    """

    lines: Lines
    at: tuple[int, int]
    query: _Sequence
    library: _Sequence
    program: str
    lower_case: bool

    def aligned(self, overlap: int) -> tuple[bytes, bytes]:
        """The aligned sequences; InputError if they do not fit the overlap or the coordinates.

        They have `overlap` columns, and in a translated alignment those of frame shifts in
        addition. With ``-XB`` the overlap counts no columns with a gap: then the number of columns
        is computed from the residues of both sequences.
        """
        pair = (self.query, self.library)
        translated = self._translated()
        shifted = 0 if translated is None else _shifts(translated)
        residues = sum(
            len(sequence.displayed) - sequence.displayed.count(b"-") - shifted
            if sequence is translated
            else _span(sequence)
            for sequence in pair
        )
        faults: list[InputError] = []
        for count in (overlap, residues - overlap):
            if faults and count <= overlap:
                break
            rows = self._cut(count + shifted)
            try:
                for sequence, which, row in zip(pair, _NAMES, rows, strict=True):
                    if len(row) != count + shifted:
                        raise self._error(
                            f"the aligned {which} has a wrong length",
                            f"{count + shifted} columns (overlap {overlap})",
                            f"{len(row)}",
                        )
                    self._check_span(sequence, which, row)
            except InputError as fault:
                faults.append(fault)
            else:
                return rows
        raise faults[0]

    def check_frame(self, frame: object) -> None:
        """Raises InputError if the frame ("f", "r" or another) and the coordinates disagree."""
        translated = self._translated()
        turned = translated or self.query
        if translated is not None and "X" not in self.program and _span(turned) <= _CODON:
            return  # of one codon the programs print a wrong stop
        if (frame == "f" and turned.start > turned.stop) or (
            frame == "r" and turned.start < turned.stop
        ):
            raise self._error(
                "frame and coordinates disagree",
                "al_start > al_stop exactly in frame r",
                f"frame {frame}, al_start {turned.start}, al_stop {turned.stop}",
            )

    def _translated(self) -> _Sequence | None:
        side = translated_side(self.program)
        return {"query": self.query, "library": self.library}.get(side or "")

    def _cut(self, columns: int) -> tuple[bytes, bytes]:
        """Cut both displayed sequences to the `columns` columns of the alignment.

        Without ``-W 0`` the programs also show residues beside the alignment; if one sequence has
        fewer on the left, they pad it with gaps. Further leading gaps belong to the alignment.
        """
        pair = (self.query, self.library)
        if all(len(sequence.displayed) == columns for sequence in pair):
            return self.query.displayed, self.library.displayed
        first = max(abs(row.start - row.values["al_display_start"]) for row in pair)
        cut = slice(first, first + columns)
        return self.query.displayed[cut], self.library.displayed[cut]

    def _check_span(self, sequence: _Sequence, which: str, aligned: bytes) -> None:
        """Raises InputError if the number of residues does not fit the coordinates.

        Each letter is one residue. Of a translated sequence it is three nucleotides, `\\` adding
        one and `/` removing one; fasty and tfasty do not print all of their frame shifts, so
        nothing is checked.
        """
        gaps = aligned.count(b"-")
        letters = len(aligned) - gaps
        if sequence is self._translated():
            if "X" not in self.program:
                return
            less, more = (aligned.count(mark) for mark in _FRAME_SHIFTS)
            letters = 3 * (letters - less - more) + more - less
        is_protein = sequence is self.library and sequence.type == _PROTEIN
        residue_gaps = gaps if self.lower_case and is_protein else 0
        span = _span(sequence)
        if not letters <= span <= letters + residue_gaps:
            raise self._error(
                f"the {which}'s residues do not fit its coordinates",
                f"{span} for al_start {sequence.start} and al_stop {sequence.stop}",
                f"{letters}",
            )

    def _error(self, reason: str, expected: str, found: str) -> InputError:
        return self.lines.error(reason, expected=expected, found=found, at=self.at)


class SearchKeys:
    """Checks that all alignments of a search have the same score keys as its first one.

    Which keys a program writes depends on its version and options, so only a comparison with the
    other alignments shows that a key is missing.
    """

    def __init__(self) -> None:
        self._layout: Layout | None = None

    def take(self, layout: Layout) -> None:
        """An alignment that is known to have the layout of the one before it in the file."""
        self._layout = layout

    def check(self, lines: Lines, layout: Layout, at: tuple[int, int]) -> None:
        """Raises InputError where the alignment that starts at (line, offset) `at` differs."""
        first, self._layout = self._layout or layout, layout
        if first.keys == layout.keys:
            return
        before, here = ({key.decode() for key, role in x.keys if role} for x in (first, layout))
        for keys, reason, expected in (
            (before - here, "is missing", "it, as in the alignments of the search before this one"),
            (here - before, "is unexpected", "the keys of the alignments before this one"),
        ):
            if keys:
                names = ", ".join(sorted(keys))
                found = ", ".join(sorted(here))
                raise lines.error(f"{names} {reason}", expected=expected, found=found, at=at)


def read_alignment(
    lines: Lines, program: str, hit: bytes | None, *, lower_case: bool = False
) -> tuple[Alignment, Layout]:
    """Read the alignment that starts at the current `>>` or `>--` line, and move past it.

    `hit` is the line of the hit to which a `>--` line adds an alignment. `lower_case`: the search
    had ``-S``, with which a `-` in a library protein is a residue. Raises InputError, with line and
    offset, for missing, unreadable or contradictory lines.
    """
    line = _whole_line(lines, "a '>>' line")
    at = lines.number, lines.offset
    if line != NEXT_ALIGNMENT:
        hit = line[2:]
    elif hit is None:
        raise lines.unexpected("a '>>' line before the first '>--'")
    lines.next()
    values, keys = _scores(lines)
    query = _sequence(lines, "query")
    library = _sequence(lines, "library sequence")
    consensus = lines.line == CONSENSUS_KEY
    if consensus:
        lines.next()
        while CONSENSUS_LINE.fullmatch(_line_behind(lines)):
            lines.next()
    codes = 0
    while CODE_KEY.fullmatch(_line_behind(lines)):
        codes += 1
        lines.next()
    line = _line_behind(lines)
    if line and not line.startswith(b">") and b">>>" not in line:
        raise lines.unexpected("'>>', '>--', '>>><<<' or an empty line after an alignment")
    pair = _Pair(lines, at, query, library, program, lower_case)
    overlap = values["overlap"]
    assert isinstance(overlap, int)
    query_row, library_row = pair.aligned(overlap)
    pair.check_frame(values.get("frame"))
    scores: dict[str, Any] = {name: values.get(name) for name in dict.fromkeys(ROLES.values())}
    row = Alignment(
        hit=hit,
        **scores,
        query_start=query.start,
        query_stop=query.stop,
        query_sequence=query_row,
        library_start=library.start,
        library_stop=library.stop,
        library_sequence=library_row,
    )
    layout = Layout(tuple(keys), tuple(query.keys), tuple(library.keys), consensus, codes)
    return row, layout
