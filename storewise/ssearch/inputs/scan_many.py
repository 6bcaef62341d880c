"""Scanning many files in parallel, in bounded chunks, with progress."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from storewise.errors import InputError, StorewiseError
from storewise.processes import in_processes
from storewise.s3.uri import is_remote
from storewise.ssearch.inputs.scan import DigestMode, scan_file
from storewise.ssearch.inputs.table import FILE_COLUMNS
from storewise.ssearch.parse import remote
from storewise.ssearch.parse.remote import Listed, fetched_ahead
from storewise.ssearch.parse.stream import CHANGED, unreadable

#: A worker reports after at most this much, which is what a ``kill -9`` can lose of its work.
CHUNK_FILES = 512
CHUNK_BYTES = 256 << 20

#: path, bytes, mtime_ns, digest, queries, hits, alignments, warning: `table.FILE_COLUMNS`.
FileRow = tuple[str, int, int, bytes, int | None, int | None, int | None, str | None]
#: A row of a bad file in the columns of a part.
BadRow = dict[str, Any]


class Progress(Protocol):
    """Is told how far the work is; bytes are stored sizes of the files."""

    def __call__(
        self, done_files: int, total_files: int, done_bytes: int, total_bytes: int, /
    ) -> None: ...


def status_of(paths: Sequence[str]) -> tuple[Any, list[BadRow]]:
    """What the file system says of `paths`, or S3: a table of path, bytes and mtime_ns, and rows of
    those that cannot be read."""
    kept: list[str] = []
    sizes: list[int] = []
    times: list[int] = []
    missing: list[BadRow] = []
    objects = remote.stats(paths)
    for path in paths:
        try:
            if not is_remote(path):
                size, time = _stat(path)
            elif path in objects:
                size, time = objects[path].size, objects[path].mtime_ns
            else:
                raise InputError(path, "there is no such object")
        except InputError as error:
            missing.append(_bad_row(Listed(path, 0, 0), error))
            continue
        kept.append(path)
        sizes.append(size)
        times.append(time)
    columns = [
        pa.array(kept, pa.string()),
        pa.array(sizes, pa.int64()),
        pa.array(times, pa.int64()),
    ]
    return pa.table(columns, schema=pa.schema(FILE_COLUMNS[:3])), missing


def listed(paths: Sequence[str]) -> tuple[list[Listed], list[BadRow]]:
    """As `status_of`, the files as tuples."""
    table, missing = status_of(paths)
    columns = [table[name].to_pylist() for name in Listed._fields]
    return [Listed(*row) for row in zip(*columns, strict=True)], missing


def survey(
    todo: Any,
    add: Callable[[list[FileRow]], None],
    *,
    processes: int,
    digest: DigestMode,
    seed: int,
    progress: Progress | None,
) -> list[BadRow]:
    """Scans the files of `todo` (a table of `status_of`) and hands good rows to `add` as they come.

    Returns the rows of bad files. With ``processes`` above 1 the work is done in that many child
    processes, which end with this one however it ends.
    """
    total_files = len(todo)
    total_bytes = sum(todo["bytes"].to_pylist()) if total_files else 0
    done_files = done_bytes = 0
    bad: list[BadRow] = []
    # Several chunks a process, so that none waits long for the last one.
    files = min(CHUNK_FILES, -(-total_files // (4 * max(processes, 1))))
    work = partial(_scan_chunk, digest, seed)
    for good, failed in in_processes(work, _chunks(todo, files), processes, killed=_killed):
        add(good)
        bad += failed
        done_files += len(good) + len(failed)
        done_bytes += sum(row[1] for row in good) + sum(row["bytes"] for row in failed)
        if progress is not None:
            progress(done_files, total_files, done_bytes, total_bytes)
    return bad


def _killed(files: list[Listed]) -> StorewiseError:
    return StorewiseError(
        f"a process that digests files was killed (out of memory?); {files[0].path} and those "
        "after it are not done: run again with fewer processes, finished files are not digested "
        "again"
    )


def _chunks(todo: Any, files: int) -> Iterator[list[Listed]]:
    chunk: list[Listed] = []
    size = 0
    for batch in todo.select(list(Listed._fields)).to_batches(max_chunksize=10_000):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            chunk.append(Listed(*row))
            size += chunk[-1].bytes
            if len(chunk) >= files or size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


def _scan_chunk(
    digest: DigestMode, seed: int, files: list[Listed]
) -> tuple[list[FileRow], list[BadRow]]:
    good: list[FileRow] = []
    bad: list[BadRow] = []
    # A sample reads a few blocks; files that are parsed are read twice.
    passes = {"sampled": 0, "full": 1, "parsed": 2}[digest]
    with fetched_ahead([file for file in files for _ in range(passes)]):
        for file in files:
            try:
                good.append(_scan_one(file, digest, seed))
            except InputError as error:
                bad.append(_bad_row(file, error))
    return good, bad


def _scan_one(file: Listed, digest: DigestMode, seed: int) -> FileRow:
    path = file.path
    # Of an object nothing is read that is not of the version that was listed.
    before = file[1:] if is_remote(path) else _stat(path)
    result = scan_file(path, digest=digest, seed=seed, listed=file)
    if not is_remote(path) and before != _stat(path):
        raise InputError(path, CHANGED)
    return (
        path,
        *before,
        result.digest,
        result.queries,
        result.hits,
        result.alignments,
        "; ".join(result.warnings) or None,
    )


def _stat(path: str) -> tuple[int, int]:
    """Size and time of a file."""
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
