"""The documents of a file as files: JSON lines, BSON or Parquet, one for each kind."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, cast, get_args

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.documents import (
    FULL_DIGEST_BYTES,
    ID_BYTES,
    KINDS,
    PARAMS_COLUMN,
    Document,
    Encoding,
    Kind,
    fields,
)
from storewise.errors import InputError, StorewiseError
from storewise.s3.uri import is_remote
from storewise.ssearch.parse.reader import DocumentReader
from storewise.ssearch.parse.stream import (
    CHANGED,
    STDIN,
    Digesting,
    Source,
    content_digest,
    damage,
    open_input,
    source_name,
)

Format = Literal["jsonl", "bson", "parquet"]

_BATCH = 10_000
_CHUNK = 1 << 20
_NAME_HASH_BYTES = 5
_COMPRESSED = (".gz", ".zst", ".zstd")
#: Columns of the ids, floats, ... that `documents.FIELDS` names.
_ARROW_TYPES = {
    "id": pa.binary(ID_BYTES),
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
}


class _Writer(Protocol):
    def write(self, documents: list[Any]) -> None: ...
    def close(self) -> None: ...


class _JsonLines:
    """One object a line; ids as 24 hexadecimal digits, missing values as null."""

    def __init__(self, file: BinaryIO, kind: Kind) -> None:
        self._file = file

    def write(self, documents: list[Document]) -> None:
        option = orjson.OPT_APPEND_NEWLINE
        self._file.writelines(
            orjson.dumps(document, default=bytes.hex, option=option) for document in documents
        )

    def close(self) -> None:
        """Nothing is held back."""


class _Bson:
    """Documents one behind the other, as mongodump writes and mongorestore and bsondump read."""

    def __init__(self, file: BinaryIO, kind: Kind) -> None:
        self._file = file

    def write(self, documents: list[bytes]) -> None:
        self._file.writelines(documents)

    def close(self) -> None:
        """Nothing is held back."""


class _Parquet:
    """Columns typed by `documents.FIELDS`; a task's pg_/mp_ values as JSON in `params`."""

    def __init__(self, file: BinaryIO, kind: Kind) -> None:
        self._kind = kind
        self._names = [field.name for field in fields(kind)]
        columns = [(field.name, _ARROW_TYPES[field.type]) for field in fields(kind)]
        if kind is Kind.TASKS:
            columns.append((PARAMS_COLUMN, pa.string()))
        self._schema = pa.schema(columns)
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, documents: list[Document]) -> None:
        if not documents:
            return
        columns = {name: [document[name] for document in documents] for name in self._names}
        if self._kind is Kind.TASKS:
            known = set(self._names)
            columns[PARAMS_COLUMN] = [
                orjson.dumps({k: v for k, v in document.items() if k not in known}).decode()
                for document in documents
            ]
        self._writer.write_table(pa.table(columns, schema=self._schema))

    def close(self) -> None:
        """Writes the footer; once."""
        self._writer.close()


_WRITERS: dict[str, tuple[Callable[[BinaryIO, Kind], _Writer], Encoding]] = {
    "jsonl": (_JsonLines, "dict"),
    "bson": (_Bson, "bson"),
    "parquet": (_Parquet, "dict"),
}


def output_stem(source: Source, digest: bytes) -> str:
    """The start of the output files' names: the input's name and a hash.

    The hash is of the absolute path, so that inputs of one name from several directories do not
    meet; for standard input and streams it is the content's digest.
    """
    if isinstance(source, Path | str) and str(source) != STDIN:
        # The name of an object is absolute already.
        path = source if is_remote(source) else Path(source).absolute()
        name = Path(path).name
        identity = hashlib.blake2b(os.fsencode(path), digest_size=FULL_DIGEST_BYTES).digest()
    else:
        name, identity = "stdin" if isinstance(source, Path | str) else "stream", digest
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return f"{name}-{identity[:_NAME_HASH_BYTES].hex()}"


@contextmanager
def _aside(outdir: Path) -> Iterator[BinaryIO]:
    """A temporary file in `outdir`, gone afterwards unless it was renamed."""
    with NamedTemporaryFile(dir=outdir, prefix=".", suffix=".part", delete=False) as file:
        try:
            yield file  # type: ignore[misc]
        finally:
            Path(file.name).unlink(missing_ok=True)


def _rewindable(source: Source, outdir: Path, stack: ExitStack) -> Source:
    """`source` if it can be read twice, else a copy of its content: the ids need the digest first.

    Streams are copied too: where they begin, and whether they can be read again, is unknown. So
    are objects: one transfer, and no other object of the name in between.
    """
    if isinstance(source, Path | str) and str(source) != STDIN and not is_remote(source):
        return source
    spool = stack.enter_context(_aside(outdir))
    with open_input(source) as stream:
        while data := stream.read(_CHUNK):
            spool.write(data)
    spool.flush()
    return Path(spool.name)


class Converted(NamedTuple):
    """The files that were written, in order of kinds, and what is to be said of the input."""

    paths: list[Path]
    warnings: list[str]


def convert_file(source: Source, to: str, outdir: Path | str) -> Converted:
    """Writes the documents of `source` below `outdir`.

    Four files, ``NAME-HASH.KIND.EXTENSION`` (`output_stem`; KIND is tasks, rna, gs or align); they
    appear together, when all are whole, and replace those of an earlier conversion. After an error
    nothing is left. Raises InputError for a bad input, StorewiseError where `outdir` cannot be
    written to.
    """
    if to not in get_args(Format):
        raise StorewiseError(
            f"unknown format {to!r}; expected one of {', '.join(get_args(Format))}"
        )
    directory = Path(outdir)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            return _convert(source, to, directory, stack)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorewiseError(
            f"the documents of {source_name(source)} cannot be written to {directory}: {reason}"
        ) from error


def _convert(source: Source, to: str, directory: Path, stack: ExitStack) -> Converted:
    make, encoding = _WRITERS[to]
    readable = _rewindable(source, directory, stack)
    digest = content_digest(readable)
    files = {kind: stack.enter_context(_aside(directory)) for kind in KINDS}
    writers = {kind: make(file, kind) for kind, file in files.items()}
    for writer in writers.values():
        stack.callback(writer.close)  # before its file, after an error too
    # The name for messages must be the input's, not the copy's.
    name = source_name(source)
    with open_input(readable) as stream:
        content = Digesting(stream, name)
        reader = DocumentReader(
            cast(BinaryIO, content),
            digest,
            encoding=encoding,
            alignments_per_batch=_BATCH,
            name=name,
        )
        try:
            for batch in reader:
                for kind, documents in batch:
                    writers[kind].write(documents)
        except InputError as error:
            raise damage(stream, error) from error
        # The ids are made of the digest, so the file was read once before.
        if content.digest() != digest:
            raise InputError(name, CHANGED)
    stem = output_stem(source, digest)
    paths = []
    for kind, file in files.items():
        writers[kind].close()
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), 0o666 & ~_umask())
    for kind, file in files.items():
        path = directory / f"{stem}.{kind.table}.{to}"
        Path(file.name).replace(path)
        paths.append(path)
    return Converted(paths, reader.warnings)


def _umask() -> int:
    """The process's umask; there is no way to read it but to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
