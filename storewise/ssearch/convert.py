"""The documents of a file as files: JSON lines or BSON, one for each kind."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, Literal, NamedTuple, cast, get_args

import orjson

from storewise.atomic import aside
from storewise.documents import FULL_DIGEST_BYTES, KINDS, Document, Kind
from storewise.errors import InputError, StorewiseError
from storewise.s3.uri import is_remote
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
from storewise.ssearch.reader import DocumentReader

Format = Literal["jsonl", "bson"]

_BATCH = 10_000
_CHUNK = 1 << 20
_NAME_HASH_BYTES = 5
_COMPRESSED = (".gz", ".zst", ".zstd")


def _json_line(document: Document) -> bytes:
    """One object a line; ids as 24 hexadecimal digits, missing values as null."""
    return orjson.dumps(document, default=bytes.hex, option=orjson.OPT_APPEND_NEWLINE)


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


def _rewindable(source: Source, outdir: Path, stack: ExitStack) -> Source:
    """`source` if it can be read twice (for the digest, then for the documents), else a copy.

    Streams are copied: they may not rewind. So are objects: one transfer, and nobody can replace
    the object between two reads.
    """
    if isinstance(source, Path | str) and str(source) != STDIN and not is_remote(source):
        return source
    spool = stack.enter_context(
        NamedTemporaryFile(dir=outdir, prefix=".", suffix=".part")  # noqa: SIM115 - the stack does
    )
    with open_input(source) as stream:
        while data := stream.read(_CHUNK):
            spool.write(data)
    spool.flush()
    return Path(spool.name)


class Converted(NamedTuple):
    """The files that were written, in the order of the kinds, and warnings about the input."""

    paths: list[Path]
    warnings: list[str]


def convert_file(
    source: Source, to: str, outdir: Path | str, *, input_format: str = ""
) -> Converted:
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
            return _convert(source, to, directory, input_format, stack)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorewiseError(
            f"the documents of {source_name(source)} cannot be written to {directory}: {reason}"
        ) from error


def _convert(
    source: Source, to: str, directory: Path, input_format: str, stack: ExitStack
) -> Converted:
    readable = _rewindable(source, directory, stack)
    digest = content_digest(readable)
    stem = output_stem(source, digest)
    paths = {kind: directory / f"{stem}.{kind.table}.{to}" for kind in KINDS}
    files: dict[Kind, BinaryIO] = {}
    for kind, path in paths.items():
        place = stack.enter_context(aside(path))
        files[kind] = stack.enter_context(place.open("wb"))
    # BSON as mongodump writes it, and mongorestore and bsondump read it.
    dump: Callable[[Any], bytes] = _json_line if to == "jsonl" else bytes
    # The name for messages must be the input's, not the copy's.
    name = source_name(source)
    with open_input(readable) as stream:
        content = Digesting(stream, name)
        reader = DocumentReader(
            cast(BinaryIO, content),
            digest,
            input_format=input_format,
            encoding="bson" if to == "bson" else "dict",
            alignments_per_batch=_BATCH,
            name=name,
        )
        try:
            for batch in reader:
                for kind, documents in batch:
                    files[kind].writelines(map(dump, documents))
        except InputError as error:
            raise damage(stream, error) from error
        # The ids are made of the digest, so the file was read once before.
        if content.digest() != digest:
            raise InputError(name, CHANGED)
    # All are on disk before the first gets its name.
    for file in files.values():
        file.flush()
        os.fsync(file.fileno())
    return Converted(list(paths.values()), reader.warnings)
