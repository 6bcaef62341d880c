"""Parquet tables of input files: the manifest's and the shards' columns, written atomically."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import aside
from storewise.documents import FULL_DIGEST_BYTES
from storewise.errors import InputError, StorewiseError

#: Version of the columns below, kept in each file's metadata.
SCHEMA_VERSION = "2"
_KIND_KEY = b"storewise.kind"
_VERSION_KEY = b"storewise.schema"

#: What is known of one file; digest and counts are null for a bad one. `format` is the text of an
#: `InputFormat`, `warning` is of a complete file.
FILE_COLUMNS = [
    pa.field("path", pa.string(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("mtime_ns", pa.int64(), nullable=False),
    pa.field("digest", pa.binary(FULL_DIGEST_BYTES)),
    pa.field("queries", pa.int64()),
    pa.field("hits", pa.int64()),
    pa.field("alignments", pa.int64()),
    pa.field("format", pa.string()),
    pa.field("warning", pa.string()),
]
#: Why a file cannot be used; all null for a good one.
ERROR_COLUMNS = [
    pa.field("error_line", pa.int64()),
    pa.field("error_offset", pa.int64()),
    pa.field("error", pa.string()),
]
PART_SCHEMA = pa.schema([*FILE_COLUMNS, *ERROR_COLUMNS])
#: `end` says whether the format shows where a file ends, and so whether it was cut.
MANIFEST_SCHEMA = pa.schema(
    [
        *FILE_COLUMNS,
        pa.field("documents", pa.int64()),
        pa.field("duplicate_of", pa.string()),
        pa.field("end", pa.string()),
    ]
)
SHARDS_SCHEMA = pa.schema(
    [*FILE_COLUMNS[:-1], pa.field("documents", pa.int64()), pa.field("shard", pa.int32())]
)


#: Inside the class below `bytes` is a field.
Digest = bytes


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a manifest or shard.

    `bytes` is the stored size, `digest` the 16 bytes that its document ids start with (7 of them).
    `documents` = `queries` + 3 x `alignments`. `format` is the text of an `InputFormat`. `shard` is
    None in a manifest.
    """

    path: str
    bytes: int
    mtime_ns: int
    digest: Digest
    queries: int
    hits: int
    alignments: int
    documents: int
    format: str = ""
    shard: int | None = None


def rows_of(table: Any) -> Iterator[InputFile]:
    """The rows of a manifest or shards table, one at a time."""
    names = [n for n in InputFile.__dataclass_fields__ if n in table.column_names]
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        columns = [batch.column(name).to_pylist() for name in names]
        for values in zip(*columns, strict=True):
            yield InputFile(**dict(zip(names, values, strict=True)))


def write_table(table: Any, out: Path, kind: str, **metadata: str) -> None:
    """Writes `table` as Parquet at `out`, aside first, so that `out` is whole or not there.

    Raises StorewiseError where it cannot be written (a full disk, a missing permission).
    """
    notes = {_KIND_KEY: kind.encode(), _VERSION_KEY: SCHEMA_VERSION.encode()}
    notes |= {f"storewise.{key}".encode(): value.encode() for key, value in metadata.items()}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with aside(out, durable=True) as place:
            pq.write_table(table.replace_schema_metadata(notes), place, compression="zstd")
    except OSError as error:
        raise StorewiseError(f"{out}: cannot be written: {error.strerror or error}") from error


def read_table(path: Path, kind: str, filters: Any = None) -> Any:
    """The Arrow table of the given kind (``manifest``, ``part``, ``shards``) at `path`.

    Raises InputError for a file that is missing, not Parquet, of another kind or version.
    """
    notes = metadata(path)
    expected = f"a Storewise {kind} file of schema {SCHEMA_VERSION}"
    if notes.get("kind") != kind or notes.get("schema") != SCHEMA_VERSION:
        actual = f"kind {notes.get('kind')!r}, schema {notes.get('schema')!r}"
        raise InputError(
            path, f"not this version's {kind}; make it again", expected=expected, found=actual
        )
    if filters is None:
        return pq.ParquetFile(path).read()
    return pq.read_table(path, filters=filters)  # imports Arrow's data sets: 0.2 s


def metadata(path: Path) -> dict[str, str]:
    """The notes kept in a file that `write_table` wrote, without their prefix."""
    try:
        notes = pq.read_schema(path).metadata or {}
    except OSError as error:
        raise InputError(path, f"the file cannot be read: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        raise InputError(path, "not a Parquet file; make it again", found=str(error)) from error
    prefix = b"storewise."
    return {
        key[len(prefix) :].decode(): value.decode()
        for key, value in notes.items()
        if key.startswith(prefix)
    }
