"""Digest, counts and completeness of each input file, many files in parallel.

Each file is read once, with every check that the load makes, so that a bad file is found before
anything is loaded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from storewise.documents import DIGEST_BYTES
from storewise.errors import InputError, StorewiseError
from storewise.processes import in_processes
from storewise.s3.uri import Wanted, is_remote
from storewise.ssearch.parse import remote
from storewise.ssearch.parse.remote import Listed, fetched_ahead
from storewise.ssearch.parse.stream import CHANGED, Digesting, damage, open_input, unreadable
from storewise.ssearch.reader import DocumentReader

#: Version of what is counted and refused. Rows of the cache that another version made are not used.
RULES = 4

#: A process reports after at most this much, which is what a ``kill -9`` can lose of its work.
MAX_CHUNK_FILES = 512
MAX_CHUNK_BYTES = 256 << 20

#: A row of a good file: the columns of `table.FILE_COLUMNS`.
FileRow = tuple[str, int, int, bytes, int, int, int, str, str | None]
#: A row of a bad file in the columns of a part.
BadRow = dict[str, Any]


class ScanResult(NamedTuple):
    """The content of a complete file.

    `digest` is the BLAKE2b of the decompressed content (16 bytes). `queries` are query-library
    searches, `hits` are ``>>`` blocks (frames f and r apart), `alignments` are hits and their
    further alignments (``>--``). `format` is the text of an `InputFormat`, `warnings` are sentences
    for the user.
    """

    digest: bytes
    queries: int
    hits: int
    alignments: int
    format: str
    warnings: tuple[str, ...] = ()


class Progress(Protocol):
    """Is told how many files are done; bytes are stored sizes of the files."""

    def __call__(
        self, done_files: int, total_files: int, done_bytes: int, total_bytes: int, /
    ) -> None: ...


def scan_file(
    path: Path | str, input_format: str = "", *, listed: Wanted | None = None
) -> ScanResult:
    """Digest, counts and warnings of the file at `path` (plain, gzip or zstd), of the format
    that is given or shows.

    An object must be as it was `listed`. Raises InputError, with line and byte, where the file is
    unreadable, of another format, corrupt or not complete.
    """
    with open_input(path, listed) as stream:
        content = Digesting(stream, str(path))
        reader = DocumentReader(
            cast(BinaryIO, content), bytes(DIGEST_BYTES), input_format=input_format
        )
        try:
            counts = reader.count()
        except InputError as error:
            raise damage(stream, error) from error
        return ScanResult(
            content.digest(),
            counts.queries,
            counts.hits,
            counts.alignments,
            reader.format,
            tuple(reader.warnings),
        )


def status_of(paths: Sequence[str]) -> tuple[list[Listed], list[BadRow]]:
    """Size and time of each of `paths` from the file system or S3, and rows of those that cannot be
    read."""
    found: list[Listed] = []
    missing: list[BadRow] = []
    objects = remote.stats(paths)
    for path in paths:
        try:
            if not is_remote(path):
                found.append(Listed(path, *_stat(path)))
            elif path in objects:
                found.append(Listed(path, objects[path].size, objects[path].mtime_ns))
            else:
                raise InputError(path, "there is no such object")
        except InputError as error:
            missing.append(_bad_row(Listed(path, 0, 0), error))
    return found, missing


def scan_files(
    files: Sequence[Listed],
    add: Callable[[list[FileRow]], None],
    *,
    processes: int,
    input_format: str = "",
    progress: Progress | None = None,
) -> list[BadRow]:
    """Scans `files` and hands the rows of good ones to `add` as they come; returns the bad rows.

    With ``processes`` above 1 the work is done in that many child processes, which end with this
    one however it ends.
    """
    total_bytes = sum(file.bytes for file in files)
    done_files = done_bytes = 0
    bad: list[BadRow] = []
    # Several chunks a process, so that none waits long for the last one.
    max_files = min(MAX_CHUNK_FILES, -(-len(files) // (4 * max(processes, 1))))
    for good, failed in in_processes(
        partial(_scan_chunk, input_format), _chunks(files, max_files), processes, killed=_killed
    ):
        add(good)
        bad += failed
        done_files += len(good) + len(failed)
        done_bytes += sum(row[1] for row in good) + sum(row["bytes"] for row in failed)
        if progress is not None:
            progress(done_files, len(files), done_bytes, total_bytes)
    return bad


def _killed(files: list[Listed]) -> StorewiseError:
    return StorewiseError(
        f"a process that reads input files was killed (out of memory?); {files[0].path} and those "
        "after it are not done: run again with fewer processes, finished files are not read again"
    )


def _chunks(files: Sequence[Listed], max_files: int) -> Iterator[list[Listed]]:
    """`files` in lists of at most `max_files`, which end with the file that reaches the bytes."""
    chunk: list[Listed] = []
    size = 0
    for file in files:
        chunk.append(file)
        size += file.bytes
        if len(chunk) >= max_files or size >= MAX_CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _scan_chunk(input_format: str, files: list[Listed]) -> tuple[list[FileRow], list[BadRow]]:
    good: list[FileRow] = []
    bad: list[BadRow] = []
    with fetched_ahead(files):
        for file in files:
            try:
                good.append(_scan_one(file, input_format))
            except InputError as error:
                bad.append(_bad_row(file, error))
    return good, bad


def _scan_one(file: Listed, input_format: str) -> FileRow:
    path = file.path
    # Of an object nothing is read that is not of the version that was listed.
    before = file[1:] if is_remote(path) else _stat(path)
    result = scan_file(path, input_format, listed=file)
    if not is_remote(path) and before != _stat(path):
        raise InputError(path, CHANGED)
    return (path, *before, *result[:5], "; ".join(result.warnings) or None)


def _stat(path: str) -> tuple[int, int]:
    """Size in bytes and modification time (ns) of a file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a million strings, no Path objects
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(path, "not a regular file (a directory, a pipe or a device)")
    return status.st_size, status.st_mtime_ns


def _bad_row(file: Listed, error: InputError) -> BadRow:
    path, size, time = file
    if not is_remote(path):
        try:
            size, time = _stat(path)
        except InputError:
            size, time = 0, 0  # it is gone; the error already says so
    return {
        "path": path,
        "bytes": size,
        "mtime_ns": time,
        "error_line": error.line,
        "error_offset": error.offset,
        "error": str(error),
    }
