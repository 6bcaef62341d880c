"""Input files that are objects on S3. boto3 is imported only where there is one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from storewise.errors import InputError, is_plain
from storewise.s3.uri import Stat, Wanted, is_remote

#: Inside the class below `bytes` is a field.
_Bytes = bytes


class Listed(NamedTuple):
    """A file or object as it was listed; `mtime_ns` of an object tells its ETag, too (`s3.uri`)."""

    path: str
    bytes: int
    mtime_ns: int


@contextmanager
def as_input(path: str) -> Iterator[None]:
    """Raises InputError for an object that is missing or was replaced. Errors of S3 itself (no
    answer, access denied) stay ObjectError: they are not the file's fault."""
    from storewise.s3.client import Changed, NotThere

    try:
        yield
    except (Changed, NotThere) as error:
        raise InputError(path, str(error).removeprefix(f"{path}: ")) from error


class RemoteInput(io.RawIOBase):
    """The stored bytes of an object; its errors are those of an input file."""

    def __init__(self, stream: io.RawIOBase, name: str) -> None:
        self._stream = stream
        self.name = name

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        with as_input(self.name):
            return self._stream.read(size) or b""

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_remote(path: str, listed: Wanted | None = None) -> Iterator[RemoteInput]:
    """The object at `path`: fetched ahead where a context does so, else read as asked for.

    Of `listed` it must be as it was listed; else InputError.
    """
    from storewise.s3.prefetch import opened_ahead
    from storewise.s3.stream import open_object

    with as_input(path):
        stream = opened_ahead(path) or open_object(path, listed)
    with stream:
        yield RemoteInput(stream, path)


def prepare(files: Iterable[Wanted]) -> None:
    """Makes this process's connection where any of `files` is an object, before a clock runs: it
    takes some tenths of a second."""
    if any(is_remote(file.path) for file in files):
        from storewise.s3.client import s3

        s3()


@contextmanager
def fetched_ahead(files: Sequence[Wanted]) -> Iterator[None]:
    """Within, `open_input` of those of `files` that are objects takes what threads have fetched.

    It expects them in this order, each as it was listed; some may be left out or be left before
    their end. Others, and a second opening, are read plainly. Bounds: `objects.ahead`. No thread
    outlives the context; a forked child reads plainly.
    """
    if not any(is_remote(file.path) for file in files):
        yield
        return
    from storewise.s3.prefetch import Ahead

    with Ahead(files):
        yield


def expand(spec: str) -> Iterator[str]:
    """The objects that `spec` names (`objects.listing.expand`)."""
    from storewise.s3 import listing

    for uri in listing.expand(spec):
        if not is_plain(uri):
            raise InputError(uri, "the key has control characters in it; copy the object")
        yield uri


def stats(paths: Iterable[str]) -> dict[str, Stat]:
    """Path -> size, time and ETag of those of `paths` that are objects on S3 and exist."""
    remote = sorted(path for path in paths if is_remote(path))
    if not remote:
        return {}
    from storewise.s3 import listing

    return listing.stats(remote)
