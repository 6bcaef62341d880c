"""Rows of a table in blocks of whole lines, without the comments between them, as Arrow columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from storewise.errors import InputError
from storewise.ssearch.formats.names import FLOATS, INTEGERS, OF_HITS, TEXTS
from storewise.ssearch.parse.lines import LF_EXPECTED, MAX_LINE, TEXT_EXPECTED, shown
from storewise.ssearch.parse.stream import ByteReader

#: Bytes that are read and parsed at a time: little enough to stay in the processor's cache.
BLOCK = 2 << 20
TYPES = {
    **dict.fromkeys(TEXTS, pa.string()),
    **dict.fromkeys(FLOATS, pa.float64()),
    **dict.fromkeys((*INTEGERS, *OF_HITS), pa.int64()),
}
OF_DOCUMENTS = frozenset({*TEXTS, *FLOATS, *INTEGERS})
_NEWLINE = 10
#: What numbers look like, for messages about those that are none.
_NUMBERS = {
    pa.int64(): (re.compile(rb"\s*[-+]?\d+\s*"), "an integer"),
    pa.float64(): (re.compile(rb"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*"), "a number"),
}


#: A run of lines that are no rows. A comment begins with ``#`` and a blank, or is ``#`` alone, and
#: has no tab: names of sequences may begin with ``#``, too.
_COMMENT = rb"#(?: [^\t\n]*)?\n"


class Comments(NamedTuple):
    """Comment lines that follow each other: their text, the number of the first line and its byte
    offset in the file, and the row of the block before which they stand."""

    text: bytes
    line: int
    offset: int
    row: int


@dataclass(slots=True)
class Block:
    """Whole lines of a file. `offset` and `line` are of its first byte, `size` is its bytes; `text`
    has its rows only."""

    text: bytes
    comments: list[Comments]
    offset: int
    line: int
    size: int
    _rows: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows; a parser that knows it may set it, which saves counting."""
        if self._rows is None:
            # Several times as fast as bytes.count where newlines are dense.
            self._rows = int(np.count_nonzero(np.frombuffer(self.text, np.uint8) == _NEWLINE))
        return self._rows

    @rows.setter
    def rows(self, number: int) -> None:
        self._rows = number

    @property
    def stop(self) -> tuple[int, int]:
        """Byte offset and line number behind its last line."""
        lines = sum(one.text.count(b"\n") for one in self.comments)
        return self.offset + self.size, self.line + self.rows + lines

    def without_first_row(self, size: int) -> Block:
        """The block without its first row, which has `size` bytes."""
        comments = [one._replace(row=max(one.row - 1, 0)) for one in self.comments]
        first = Comments(self.text[:size], self.line, self.offset, 0)
        return Block(self.text[size:], [*comments, first], self.offset, self.line, self.size)

    def without(self, lines: Sequence[bytes]) -> Block:
        """The block, which has no comments, without lines that are no rows."""
        whole = re.compile(rb"^(?:" + b"|".join(map(re.escape, lines)) + rb")\n", re.M)
        runs = [found.span() for found in whole.finditer(self.text)]
        return _cut(self.text, runs, self.offset, self.line)


def _cut(data: bytes, runs: Iterable[tuple[int, int]], offset: int, line: int) -> Block:
    """The block of `data` without the runs of lines that are no rows."""
    comments: list[Comments] = []
    pieces: list[bytes] = []
    at = rows = passed = 0
    for start, end in runs:
        rows += data.count(b"\n", at, start)
        text = data[start:end]
        comments.append(Comments(text, line + rows + passed, offset + start, rows))
        passed += text.count(b"\n")
        pieces.append(data[at:start])
        at = end
    text = b"".join([*pieces, data[at:]]) if pieces else data
    return Block(text, comments, offset, line, len(data))


