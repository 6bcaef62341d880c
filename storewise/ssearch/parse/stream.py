"""Byte streams of SSEARCH outputs: plain, gzip or zstd, from a path, a file object or stdin.

The compression is recognised by the first bytes of the content, never by the file's name. A stream
that ends inside a compressed member or fails its checksum is an error, not an end of file: the
usual file-object wrappers (`gzip.open`, zstandard's `stream_reader`) are not used because the
latter takes a truncated frame for a complete one.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import zstandard

from storewise.documents import FULL_DIGEST_BYTES
from storewise.errors import InputError, is_plain, plain
from storewise.s3.uri import Wanted, is_remote
from storewise.ssearch.parse.remote import open_remote

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: A zstd stream may start with a skippable frame: magic 0x184D2A50..5F, little-endian (RFC 8878).
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
#: First bytes of compressions that are not read; their content would only look like nonsense.
_UNREAD = {b"BZh": "bzip2", b"\xfd7zX": "xz", b"PK\x03\x04": "zip"}
#: `Path` or name that stands for standard input.
STDIN = "-"

#: What is said of a file that was written to meanwhile.
CHANGED = "the file changed while it was read; wait for whoever writes it"

#: Compressed bytes given to a decompressor at a time; bounds what one call can expand to.
_FEED = 32 * 1024
_CHUNK = 1 << 20
_NEWLINE = 10

Source = Path | str | BinaryIO


class _Raw(Protocol):
    """The part of a binary file object that is used here."""

    def read(self, size: int, /) -> bytes | None: ...


class ByteReader(Protocol):
    """The stream that `open_input` returns: decompressed content, in pieces."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` decompressed bytes; empty only at the end of the content."""


