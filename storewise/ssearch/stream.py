"""Byte streams of SSEARCH outputs: plain, gzip or zstd, from a path, a file object or stdin.

The compression is recognised by the first bytes of the content, never by the file's name. A stream
that ends inside a compressed member or fails its checksum is an error, not an end of file: the
usual file-object wrappers (`gzip.open`, zstandard's `stream_reader`) are not used because the
latter takes a truncated frame for a complete one.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard

from storewise.documents import FULL_DIGEST_BYTES
from storewise.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
#: A zstd stream may start with a skippable frame: magic 0x184D2A50..5F, little-endian (RFC 8878).
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
#: `Path` or name that stands for standard input.
STDIN = "-"

#: Compressed bytes given to a decompressor at a time; bounds what one call can expand to.
_FEED = 32 * 1024
_CHUNK = 1 << 20

Source = Path | str | BinaryIO


class ByteReader(Protocol):
    """What `open_input` gives: decompressed content, in pieces."""

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

    def __init__(self, raw: BinaryIO, head: bytes, name: str) -> None:
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
                raise _unreadable(self._name, error, self._offset) from error
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
        self._ready = b""

    def read(self, size: int, /) -> bytes:
        parts: list[bytes] = []
        room = size
        while room > 0:
            if not self._ready:
                self._ready = self._more()
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
                self._offset += len(data)
                return data

    def _error(self, reason: str, detail: str | None = None) -> InputError:
        return InputError(
            self._name,
            f"{reason} (about compressed byte {self._consumed}, after {self._offset} bytes of "
            "content); copy or make the file again",
            offset=self._offset,
            expected=f"whole {self._kind} data",
            found=detail,
        )


def _unreadable(name: str, error: OSError, offset: int | None = None) -> InputError:
    reason = error.strerror or str(error)
    return InputError(name, f"the file cannot be read: {reason}", offset=offset)


def source_name(source: Source) -> str:
    """How messages name `source`."""
    if isinstance(source, Path | str):
        return "standard input" if str(source) == STDIN else str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "a stream"


def _zstd() -> _Decompressor:
    return zstandard.ZstdDecompressor().decompressobj()


def _gzip() -> _Decompressor:
    return zlib.decompressobj(wbits=31)


def _content(raw: BinaryIO, name: str) -> ByteReader:
    head = b""
    start = _Plain(raw, b"", name)
    while len(head) < len(ZSTD_MAGIC):
        more = start.read(len(ZSTD_MAGIC) - len(head))
        if not more:
            break
        head += more
    plain = _Plain(raw, head, name)
    if head[:2] == GZIP_MAGIC:
        return _Members(plain, "gzip", name, _gzip)
    if head == ZSTD_MAGIC or (head[1:] == _ZSTD_SKIPPABLE and 0x50 <= head[0] <= 0x5F):
        return _Members(plain, "zstd", name, _zstd)
    return plain


@contextmanager
def open_input(source: Source) -> Iterator[ByteReader]:
    """A reader of the decompressed content of `source`.

    `source` is a path, ``"-"`` for standard input, or a binary file object (left open). Reading
    raises InputError, with the decompressed offset reached, where the compressed data are corrupt
    or end too early; opening raises it for a path that cannot be read.
    """
    name = source_name(source)
    if not isinstance(source, Path | str):
        yield _content(source, name)
        return
    if str(source) == STDIN:
        yield _content(sys.stdin.buffer, name)
        return
    try:
        raw = Path(source).open("rb")  # noqa: SIM115 - the error below must not cover the body
    except OSError as error:
        raise _unreadable(name, error) from error
    with raw:
        yield _content(raw, name)


def content_digest(source: Source) -> bytes:
    """BLAKE2b (16 bytes) of the decompressed content of `source`: the file's identity."""
    digest = hashlib.blake2b(digest_size=FULL_DIGEST_BYTES)
    with open_input(source) as stream:
        while data := stream.read(_CHUNK):
            digest.update(data)
    return digest.digest()
