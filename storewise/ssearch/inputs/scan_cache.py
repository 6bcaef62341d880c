"""Rows of files that were digested before: what makes a manifest resumable and incremental.

The directory holds ``known.parquet`` (all rows of finished builds) and one ``rows.jsonl``, to
which the running build appends. After a ``kill -9`` the next build reads both; a last line that was
cut is left out.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from storewise.errors import InputError, StorewiseError
from storewise.ssearch.inputs.scan_many import FileRow, Status
from storewise.ssearch.inputs.table import FILE_COLUMNS, metadata, read_table, write_table

_COLUMNS = [field.name for field in FILE_COLUMNS]
_SCHEMA = pa.schema(FILE_COLUMNS)
#: Rows turned into Arrow at a time; bounds the memory that a million Python tuples would take.
_BATCH_ROWS = 20_000


class ScanCache:
    """The finished rows in `directory` for one way of making digests.

    `mode` is ``full`` or ``sampled:SEED``; rows of another mode are not used. Use it as a context
    manager: it holds a lock, and a second build in the same directory is a StorewiseError.
    """

    def __init__(self, directory: Path, mode: str) -> None:
        self._directory = directory
        self._mode = mode
        self._known_path = directory / "known.parquet"
        self._segment_path = directory / "rows.jsonl"
        self._lock: BinaryIO | None = None
        self._segment: BinaryIO | None = None
        self._known: Any = _SCHEMA.empty_table()

    def __enter__(self) -> ScanCache:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = (self._directory / "lock").open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorewiseError(
                f"{self._directory}: another manifest is being built with this cache; wait for "
                "it or give this one a cache directory of its own"
            ) from None
        except OSError as error:
            raise self._unwritable(error) from error
        self._load()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stream in (self._segment, self._lock):
            if stream is not None:
                stream.close()

    def split(self, status: Status) -> tuple[Any, Any]:
        """Rows of unchanged files, and the part of `status.table` that has to be digested.

        Unchanged means the same size and modification time (nanoseconds).
        """
        now = status.table
        place = pc.index_in(now["path"], value_set=self._known["path"].combine_chunks())
        before = self._known.take(place)
        same = pc.and_(
            pc.equal(before["bytes"], now["bytes"]), pc.equal(before["mtime_ns"], now["mtime_ns"])
        )
        same = pc.fill_null(same, False)
        return before.filter(same).cast(_SCHEMA), now.filter(pc.invert(same))

    def add(self, rows: list[FileRow]) -> None:
        """Keeps finished rows, on disk before it returns."""
        try:
            if self._segment is None:
                self._segment = self._segment_path.open("ab")
            for path, size, time, digest, *counts in rows:
                line = orjson.dumps([self._mode, path, size, time, digest.hex(), *counts])
                self._segment.write(line + b"\n")
            self._segment.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def close_segment(self) -> Any:
        """Rows added since the cache was opened; the segment is compacted into the known rows."""
        if self._segment is None:
            return _SCHEMA.empty_table()
        self._segment.close()
        self._segment = None
        found = self._read_segment()
        self._compact(found)
        return found

    def _load(self) -> None:
        try:
            if self._known_path.exists() and metadata(self._known_path).get("mode") == self._mode:
                self._known = read_table(self._known_path, "cache").select(_COLUMNS)
        except InputError:
            # A cache only saves work: one of an older version, or a broken one, is made anew.
            self._known_path.unlink()
        if self._segment_path.exists():
            self._compact(self._read_segment())

    def _compact(self, newer: Any) -> None:
        if len(newer):
            # The newest row of a path counts: later builds append.
            outdated = pc.is_in(self._known["path"], value_set=newer["path"].combine_chunks())
            self._known = pa.concat_tables([self._known.filter(pc.invert(outdated)), newer])
            write_table(self._known, self._known_path, "cache", mode=self._mode)
        self._segment_path.unlink(missing_ok=True)

    def _read_segment(self) -> Any:
        """The segment's rows of this mode, the last one of each path."""
        tables = []
        rows: list[Any] = []
        with self._segment_path.open("rb") as lines:
            for line in lines:
                # A killed build can leave a cut line, a failing disk a broken one; the files of
                # this and later lines are digested again.
                try:
                    mode, path, size, time, digest, *counts = orjson.loads(line)
                except orjson.JSONDecodeError:
                    break
                if mode == self._mode:
                    rows.append((path, size, time, bytes.fromhex(digest), *counts))
                if len(rows) >= _BATCH_ROWS:
                    tables.append(_table(rows))
                    rows = []
        table = pa.concat_tables([*tables, _table(rows)])
        last = pa.table({"path": table["path"], "row": pa.array(range(len(table)), pa.int64())})
        keep = last.group_by("path").aggregate([("row", "max")])["row_max"]
        return table.take(keep)

    def _unwritable(self, error: OSError) -> StorewiseError:
        return StorewiseError(
            f"{self._directory}: the manifest's cache cannot be written: {error.strerror or error}"
        )


def _table(rows: list[Any]) -> Any:
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in _COLUMNS]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, FILE_COLUMNS, strict=True)]
    return pa.table(arrays, schema=_SCHEMA)
