"""Digest, counts and completeness of an SSEARCH output in one pass over its line starts.

The manifest needs to know how many documents a file gives and whether it is whole, for terabytes
of input; parsing them for that would double the work. Everything that counts here stands at the
start of a line (``docs/documents.md``): ``  1>>>`` a query in the preamble, ``>>ID`` a hit, ``>--``
a further alignment of it, ``>>><<<`` the end of a query, ``>>>///`` the end of a search. The full
parse, when the documents are written, checks these counts again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from storewise.documents import FULL_DIGEST_BYTES
from storewise.errors import InputError
from storewise.ssearch.grammar import END_OF_QUERY, END_OF_SEARCH, FIRST_CLOSED_VERSION
from storewise.ssearch.reader import DocumentReader
from storewise.ssearch.sampled import SAMPLE_BLOCK_BYTES, sample_of
from storewise.ssearch.stream import GZIP_MAGIC, ZSTD_MAGIC, Source, damage, open_input

if TYPE_CHECKING:
    from storewise.objects.reading import Wanted

#: How the digest of a file is made: from all of its content, or from its size and a sample.
DigestMode = Literal["full", "sampled", "parsed"]

CHUNK_BYTES = 1 << 20
#: A preamble is a few lines; a file without one in its first bytes is something else.
PREAMBLE_BYTES = 1 << 20
LONGEST_LINE_BYTES = 8 << 20
#: A query line follows its search's version line within this many bytes.
_LOOK_BACK = 4096
#: Of a line in a message.
_SHOWN_BYTES = 61

_VERSION = re.compile(rb"\n version +(\d+)")
_HIT = re.compile(rb"\n>>(?!>)")
_QUERY_NUMBER = re.compile(rb" *(\d+)")
_EXPECTED = "the output of ssearch36 (or another program of the FASTA package) with -m 10"


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one pass over a complete file tells.

    `digest` has 16 bytes (BLAKE2b of the decompressed content, or of size and sample). `queries`
    are query-library searches, `hits` are ``>>`` blocks (f and r apart), `alignments` are hits and
    ``>--``; all three are None where the content was only sampled.
    """

    digest: bytes
    queries: int | None
    hits: int | None
    alignments: int | None

    @property
    def documents(self) -> int | None:
        """One document per search and three per alignment; None where the counts are."""
        if self.queries is None or self.alignments is None:
            return None
        return self.queries + 3 * self.alignments


class _State(Enum):
    """Where in a search a line start stands."""

    OUTSIDE = auto()  # before the first search or after the end mark of one
    PREAMBLE = auto()  # after the version line, before a query
    QUERY = auto()  # a query is open
    BETWEEN = auto()  # the query is closed, the search is not


