"""A chunk: some inputs that one process reads, and the unit in which a killed run goes on.

While the process parses one input, a thread reads and digests the next.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

from storewise.atomic import write_aside
from storewise.dataset.segments import Run, RunBuilder, RunWriter
from storewise.dataset.settings import Settings
from storewise.errors import InputError
from storewise.s3.uri import is_remote
from storewise.ssearch.parse.lines import CHUNK
from storewise.ssearch.parse.remote import Listed, fetched_ahead
from storewise.ssearch.parse.stream import CHANGED, Digesting, Source, open_input, unreadable
from storewise.ssearch.reader import DocumentReader

T = TypeVar("T")

#: Text that is kept in memory while it is digested; longer inputs are read twice.
KEPT_BYTES = 16 << 20
ALIGNMENTS_PER_BATCH = 8192
_READ = 1 << 20
DONE = "done.json"


@dataclass(frozen=True, slots=True)
class InputRow:
    """An input that has been read: its digest and counts, or its error.

    `digest` is in hexadecimal digits, empty for a `bad` one; `bad` says why it was left out. `text`
    is bytes of decompressed content, `format` the text of an `InputFormat`.
    """

    path: str
    bytes: int
    mtime_ns: int
    digest: str = ""
    text: int = 0
    queries: int = 0
    hits: int = 0
    alignments: int = 0
    warning: str | None = None
    bad: str | None = None
    format: str | None = None

    @property
    def documents(self) -> int:
        """One for each search, three for each alignment."""
        return self.queries + 3 * self.alignments


@dataclass(frozen=True, slots=True)
class Chunk:
    """Inputs that one process reads, and the directory for their sorted runs."""

    files: Sequence[Listed]
    directory: Path
    settings: Settings

    @property
    def text(self) -> int:
        """Stored bytes of its inputs."""
        return sum(file.bytes for file in self.files)


def chunk_name(files: Sequence[Listed], settings: Settings) -> str:
    """The name of a chunk's directory: another for other inputs, changed ones, other settings."""
    known = json.dumps([[list(file) for file in files], asdict(settings)])
    return hashlib.blake2b(known.encode(), digest_size=10).hexdigest()


def read_chunk(chunk: Chunk) -> list[InputRow]:
    """Read the inputs of a chunk and write their sorted runs into its directory; returns a row for
    each input (`bad` has the error of a bad one).

    A chunk that a killed conversion has finished is not read again.
    """
    done = chunk.directory / DONE
    if done.exists():
        return [InputRow(**row) for row in json.loads(done.read_bytes())]
    shutil.rmtree(chunk.directory, ignore_errors=True)
    chunk.directory.mkdir(parents=True)
    with RunWriter(chunk.directory) as writer:
        rows = _read(chunk, writer.write)
    write_aside(done, json.dumps([asdict(row) for row in rows]))
    return rows


def read_in_memory(chunk: Chunk) -> tuple[list[InputRow], list[Run]]:
    """The inputs of a chunk and their runs, none of which was written."""
    runs: list[Run] = []
    return _read(chunk, runs.append), runs


@dataclass(frozen=True, slots=True)
class _Content:
    """The text of an input and its digest, which the ids need before the first is made."""

    source: Source
    digest: bytes
    copy: Path | None = None


def _read(chunk: Chunk, take: Callable[[Run], None]) -> list[InputRow]:
    builder = RunBuilder(chunk.settings)
    rows = []
    with _prefetch_one(_contents(chunk)) as contents:
        for number, (file, content) in enumerate(zip(chunk.files, contents, strict=True)):
            try:
                if isinstance(content, InputError):
                    raise content
                rows.append(_read_input(number, file, content, builder, take))
            except InputError as error:
                rows.append(InputRow(*file, bad=str(error)))
    if builder.size:
        take(builder.take())
    return rows


@contextmanager
def _prefetch_one(things: Generator[T]) -> Iterator[Iterator[T]]:
    """A context with an iterator over `things`: a thread makes the next thing while one is used.

    The whole generator runs in that thread, which ends with the context.
    """

    def used(pool: ThreadPoolExecutor) -> Iterator[T]:
        future = pool.submit(next, things, None)
        while (thing := future.result()) is not None:
            future = pool.submit(next, things, None)
            yield thing

    with ThreadPoolExecutor(1, "prefetch") as pool:
        try:
            yield used(pool)
        finally:
            pool.submit(things.close).result()


def _contents(chunk: Chunk) -> Generator[_Content | InputError]:
    """Yield the content of each input of a chunk, or its error."""
    with fetched_ahead(chunk.files):
        for file in chunk.files:
            try:
                yield _content(file, chunk.directory)
            except InputError as error:
                yield error


def _content(file: Listed, directory: Path) -> _Content:
    """A short text is kept in memory. A longer one will be read a second time, of an object from a
    copy: one transfer, and no other object of the name in between."""
    kept: list[bytes] = []
    size = 0
    with open_input(file.path, file) as stream:
        text = Digesting(stream, file.path)
        if file.bytes > KEPT_BYTES and not is_remote(file.path):
            return _Content(file.path, text.digest())
        # A short plain file comes in one piece, which is not copied.
        piece = min(max(file.bytes + 1, _READ), KEPT_BYTES + 1)
        while size <= KEPT_BYTES and (data := text.read(piece)):
            kept.append(data)
            size += len(data)
        if size <= KEPT_BYTES:
            return _Content(io.BytesIO(b"".join(kept)), text.digest())
        if not is_remote(file.path):
            return _Content(file.path, text.digest())
        directory.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=directory, suffix=".copy", delete=False) as copy:
            copy.writelines(kept)
            while data := text.read(_READ):
                copy.write(data)
        return _Content(copy.name, text.digest(), Path(copy.name))


def _read_input(
    number: int,
    file: Listed,
    content: _Content,
    builder: RunBuilder,
    take: Callable[[Run], None],
) -> InputRow:
    builder.begin_input()
    reader = DocumentReader(
        content.source,
        content.digest,
        input_format=builder.settings.input_format,
        encoding="arrow",
        alignments_per_batch=ALIGNMENTS_PER_BATCH,
        # What is in memory already need not be copied in small pieces.
        chunk_bytes=CHUNK if content.source == file.path or content.copy else KEPT_BYTES,
        name=file.path,
    )
    text = 0
    for batch in reader:
        text = batch.bytes_read
        builder.add(number, content.digest, batch)
        if builder.full:
            take(builder.take())
    if content.copy is not None:
        content.copy.unlink()
    _check_unchanged(file)
    counts = reader.counts
    return InputRow(
        *file,
        digest=content.digest.hex(),
        text=text,
        queries=counts.queries,
        hits=counts.hits,
        alignments=counts.alignments,
        warning="; ".join(reader.warnings) or None,
        format=reader.format,
    )


def _check_unchanged(file: Listed) -> None:
    """Raises InputError for a file that is no longer as it was listed."""
    if is_remote(file.path):
        return  # objects are compared when they are opened
    try:
        status = os.stat(file.path)  # noqa: PTH116 - as fast as it can be, for a million files
    except OSError as error:
        raise unreadable(file.path, error) from error
    if (status.st_size, status.st_mtime_ns) != (file.bytes, file.mtime_ns):
        raise InputError(file.path, CHANGED)
