"""Commits: files ``inputs/NNNN.parquet``, each of which says what a round added to a data set.

The rows are inputs. The metadata ``storewise.files`` names the data files that the round added and
what it replaced. A data file belongs to the data set if a commit names it; others were left by a
round that was killed, or were replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import aside
from storewise.dataset.chunk import InputRow
from storewise.dataset.writer import DataFile
from storewise.documents import FULL_DIGEST_BYTES
from storewise.errors import StorewiseError

FOLDER = "inputs"
SUFFIX = ".parquet"
_FILES_KEY = b"storewise.files"

#: `digest` is null for a `bad` input, `equal_to` the path of the input whose documents stand for
#: those of an equal one, `text` bytes of decompressed content. `round` is the number of the commit.
SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("digest", pa.binary(FULL_DIGEST_BYTES)),
        pa.field("text", pa.int64()),
        pa.field("queries", pa.int64()),
        pa.field("hits", pa.int64()),
        pa.field("alignments", pa.int64()),
        pa.field("documents", pa.int64()),
        pa.field("warning", pa.string()),
        pa.field("equal_to", pa.string()),
        pa.field("bad", pa.string()),
        pa.field("round", pa.int32(), nullable=False),
        pa.field("format", pa.string()),
    ]
)
_STEM = r"(?:(?P<share>[a-z]+[0-9]+)-)?(?P<number>[0-9]{4,})"
_COMMIT_NAME = re.compile(rf"{FOLDER}/{_STEM}\{SUFFIX}")
_DATA_NAME = re.compile(rf"[a-z][a-z0-9_]*/part=[0-9]+/{_STEM}-[0-9]+\{SUFFIX}")


def stem(share: str, number: int) -> str:
    """The start of the names of a round's files; `share` is empty where one process writes all."""
    return f"{share}-{number:04d}" if share else f"{number:04d}"


def commit_name(share: str, number: int) -> str:
    """The name of a commit below the data set."""
    return f"{FOLDER}/{stem(share, number)}{SUFFIX}"


def number_of(name: str) -> tuple[str, int] | None:
    """The share and number in the name of a commit or data file; None for any other file."""
    match = _COMMIT_NAME.fullmatch(name) or _DATA_NAME.fullmatch(name)
    return None if match is None else (match["share"] or "", int(match["number"]))


#: Inside the class below `bytes` is a field.
Digest = bytes


class Known(NamedTuple):
    """An input that is in a data set, or was left out of it."""

    bytes: int
    mtime_ns: int
    digest: Digest | None
    bad: str | None
    commit: str


@dataclass(slots=True)
class Commit:
    """Result of a round: rows of inputs, files that it adds, names of files that it replaces."""

    rows: Any
    added: list[DataFile] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the commit as a file, whole or not at all."""
        files = {"added": self.added, "removed": self.removed}
        notes = {_FILES_KEY: json.dumps(files).encode()}
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside(path, durable=True) as place:
            pq.write_table(self.rows.replace_schema_metadata(notes), place, compression="zstd")

    @classmethod
    def read(cls, path: Path) -> Commit:
        """The commit in a file; StorewiseError where it is none."""
        return cls.parse(path.read_bytes(), str(path))

    @classmethod
    def parse(cls, content: bytes, name: str) -> Commit:
        """The commit that is the content of a file; StorewiseError where it is none."""
        try:
            table = pq.ParquetFile(pa.BufferReader(content)).read()
            files = json.loads((table.schema.metadata or {})[_FILES_KEY])
            added = [DataFile(*one) for one in files["added"]]
            if "format" not in table.column_names:  # of an earlier version
                table = table.append_column("format", pa.nulls(len(table), pa.string()))
            rows = table.select(SCHEMA.names).cast(SCHEMA)
        except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise StorewiseError(
                f"{name}: is no list of a data set's inputs ({error}); expected what `storewise "
                "convert` writes. Take it away if it is another program's"
            ) from error
        return cls(rows, added, list(files["removed"]))


@dataclass(slots=True)
class State:
    """State of a data set: its commits by name, and files that belong to no commit any more."""

    commits: dict[str, Commit]
    superseded: list[str]

    @classmethod
    def of(cls, commits: Mapping[str, Commit]) -> State:
        """The state that commits make, without the commits that another one replaced."""
        removed = {name for commit in commits.values() for name in commit.removed}
        kept = {name: commit for name, commit in sorted(commits.items()) if name not in removed}
        return cls(kept, sorted(set(commits) & removed))

    def files(self) -> list[DataFile]:
        """The data files."""
        removed = {name for commit in self.commits.values() for name in commit.removed}
        return sorted(
            file
            for commit in self.commits.values()
            for file in commit.added
            if file.name not in removed
        )

    def known(self) -> dict[str, Known]:
        """The inputs of all commits, by path; one that was bad may be good in a later commit."""
        result: dict[str, Known] = {}
        columns = ("path", "bytes", "mtime_ns", "digest", "bad")
        for name, commit in self.commits.items():
            values = (commit.rows[column].to_pylist() for column in columns)
            for path, size, time, digest, bad in zip(*values, strict=True):
                if path not in result or result[path].bad is not None:
                    result[path] = Known(size, time, digest, bad, name)
        return result

    def rows(self) -> Any:
        """All inputs as one table, each once."""
        rows = pa.concat_tables([SCHEMA.empty_table(), *(c.rows for c in self.commits.values())])
        last: dict[str, int] = {}
        bad = rows["bad"].to_pylist()
        for row, path in enumerate(rows["path"].to_pylist()):
            if path not in last or bad[last[path]] is not None:
                last[path] = row
        return rows if len(last) == len(rows) else rows.take(list(last.values()))

    def next_number(self, share: str) -> int:
        """The number of the next round of a share."""
        names = {*self.commits, *self.superseded, *(file.name for file in self.files())}
        names.update(name for commit in self.commits.values() for name in commit.removed)
        numbers = [number_of(name) for name in names]
        return 1 + max((one[1] for one in numbers if one and one[0] == share), default=0)


def rows_table(rows: Iterable[InputRow], equal: Mapping[str, str], number: int) -> Any:
    """The table of inputs that were read; `equal` names by path the input that one is equal to."""
    counts = ("text", "queries", "hits", "alignments", "documents")
    values = [
        {
            **{
                name: getattr(row, name)
                for name in ("path", "bytes", "mtime_ns", "warning", "bad", "format")
            },
            **({name: getattr(row, name) for name in counts} if row.bad is None else {}),
            "digest": bytes.fromhex(row.digest) if row.bad is None else None,
            "equal_to": equal.get(row.path),
            "round": number,
        }
        for row in rows
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)
