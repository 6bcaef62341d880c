"""Files that others see whole or not at all, on any file system that hosts share."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")
_READERS: dict[Any, Any] = {}


def sync(path: Path) -> None:
    """Force a file's content, or the names in a directory, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def aside(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """A temporary path of a file that is named `path` at the end: readers see all or nothing.

    After an error nothing is left. With `durable` its content is on disk before it has the name.
    """
    place = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        yield place
        if durable:
            sync(place)
        place.replace(path)
    finally:
        place.unlink(missing_ok=True)


def clear_unfinished(directory: Path) -> None:
    """Remove the unfinished files of `aside` that killed processes left in a directory or below it.

    Call it only while nobody writes there. Raises OSError without permission.
    """
    for place in directory.rglob(".*.tmp"):
        place.unlink(missing_ok=True)


def write_aside(path: Path, text: str) -> None:
    """Write a small file so that others see all of it or nothing."""
    with aside(path) as place:
        place.write_text(text, encoding="utf-8")


def _reader(kind: Any) -> Any:
    # Built when it is first needed: most processes read none of these files.
    from pydantic import TypeAdapter

    if kind not in _READERS:
        _READERS[kind] = TypeAdapter(kind)
    return _READERS[kind]


def read_as(kind: type[T], path: Path) -> T:
    """Read a small JSON file as a dataclass; ValueError where it has another form (a host
    that crashed leaves empty files, another version other keys), OSError where it cannot be read.
    """
    return cast(T, _reader(kind).validate_json(path.read_bytes()))


def listed(directory: Path) -> frozenset[str]:
    """The names in a directory; none where there is no such directory.

    Opening a directory makes an NFS client ask its server whether it has changed (close-to-open
    consistency); that a path did not exist may stay cached for a minute.
    """
    try:
        return frozenset(os.listdir(directory))  # noqa: PTH208
    except FileNotFoundError:
        return frozenset()


def holds(directory: Path, name: str) -> bool:
    """Whether a directory has a file, looked up by listing it (`listed`)."""
    return name in listed(directory)
