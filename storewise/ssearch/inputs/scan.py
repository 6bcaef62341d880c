"""Digest, counts and completeness of an SSEARCH output in one pass over its line starts.

The manifest needs to know how many documents a file gives and whether it is whole, for terabytes
of input; parsing them for that would double the work. Everything that counts here stands at the
start of a line: the marks of the frame (`frame`), ``; sq_len:`` of each sequence of an alignment
and ``>--`` of a further alignment of a hit. The full parse, when the documents are written, checks
these counts again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from storewise.documents import FULL_DIGEST_BYTES
from storewise.errors import InputError
from storewise.s3.uri import Wanted
from storewise.ssearch.parse.frame import M10_OUTPUT, NOT_M10_FORMAT, Frame, Misplaced, Place
from storewise.ssearch.parse.grammar import (
    BEST_SCORES,
    END_OF_QUERY,
    END_OF_SEARCH,
    HEAD_BYTES,
    NEXT_ALIGNMENT,
    PROGRAM_LINE,
    QUERY_COUNT_LINE,
    RESIDUES,
    UNNUMBERED_QUERY,
    QueryLine,
    continues_alignments,
    ends_table,
    other_format,
    query_line,
)
from storewise.ssearch.parse.lines import LF_EXPECTED, TEXT_EXPECTED, shown
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.sample_digest import SAMPLE_BLOCK_BYTES, sample_of
from storewise.ssearch.parse.stream import GZIP_MAGIC, ZSTD_MAGIC, Source, damage, open_input

#: How the digest of a file is made: from all of its content, or from its size and a sample.
DigestMode = Literal["full", "sampled", "parsed"]

#: What a scan tells changes with the rules: a row that was made by others is not used again.
RULES = 2

CHUNK_BYTES = 1 << 20
#: A preamble is a few lines; a file without one in its first bytes is something else.
PREAMBLE_BYTES = 1 << 20
LONGEST_LINE_BYTES = 8 << 20
#: Of a line in a message.
_SHOWN_BYTES = 61

_NEWLINE = 10
#: Enough of a line to tell what the one before it is (`grammar.continues_alignments`).
_FOLLOWING = 5

_VERSION = re.compile(rb"\n version +([0-9]{1,9}(?![0-9])\S*)")
_QUERY_NUMBER = re.compile(rb" *[0-9]{1,9}")
_WORDS = re.compile(rb"[^\n]")
_TABLE = b"\n" + BEST_SCORES
_SEQUENCE = b"\n; sq_len:"
_NEXT = b"\n" + NEXT_ALIGNMENT + b"\n"
_EXPECTED = "the output of ssearch36 (or another program of the FASTA package) with -m 10"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one pass over a complete file tells.

    `digest` has 16 bytes (BLAKE2b of the decompressed content, or of size and sample). `queries`
    are query-library searches, `hits` are ``>>`` blocks (f and r apart), `alignments` are hits and
    ``>--``; all three are None where the content was only sampled. `warnings` are for the user: the
    file is complete all the same.
    """

    digest: bytes
    queries: int | None
    hits: int | None
    alignments: int | None
    warnings: tuple[str, ...] = ()

    @property
    def documents(self) -> int | None:
        """One document per search and three per alignment; None where the counts are."""
        if self.queries is None or self.alignments is None:
            return None
        return self.queries + 3 * self.alignments