class Scanner:
    """Scans decompressed content that is fed in pieces of any size; memory is one line and piece.

    ``feed`` and ``finish`` raise InputError where the content is not SSEARCH, not ``-m 10``, or
    not complete.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = path
        self._hash = hashlib.blake2b(digest_size=FULL_DIGEST_BYTES)
        self._rest = b""
        self._tail = b""
        self._first_line = b""
        self._bytes = 0
        self._lines = 0
        self._last_line_start = 0
        self._state = _State.OUTSIDE
        self._closes_queries = True
        self._number = 0
        self._searches = 0
        self._queries = 0
        self._hits = 0
        self._further = 0
        self._first_hit = (0, 0)
        self._has_keys = False

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the content."""
        self._hash.update(data)
        has_nul = b"\0" in data
        data = self._rest + data
        if has_nul:
            raise self._nul(data)
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        if len(self._rest) > LONGEST_LINE_BYTES:
            raise self._not_ssearch_or(f"a line of more than {LONGEST_LINE_BYTES} bytes")
        if end:
            self._scan(data[:end])
        if not self._searches and self._bytes + len(self._rest) > PREAMBLE_BYTES:
            raise self._not_ssearch()

    def finish(self) -> ScanResult:
        """The result, at the end of the content."""
        if not self._bytes and not self._rest:
            raise InputError(self._path, "the file is empty", line=1, offset=0, expected=_EXPECTED)
        unterminated = self._rest
        if unterminated:
            self._rest = b""
            self._scan(unterminated + b"\n")
        if not self._searches:
            raise self._not_ssearch()
        if self._state is not _State.OUTSIDE:
            mark = END_OF_SEARCH if self._closes_queries else END_OF_QUERY
            raise self._incomplete(
                f"the closing line {mark.decode()!r}",
                f"the end of the file after {_shown(unterminated)}"
                if unterminated
                else "the end of the file",
            )
        if self._hits and not self._has_keys:
            raise InputError(
                self._path,
                "alignments are not in -m 10 format; search again with -m 10",
                line=self._first_hit[0],
                offset=self._first_hit[1],
                expected="lines such as '; sw_score: 120'",
                found=f"{self._hits} hits without one",
            )
        return ScanResult(
            self._hash.digest(), self._queries, self._hits, self._hits + self._further
        )

    def _scan(self, block: bytes) -> None:
        """Counts over whole lines; `block` starts at a line start and ends with a newline."""
        if not self._first_line:
            self._first_line = block.lstrip()[:_SHOWN_BYTES]
        # Looking for the one byte first is fifty times faster than for the pair.
        if b"\r" in block and b"\r\n" in block:
            raise self._crlf(block)
        # A newline in front makes the first line like all others.
        text = b"\n" + block
        if not self._hits and (hit := _HIT.search(text)):
            start = hit.start() + 1
            line = self._lines + text.count(b"\n", 0, start)
            self._first_hit = line, self._bytes + start - 1
        self._hits += text.count(b"\n>>") - self._mark(text)
        self._further += text.count(b"\n>--\n")
        self._has_keys = self._has_keys or b"\n; " in text
        self._lines += text.count(b"\n") - 1
        self._last_line_start = self._bytes + block.rfind(b"\n", 0, len(block) - 1) + 1
        self._bytes += len(block)
        self._tail = text[-_LOOK_BACK:]

    def _mark(self, text: bytes) -> int:
        """Follows the marks that open and close searches and queries, in their order.

        Returns how many lines start with ``>>>``.
        """
        lines = 0
        last = 0
        at = text.find(b">>>")
        while at >= 0:
            start = text.rfind(b"\n", 0, at) + 1
            end = text.find(b"\n", at)
            if start == at:
                lines += 1
                self._close(text[start:end])
                last = end
            elif number := _QUERY_NUMBER.fullmatch(text, start, at):
                self._versions(text, last, start)
                self._query(int(number[1]), text, start)
                last = end
            at = text.find(b">>>", end)
        self._versions(text, last, len(text))
        return lines

    def _versions(self, text: bytes, start: int, end: int) -> None:
        """Takes the version lines between two marks, where a search may begin."""
        while self._state in (_State.OUTSIDE, _State.PREAMBLE):
            version = _VERSION.search(text, start, end)
            if version is None:
                return
            self._begin(int(version[1]), text, version.start() + 1)
            start = version.end()

    def _begin(self, version: int, text: bytes, start: int) -> None:
        if self._state is not _State.OUTSIDE:
            raise self._two_searches(text, start)
        self._state = _State.PREAMBLE
        self._closes_queries = version >= FIRST_CLOSED_VERSION
        self._searches += 1
        self._number = 0

    def _query(self, number: int, text: bytes, start: int) -> None:
        if self._state is _State.OUTSIDE:
            return
        # A library sequence may be named `7>>>x`: in the table of best scores it looks like a
        # query, but the programs count theirs from 1 without gaps.
        if number != self._number + 1:
            before = self._tail + text[max(start - _LOOK_BACK, 0) : start]
            if number == 1 and _VERSION.search(before[-_LOOK_BACK:]):
                raise self._two_searches(text, start)
            return
        if self._state is _State.QUERY and self._closes_queries:
            raise self._incomplete(
                f"{END_OF_QUERY.decode()!r} after query {self._number}",
                f"query {number}",
                text,
                start,
            )
        self._state = _State.QUERY
        self._number = number
        self._queries += 1

    def _close(self, line: bytes) -> None:
        if line == END_OF_QUERY and self._state is _State.QUERY:
            self._state = _State.BETWEEN if self._closes_queries else _State.OUTSIDE
        elif line == END_OF_SEARCH and self._state is _State.BETWEEN:
            self._state = _State.OUTSIDE

    def _two_searches(self, text: bytes, start: int) -> InputError:
        return self._incomplete(
            "the end of the search before it", "the start of another search", text, start
        )

    def _nul(self, data: bytes) -> InputError:
        if not self._searches and not _VERSION.search(data):
            self._first_line = self._first_line or data[:_SHOWN_BYTES]
            return self._not_ssearch()
        start = data.rfind(b"\n", 0, data.find(b"\0")) + 1
        return InputError(
            self._path,
            "a NUL byte",
            line=self._lines + data.count(b"\n", 0, start) + 1,
            offset=self._bytes + start,
            expected="text (a block of zeros is what a failed copy leaves)",
        )

    def _crlf(self, block: bytes) -> InputError:
        start = block.rfind(b"\n", 0, block.find(b"\r\n")) + 1
        return InputError(
            self._path,
            "the line ends with CR LF",
            line=self._lines + block.count(b"\n", 0, start) + 1,
            offset=self._bytes + start,
            expected="LF line ends as the program writes them (convert with dos2unix)",
        )

    def _not_ssearch(self) -> InputError:
        return InputError(
            self._path,
            "not an SSEARCH output",
            line=1,
            offset=0,
            expected=_EXPECTED,
            found=_shown((self._first_line or self._rest).split(b"\n", 1)[0]),
        )

    def _not_ssearch_or(self, reason: str) -> InputError:
        if not self._searches:
            return self._not_ssearch()
        return InputError(
            self._path, reason, line=self._lines + 1, offset=self._bytes, expected="lines of text"
        )

    def _incomplete(
        self, expected: str, found: str, text: bytes | None = None, start: int = 0
    ) -> InputError:
        """`start` is a line start in `text`, which begins one byte before the block."""
        if text is None:
            line, offset = self._lines, self._last_line_start
        else:
            line = self._lines + text.count(b"\n", 0, start)
            offset = self._bytes + start - 1
        return InputError(
            self._path,
            "the output is not complete; search again or copy it again",
            line=line,
            offset=offset,
            expected=expected,
            found=found,
        )


def _shown(data: bytes) -> str:
    text = data[: _SHOWN_BYTES - 1].decode("utf-8", "backslashreplace")
    return repr(text) + ("..." if len(data) >= _SHOWN_BYTES else "")


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
            found = scanner.finish()
        except InputError as error:
            raise damage(stream, error) from error
    if digest == "parsed":
        reader = DocumentReader(path, found.digest, encoding="bson")
        for _ in reader:
            continue
        counts = reader.counts
        if (found.queries, found.alignments) != (counts.queries, counts.alignments):
            raise InputError(
                path,
                "line starts and contents do not tell the same",
                expected=f"{found.queries} queries and {found.alignments} alignments",
                found=f"{counts.queries} and {counts.alignments}",
            )
    return found


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
        first = head.split(b"\n", 1)[0]
        raise InputError(
            path,
            "not an SSEARCH output",
            line=1,
            offset=0,
            expected=_EXPECTED,
            found=_shown(first),
        )
