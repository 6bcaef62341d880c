"""Objects as byte streams: read in windows, resumed where a connection breaks, never mixed.

A window is one request. An object that is replaced while it is read is an error (Changed): the
first answer's ETag is a condition of every further request.
"""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError
from urllib3.exceptions import HTTPError

from storewise.s3.client import TRIES, Changed, ObjectError, code_of, error_of, explained, s3
from storewise.s3.listing import stat, version, version_of
from storewise.s3.uri import Place, Wanted, parse

#: Bytes of one request: some hundred times what its round trip costs, little beside memory.
WINDOW = 8 << 20
_PIECE = 256 << 10
#: Seconds before the second try of a window whose body broke; doubled for each further one.
_WAIT = 0.1
_REPLACED = (
    "the object was replaced since it was listed; make the manifest again (`snakemake -R manifest`)"
)


#: S3's names for "fewer requests at a time" and "not now": a fleet may be told so for minutes, and
#: hours of a load would be lost by giving up as soon as boto3 does.
_BUSY = {"SlowDown", "ServiceUnavailable", "InternalError", "503", "500"}


class _Busy(Exception):
    def __init__(self, answer: ClientError) -> None:
        super().__init__(str(answer))
        self.answer = answer


class Stopped(Exception):
    """The reader of the window has gone."""


def window(
    place: Place,
    start: int,
    size: int,
    *,
    of: int,
    etag: str = "",
    listed: int | None = None,
    stop: threading.Event | None = None,
) -> tuple[bytearray, str]:
    """Bytes `start`..`start + size` of an object of `of` bytes, and its ETag.

    `etag`, or where it is not known yet `listed` (the `version` of what was listed), must be the
    object's, else Changed is raised. A body that breaks is resumed where it broke, TRIES times in
    all; so often, with boto3's own tries each time, is a request made that S3 was too busy for. An
    object that is read whole is checked against the checksum that S3 keeps with it.
    Raises Stopped soon after `stop` is set.
    """
    got = bytearray()
    tries = 0
    while True:
        tries += 1
        try:
            etag = _add(got, place, start, size, of, etag, listed, stop)
            return got, etag
        except FlexibleChecksumError as error:
            got.clear()
            broken: Exception = error
        except _Busy as error:
            broken = error.answer
        except (BotoCoreError, HTTPError, OSError) as error:
            broken = error
            if len(got) >= size:
                got.clear()  # all of it, and still not well: nothing is left to resume
        if tries >= TRIES:
            if isinstance(broken, FlexibleChecksumError | ClientError):
                raise error_of(place, broken) from broken
            raise ObjectError(
                f"{place}: the answer ended too early, {tries} times ({broken}); check the network"
            ) from broken
        # Not all clients that lost one server come back to it at the same moment.
        (stop or threading.Event()).wait(_WAIT * 2 ** (tries - 1) * random.uniform(0.5, 1.5))
        if stop is not None and stop.is_set():
            raise Stopped


def _add(
    got: bytearray,
    place: Place,
    start: int,
    size: int,
    of: int,
    etag: str,
    listed: int | None,
    stop: threading.Event | None,
) -> str:
    """Append to `got` the bytes that it lacks of the `size` bytes from `start`; returns the ETag.

    Raises Changed if the object is not that of `of` bytes with `etag` (or version `listed`).
    """
    request: dict[str, Any] = {"Bucket": place.bucket, "Key": place.key}
    if etag:
        request["IfMatch"] = etag
    if got or size < of:
        request["Range"] = f"bytes={start + len(got)}-{start + size - 1}"
    with explained(place):
        try:
            answer = s3().get_object(**request)
        except ClientError as error:
            if code_of(error) in ("InvalidRange", "416"):
                raise Changed(f"{place}: {_REPLACED}") from error
            if code_of(error) in _BUSY:
                raise _Busy(error) from error
            raise
    body = answer["Body"]
    try:
        if _total(answer) != of or not (
            answer["ETag"] == etag if etag else listed in (None, version(answer["ETag"]))
        ):
            raise Changed(f"{place}: {_REPLACED}")
        while data := body.read(min(_PIECE, size - len(got) + 1)):
            got += data
            if stop is not None and stop.is_set():
                raise Stopped
    finally:
        # A body that was not read to its end makes its connection useless for another request.
        body.close()
    if len(got) != size:
        raise OSError(f"{len(got)} of {size} bytes arrived")
    return str(answer["ETag"])


def _total(answer: Mapping[str, Any]) -> int:
    """Bytes of the whole object that an answer is about (RFC 9110, 14.4)."""
    if "ContentRange" in answer:
        return int(answer["ContentRange"].rpartition("/")[2])
    return int(answer["ContentLength"])


class ObjectStream(io.RawIOBase):
    """The stored bytes of an object, read in windows: `take(offset, most)` gives the next bytes, at
    least one and at most so many."""

    def __init__(
        self, name: str, size: int, take: Callable[[int, int], bytearray], done: Callable[[], None]
    ) -> None:
        self.name = name
        self._size = size
        self._take = take
        self._done = done
        self._data = memoryview(b"")
        self._next = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, as a raw stream gives them; all that is left for -1."""
        if size < 0:
            parts = []
            while part := self.read(WINDOW):
                parts.append(part)
            return b"".join(parts)
        if not self._data and self._next < self._size:
            length = min(WINDOW, self._size - self._next)
            self._data = memoryview(self._take(self._next, length))
            self._next += len(self._data)
        data, self._data = self._data[:size], self._data[size:]
        return bytes(data)

    def close(self) -> None:
        if not self.closed:
            self._data = memoryview(b"")
            self._done()
        super().close()


def open_object(name: str, listed: Wanted | None = None) -> ObjectStream:
    """A stream of the object `name`; with `listed` only if it is still as it was listed.

    Without `listed` the object is asked for first. Raises NotThere, Changed or another ObjectError,
    also in reading.
    """
    size, take = _windows(name, listed)
    return ObjectStream(name, size, take, lambda: None)


def _windows(name: str, listed: Wanted | None) -> tuple[int, Callable[[int, int], bytearray]]:
    """The size of an object, and a function that reads a range (offset, bytes) of it."""
    place = parse(name)
    etag = ""
    wanted: int | None = None
    if listed is None:
        known = stat(place)
        size, etag = known.size, known.etag
    else:
        size, wanted = listed.bytes, version_of(listed.mtime_ns)

    def take(start: int, length: int) -> bytearray:
        nonlocal etag
        data, etag = window(place, start, length, of=size, etag=etag, listed=wanted)
        return data

    return size, take