class Scanner:
    """Scans decompressed content that is fed in pieces of any size; memory is one line and piece.

    ``feed`` and ``finish`` raise InputError where the content is not SSEARCH, not ``-m 10``, or
    not complete. Alignments are counted by ``; sq_len:``, of which each has two: unlike ``>>`` it
    is never the start of an id.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._hash = hashlib.blake2b(digest_size=FULL_DIGEST_BYTES)
        self._rest = b""
        self._text = b""
        self._following = b""
        self._head = b""
        self._line_before = b""
        self._bytes = 0
        self._lines = 0
        self._last_line_start = 0
        self._frame = Frame()
        self._sequences = 0
        self._further = 0
        self._after_header = False

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the content."""
        self._hash.update(data)
        has_nul = b"\0" in data
        data = self._rest + data
        if has_nul and (self._frame.searches or _VERSION.search(data)):
            raise self._error(data, data.find(b"\0"), "a NUL byte", TEXT_EXPECTED)
        if has_nul:
            self._head = self._head or data[:HEAD_BYTES]
            raise self._not_ssearch()
        last = data.rfind(b"\n")
        # What a line is may be told by the next one, so the last whole line waits, too.
        end = data.rfind(b"\n", 0, last) + 1 if last >= 0 else 0
        self._rest = data[end:]
        if len(data) - last > LONGEST_LINE_BYTES:
            if not self._frame.searches:
                raise self._not_ssearch()
            reason = f"a line of more than {LONGEST_LINE_BYTES} bytes"
            raise self._error(data, 0, reason, "lines of text")
        if end:
            self._scan(data[:end], self._rest)
        if not self._frame.searches and self._bytes + len(self._rest) > PREAMBLE_BYTES:
            raise self._not_ssearch()

    def finish(self) -> ScanResult:
        """The result, at the end of the content."""
        if not self._bytes and not self._rest:
            raise InputError(self._path, "the file is empty", line=1, offset=0, expected=_EXPECTED)
        frame = self._frame
        whole, newline, unterminated = self._rest.rpartition(b"\n")
        if newline:
            self._scan(whole + newline, unterminated)
        if unterminated:
            # Only closing lines and a whole end mark may lack their newline.
            if frame.place is Place.OUTSIDE or unterminated == frame.last_mark:
                self._scan(unterminated + b"\n", b"")
            else:
                self._lines, self._last_line_start = self._lines + 1, self._bytes
        if not frame.searches:
            raise self._not_ssearch()
        if frame.place is not Place.OUTSIDE:
            raise InputError(
                self._path,
                "the output is not complete; search again or copy it again",
                line=self._lines,
                offset=self._last_line_start,
                expected=f"the closing line {frame.last_mark.decode()!r}",
                found="the end of the file"
                + (f" after {shown(unterminated)}" if unterminated else ""),
            )
        alignments = self._sequences // 2
        hits = alignments - self._further
        warnings = tuple(frame.warnings)
        return ScanResult(self._hash.digest(), frame.queries, hits, alignments, warnings)

    def _scan(self, block: bytes, following: bytes) -> None:
        """Scans whole lines; `following` begins with the line behind them."""
        if not self._frame.searches and len(self._head) < HEAD_BYTES:
            self._head = (self._head + block).lstrip()[:HEAD_BYTES]
        # Looking for the one byte first is fifty times faster than for the pair.
        if b"\r" in block and b"\r\n" in block:
            place = block.find(b"\r\n")
            raise self._error(block, place, "the line ends with CR LF", LF_EXPECTED)
        # A newline in front makes the first line like all others. Each step begins at the newline
        # in front of a line and returns where the next one begins.
        self._text, self._following = b"\n" + block, following
        steps = {
            Place.OUTSIDE: self._outside,
            Place.TABLE: self._table,
            Place.ALIGNMENTS: self._alignments,
        }
        at, end = 0, len(block)
        while at < end:
            at = steps.get(self._frame.place, self._preamble)(at, end)
        self._text = b""
        self._lines += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE))
        start = block.rfind(b"\n", 0, len(block) - 1) + 1
        self._line_before = block[start:-1][:_SHOWN_BYTES]
        self._last_line_start = self._bytes + start
        self._bytes += len(block)

    def _next_mark(self, at: int, end: int) -> tuple[int, bytes]:
        """Where the next line begins that may be a mark, and the line; `end` and nothing where
        there is none."""
        text = self._text
        mark = text.find(b">>>", at)
        while mark >= 0:
            start = text.rfind(b"\n", at, mark) + 1
            stop = text.find(b"\n", mark)
            if start == mark or _QUERY_NUMBER.fullmatch(text, start, mark):
                return start - 1, text[start:stop]
            mark = text.find(b">>>", stop)
        return end, b""

    def _outside(self, at: int, end: int) -> int:
        """Up to the next version line; before it only a search's closing lines count."""
        version = _VERSION.search(self._text, at)
        stop = version.start() if version else end
        if self._frame.searches:
            for line in QUERY_COUNT_LINE.finditer(self._text, at, stop):
                self._tell(self._frame.closing, line.start() - 1, int(line[1]), int(line[2]))
        if version is None:
            return end
        self._begin(version)
        return self._text.find(b"\n", version.end())

    def _begin(self, version: re.Match[bytes]) -> None:
        start = version.start()
        before = self._text[self._text.rfind(b"\n", 0, start) + 1 : start] or self._line_before
        program = PROGRAM_LINE.match(before)
        name = program[1].decode() if program else ""
        self._tell(self._frame.begin, start, name, version[1].decode("utf-8", "replace"))

    def _preamble(self, at: int, end: int) -> int:
        """Up to a mark or the head of the table of best scores."""
        frame, text = self._frame, self._text
        stop, mark = self._next_mark(at, end)
        if frame.place is Place.PREAMBLE and (version := _VERSION.search(text, at, stop + 1)):
            self._begin(version)
        if frame.accepts_unnumbered_query and (one := UNNUMBERED_QUERY.search(text, at + 1, stop)):
            self._tell(frame.query, one.start() - 1, QueryLine(1, one[1], int(one[2])))
            return one.end()
        if frame.place is Place.QUERY:
            if words := _WORDS.search(text, at, stop):
                self._tell(frame.other_line, words.start() - 1)
            table = text.find(_TABLE, at, stop)
            if table >= 0:
                stop, mark = table, b""
            if residues := RESIDUES.search(text, at + 1, stop):
                self._tell(frame.library, text.rfind(b"\n", 0, residues.start()), int(residues[1]))
            if table >= 0:
                frame.table()
                return text.find(b"\n", table + 1)
        return self._take(stop, mark) if mark else end

    def _table(self, at: int, end: int) -> int:
        """Up to the end of the table of best scores."""
        text = self._text
        empty = text.find(b"\n\n", at, end + 1)
        limit = empty if empty >= 0 else end
        stop, mark = self._next_mark(at, end)
        while stop < limit and not ends_table(mark):
            stop, mark = self._next_mark(stop + 1 + len(mark), end)
        stop = min(stop, limit)
        if stop > at:
            self._frame.row()
        if stop < end:
            self._frame.table_ends(empty_line=stop == empty)
        return stop + 1 if stop == empty else stop

    def _alignments(self, at: int, end: int) -> int:
        """Up to the mark behind a query's alignments, which are counted."""
        text = self._text
        if self._after_header and not text.startswith(b"; ", at + 1):
            raise self._error(
                text[1:],
                at,
                NOT_M10_FORMAT,
                f"'; pg_name: PROGRAM', as in {M10_OUTPUT}",
                show=True,
            )
        self._after_header = False
        stop, mark = self._next_mark(at, end)
        while mark.startswith(b">>>"):
            behind = stop + 1 + len(mark)
            following = text[behind + 1 :][:_FOLLOWING] if behind < end else self._following
            if not continues_alignments(following):
                break
            stop, mark = self._next_mark(behind, end)
        sequences = text.count(_SEQUENCE, at, stop + 1)
        if sequences:
            self._frame.aligned()
        self._sequences += sequences
        self._further += text.count(_NEXT, at, stop + 1)
        return self._take(stop, mark) if mark else end

    def _take(self, at: int, mark: bytes) -> int:
        """A mark; returns the end of its line."""
        frame = self._frame
        if mark in (END_OF_QUERY, END_OF_SEARCH):
            self._tell(frame.ends, at, mark)
        elif query := query_line(mark):
            self._tell(frame.query, at, query)
        else:
            self._tell(frame.header, at)
            self._after_header = True
        return at + 1 + len(mark)

    def _tell(self, event: Callable[..., object], at: int, *what: object) -> None:
        """Tells the frame of the line that begins at `at`."""
        try:
            event(*what)
        except Misplaced as wrong:
            error = self._error(self._text[1:], at, wrong.reason, wrong.expected, show=True)
            raise error from None

    def _error(
        self, data: bytes, place: int, reason: str, expected: str, *, show: bool = False
    ) -> InputError:
        """An error in the line of `data`, the bytes that come next, that has position `place`."""
        start = data.rfind(b"\n", 0, place) + 1
        return InputError(
            self._path,
            reason,
            line=self._lines + data.count(b"\n", 0, start) + 1,
            offset=self._bytes + start,
            expected=expected,
            found=shown(data[start : data.find(b"\n", start)][:_SHOWN_BYTES]) if show else None,
        )

    def _not_ssearch(self) -> InputError:
        return _not_ssearch(self._path, self._head or self._rest)