class Blocks:
    """The blocks of a file.

    `passed` are lines to skip that are no comments; None if the format has no comments. Raises
    InputError for bytes that are no text, for CR LF, and for a last line without its line feed,
    because a file that was cut ends so.
    """

    def __init__(self, stream: ByteReader, name: str, passed: Sequence[bytes] | None) -> None:
        self._stream, self._name, self._passed = stream, name, passed
        lines = b"|".join([_COMMENT, *(re.escape(line) + rb"\n" for line in passed or ())])
        self._run = re.compile(rb"(?:" + lines + rb")++")
        self._tails = tuple(line + b"\n" if line else b"\n\n" for line in passed or ())

    def __iter__(self) -> Iterator[Block]:
        rest, offset, line = b"", 0, 1
        while chunk := self._stream.read(BLOCK):
            end = chunk.rfind(b"\n") + 1
            # Copied once, however the pieces lie.
            data = b"".join([rest, memoryview(chunk)[:end]]) if end else b""
            rest = chunk[end:] if end else rest + chunk
            if len(rest) > MAX_LINE:
                raise InputError(
                    self._name, f"a line of more than {MAX_LINE} bytes", line=line, offset=offset,
                    expected="lines of text",
                )  # fmt: skip
            if data:
                _check_text(data, self._name, offset, line)
                runs = self._runs(data) if self._passed is not None else ()
                block = _cut(data, runs, offset, line)
                yield block
                offset, line = block.stop
        if rest:
            raise InputError(
                self._name,
                "the last line has no line feed: the file was cut, or is still being written",
                line=line, offset=offset, expected="a line feed at the end",
                found=shown(rest[-60:]),
            )  # fmt: skip

    def _runs(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where runs of lines that are no rows begin and end."""
        end, at = 0, data.find(b"#")
        while at >= 0:
            run = self._run.match(data, at) if at == 0 or data[at - 1] == _NEWLINE else None
            if run is None:
                at = data.find(b"#", at + 1)
                continue
            # Lines that are passed over may stand before a comment, too.
            start = self._before(data, end, at) if data.endswith(self._tails, end, at) else at
            end = run.end()
            yield start, end
            at = data.find(b"#", end)
        if (start := self._before(data, end, len(data))) < len(data):
            yield start, len(data)

    def _before(self, data: bytes, end: int, at: int) -> int:
        """The start of the skipped lines that end at `at`; not before `end`."""
        while at > end:
            for line in self._passed or ():
                start = at - len(line) - 1
                if data[start:at] == line + b"\n" and (start == end or data[start - 1] == _NEWLINE):
                    at = start
                    break
            else:
                break
        return at


def _check_text(data: bytes, name: str, offset: int, line: int) -> None:
    for wrong, found, reason, expected in (
        (b"\0", b"\0", "a NUL byte", TEXT_EXPECTED),
        (b"\r", b"\r\n", "the line ends with CR LF", LF_EXPECTED),
    ):
        # A single byte is found ten times as fast as two.
        if wrong in data and (at := data.find(found)) >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            raise InputError(
                name, reason, line=line + data.count(b"\n", 0, at), offset=offset + start,
                expected=expected, found=shown(data[max(start, at - 30) : at + 2]),
            )  # fmt: skip


def row_of(block: Block, row: int) -> tuple[bytes, int, int]:
    """The text of a row, its line number and its byte offset in the file."""
    before = [one.text for one in block.comments if one.row <= row]
    rows = block.text.split(b"\n")
    line = block.line + row + sum(text.count(b"\n") for text in before)
    offset = block.offset + sum(len(one) + 1 for one in rows[:row]) + sum(map(len, before))
    return rows[row], line, offset


def parse_rows(
    block: Block, names: Sequence[str], name: str, wanted: Collection[str] = OF_DOCUMENTS
) -> Any:
    """The rows of a block as an Arrow table with those columns that are `wanted`; InputError with
    line, column, expected and found for a row that does not fit."""
    wanted = [column for column in names if column in wanted]
    try:
        return pa.csv.read_csv(
            pa.BufferReader(block.text),
            pa.csv.ReadOptions(
                use_threads=False, block_size=len(block.text) + 1, column_names=names
            ),
            pa.csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
            pa.csv.ConvertOptions(
                column_types={column: TYPES[column] for column in wanted},
                include_columns=wanted,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _bad_row(block, names, name, str(error)) from error


def _bad_row(block: Block, names: Sequence[str], name: str, error: str) -> InputError:
    """The error for the first row that does not fit."""
    for row, text in enumerate(block.text.split(b"\n")[:-1]):
        cells = text.split(b"\t")
        if len(cells) != len(names):
            _, line, offset = row_of(block, row)
            return InputError(
                name, f"the row has {len(cells)} columns", line=line, offset=offset,
                expected=f"{len(names)} columns with tabs between them", found=shown(text),
            )  # fmt: skip
        for number, (column, cell) in enumerate(zip(names, cells, strict=True), 1):
            kind = TYPES.get(column)
            expected = None
            if kind in _NUMBERS:
                pattern, expected = _NUMBERS[kind]
                fits = pattern.fullmatch(cell) is not None
            else:
                fits, expected = _is_utf8(cell), "text in UTF-8"
            if kind is not None and not fits:
                _, line, offset = row_of(block, row)
                return InputError(
                    name, f"column {number} ({column}) does not fit", line=line, offset=offset,
                    expected=expected, found=shown(cell),
                )  # fmt: skip
    return InputError(name, f"a row does not fit: {error}", line=block.line, offset=block.offset)


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True