class _Decompressor(Protocol):
    """The part of `zlib.decompressobj` and zstandard's `decompressobj` that is used here."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Plain:
    """Content as it is, with the bytes that were read to recognise it put back."""

    def __init__(self, raw: _Raw, head: bytes, name: str) -> None:
        self._raw = raw
        self._head = head
        self._name = name
        self._offset = 0

    def read(self, size: int, /) -> bytes:
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
        else:
            try:
                data = self._raw.read(size) or b""
            except OSError as error:
                raise unreadable(self._name, error, self._offset) from error
        self._offset += len(data)
        return data


class _Members:
    """Concatenated gzip members or zstd frames, each of which must be whole."""

    def __init__(
        self, raw: _Plain, kind: str, name: str, make: Callable[[], _Decompressor]
    ) -> None:
        self._raw = raw
        self._kind = kind
        self._name = name
        self._make = make
        self._member: _Decompressor | None = None
        self._input = b""
        self._consumed = 0
        self._offset = 0
        self._newlines = 0
        self._line_start = 0
        self._ready = memoryview(b"")
        #: What is wrong with the compressed data, once it is known.
        self.failure: InputError | None = None

    def read(self, size: int, /) -> bytes:
        if self.failure is not None:
            raise self.failure
        parts: list[memoryview] = []
        room = size
        while room > 0:
            if not self._ready:
                try:
                    # Taken piece by piece without a copy of the rest: it may be a thousand times
                    # what was read.
                    self._ready = memoryview(self._more())
                except InputError as error:
                    # What came before is given out first.
                    self.failure = error
                    if not parts:
                        raise
                    break
                if not self._ready:
                    break
            parts.append(self._ready[:room])
            self._ready = self._ready[room:]
            room -= len(parts[-1])
        return b"".join(parts)

    def _more(self) -> bytes:
        """The next decompressed bytes; empty only at the end."""
        while True:
            if not self._input:
                self._input = self._raw.read(_FEED)
                self._consumed += len(self._input)
                if not self._input:
                    if self._member is not None:
                        raise self._error("the compressed data end too early")
                    return b""
            if self._member is None:
                # gzip(1) and tape blocks pad with zeros after the last member.
                if self._kind == "gzip" and not self._input.strip(b"\0"):
                    self._input = b""
                    continue
                self._member = self._make()
            try:
                data = self._member.decompress(self._input)
            except (zlib.error, zstandard.ZstdError) as error:
                raise self._error("corrupt compressed data", str(error)) from error
            if self._member.eof:
                self._input = self._member.unused_data
                self._member = None
            else:
                self._input = b""
            if data:
                if not self._offset:
                    _refuse_unread(data, self._name, (GZIP_MAGIC, ZSTD_MAGIC))
                self._count(data)
                return data

    def _count(self, data: bytes) -> None:
        newline = data.rfind(b"\n")
        if newline >= 0:
            self._line_start = self._offset + newline + 1
            # Several times as fast as bytes.count where newlines are dense.
            self._newlines += int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))
        self._offset += len(data)

    def _error(self, reason: str, detail: str | None = None) -> InputError:
        return InputError(
            self._name,
            f"{reason} (about compressed byte {self._consumed}, after {self._offset} bytes of "
            "content); copy or make the file again",
            line=self._newlines + 1,
            offset=self._line_start,
            expected=f"whole {self._kind} data",
            found=detail,
        )


def _refuse_unread(head: bytes, name: str, known: tuple[bytes, ...] = ()) -> None:
    """Raises InputError for content that is compressed in another way, or twice (`known`)."""
    kinds = [kind for magic, kind in _UNREAD.items() if head.startswith(magic)]
    if kinds or head.startswith(known):
        raise InputError(
            name,
            f"compressed with {kinds[0]}" if kinds else "compressed twice",
            line=1,
            offset=0,
            expected="text, plain or compressed once with gzip or zstd",
        )


def unreadable(name: str, error: OSError, offset: int | None = None) -> InputError:
    return InputError(name, f"the file cannot be read: {error.strerror or error}", offset=offset)


def damage(stream: ByteReader, error: InputError) -> InputError:
    """`error`, or its cause where that is in the compressed data of `stream`.

    Damaged data often still decompress, to nonsense; what is wrong shows at the member's checksum,
    so the rest is read for it. The position stays: there the nonsense was met.
    """
    if not isinstance(stream, _Members) or error is stream.failure:
        return error
    try:
        while stream.read(_CHUNK):
            pass
    except InputError as cause:
        return InputError(
            cause.path,
            cause.reason,
            line=error.line,
            offset=error.offset,
            expected=cause.expected,
            found=cause.found,
        )
    return error


def source_name(source: Source) -> str:
    """The name of `source` in messages."""
    if isinstance(source, Path | str):
        return "standard input" if str(source) == STDIN else plain(str(source))
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "a stream"


def check_name(path: str) -> None:
    """Raises InputError for a file name that cannot stand in a list: one with a line end or another
    control character, or with bytes that are no UTF-8."""
    if not is_plain(path):
        raise InputError(
            path,
            "the file name has control characters or bytes that are not UTF-8 in it; rename it",
        )


def _content(raw: _Raw, name: str) -> ByteReader:
    start = _Plain(raw, b"", name)
    head = b""
    while len(head) < len(ZSTD_MAGIC) and (more := start.read(len(ZSTD_MAGIC) - len(head))):
        head += more
    _refuse_unread(head, name)
    if isinstance(raw, io.BytesIO | io.BufferedReader) and raw.seekable():
        raw.seek(-len(head), io.SEEK_CUR)  # read in one piece from its start, it is not copied
        plain = _Plain(raw, b"", name)
    else:
        plain = _Plain(raw, head, name)
    if head[:2] == GZIP_MAGIC:
        return _Members(plain, "gzip", name, lambda: zlib.decompressobj(wbits=31))
    if head == ZSTD_MAGIC or (head[1:] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return _Members(plain, "zstd", name, lambda: zstandard.ZstdDecompressor().decompressobj())
    return plain


@contextmanager
def open_input(source: Source, listed: Wanted | None = None) -> Iterator[ByteReader]:
    """A reader of the decompressed content of `source`.

    `source` is a path, the name of an object (``s3://BUCKET/KEY``, a str), ``"-"`` for standard
    input, or a binary file object (left open). An object must be as it was `listed`. Reading
    raises InputError, at the last line reached of the decompressed content, where the compressed
    data are corrupt or end too early; opening raises it for a path that cannot be read. ObjectError
    (not the file's fault) is raised where S3 cannot be asked.
    """
    name = source_name(source)
    if not isinstance(source, Path | str):
        yield _content(source, name)
        return
    if str(source) == STDIN:
        yield _content(sys.stdin.buffer, name)
        return
    check_name(str(source))
    if is_remote(source):
        with open_remote(name, listed) as stream:
            yield _content(stream, name)
        return
    try:
        raw = Path(source).open("rb")  # noqa: SIM115 - the error below must not cover the body
    except OSError as error:
        raise unreadable(name, error) from error
    with raw:
        yield _content(raw, name)


class Raw(io.RawIOBase):
    """Decompressed content as a file object of Python's; closing it closes nothing else."""

    def __init__(self, stream: ByteReader) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes; all remaining ones if `size` is negative or None."""
        if size is not None and size >= 0:
            return self._stream.read(size)
        return b"".join(iter(partial(self._stream.read, _CHUNK), b""))

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class Digesting(Raw):
    """Decompressed content that is digested on its way to a parser."""

    def __init__(self, stream: ByteReader, name: str) -> None:
        super().__init__(stream)
        self._digest = hashlib.blake2b(digest_size=FULL_DIGEST_BYTES)
        self.name = name

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._digest.update(data)
        return data

    def digest(self) -> bytes:
        """The digest of the whole content, what is left of it included."""
        while self.read(_CHUNK):
            continue
        return self._digest.digest()


def read_head(source: Source, size: int) -> bytes:
    """The first `size` decompressed bytes of `source`, or all that it has."""
    head = b""
    with open_input(source) as stream:
        while len(head) < size and (data := stream.read(size - len(head))):
            head += data
    return head


def content_digest(source: Source) -> bytes:
    """BLAKE2b (16 bytes) of the decompressed content of `source`: the file's identity."""
    with open_input(source) as stream:
        return Digesting(stream, source_name(source)).digest()