def _not_ssearch(path: Path | str, head: bytes) -> InputError:
    """The error for a file that begins with `head`."""
    first = shown(head.split(b"\n", 1)[0])
    other = other_format(head)
    reason, expected = (other, M10_OUTPUT) if other else ("not an SSEARCH output", _EXPECTED)
    return InputError(path, reason, line=1, offset=0, expected=expected, found=first)


def scan_file(
    path: Path | str, *, digest: DigestMode = "full", seed: int = 1, listed: Wanted | None = None
) -> ScanResult:
    """Digest, counts and completeness of the file at `path` (plain, gzip or zstd).

    With ``digest="sampled"`` the digest comes from the size of the file as it is stored and 16
    blocks of 4 KiB: the first, the last and 14 at places drawn with `seed`. Time has no part in
    it. Such a file is not checked beyond its first block and its counts are None: the write phase
    finds them. A file that is no larger than the sample is scanned whole in either mode. An object
    must be as it was `listed`.

    Raises InputError where the file is unreadable, empty, not SSEARCH, corrupt or not complete.
    """
    if digest == "sampled":
        sampled = _sample(path, seed, listed)
        if sampled is not None:
            return ScanResult(sampled, None, None, None)
    scanner = Scanner(path)
    with open_input(path, listed) as stream:
        try:
            while data := stream.read(CHUNK_BYTES):
                scanner.feed(data)
            result = scanner.finish()
        except InputError as error:
            raise damage(stream, error) from error
    if digest == "parsed":
        reader = DocumentReader(path, result.digest, encoding="bson")
        for _ in reader:
            continue
        counts = reader.counts
        if (result.queries, result.alignments) != (counts.queries, counts.alignments):
            raise InputError(
                path,
                "line starts and contents do not tell the same",
                expected=f"{result.queries} queries and {result.alignments} alignments",
                found=f"{counts.queries} and {counts.alignments}",
            )
    return result


def _sample(path: Path | str, seed: int, listed: Wanted | None) -> bytes | None:
    """Digest of size and sampled blocks; None for a file that the sample would hold whole."""
    sample = sample_of(path, seed, listed)
    if sample is None:
        return None
    _check_head(path, sample.blocks[0], sample.start)
    return sample.digest()


def read_head(source: Source, size: int) -> bytes:
    """The first `size` decompressed bytes of `source`, or all that it has."""
    head = b""
    with open_input(source) as stream:
        while len(head) < size and (data := stream.read(size - len(head))):
            head += data
    return head


def _check_head(path: Path | str, stored: bytes, start: Source) -> None:
    """The preamble at least must be that of an SSEARCH output; `stored` is the first block, `start`
    what to decompress."""
    packed = stored.startswith((GZIP_MAGIC, ZSTD_MAGIC))
    head = read_head(start, SAMPLE_BLOCK_BYTES) if packed else stored
    if not _VERSION.search(head):
        raise _not_ssearch(path, head)
