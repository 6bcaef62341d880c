"""The manifest: one row per input file, so that a million files never become a million jobs.

A build reads files in parallel, keeps each finished row in a cache, and ends with one Parquet
file. Run again, after a ``kill -9`` or with more files, it reads only what is new or changed
(another size or modification time). A build can be split over jobs: each makes a part from its
share of the paths (`slice_paths`), `merge_parts` makes the manifest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from storewise.atomic import write_aside
from storewise.documents import DIGEST_BYTES
from storewise.errors import NOT_VISIBLE, QUARANTINE_HINT, VISIBLE, InputError, StorewiseError
from storewise.ssearch.formats.format import M10
from storewise.ssearch.formats.registry import parse_format
from storewise.ssearch.inputs.scan import Progress, scan_files, status_of
from storewise.ssearch.inputs.scan_cache import open_cache
from storewise.ssearch.inputs.table import (
    FILE_COLUMNS,
    MANIFEST_SCHEMA,
    PART_SCHEMA,
    read_table,
    write_table,
)

OnBadInput = Literal["fail", "quarantine"]

QUARANTINE_COLUMNS = ("path", "line", "offset", "reason")


@dataclass(frozen=True, slots=True)
class BadInput:
    """A file that cannot be used, and why; `reason` is the whole message."""

    path: str
    line: int | None
    offset: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """The outcome of a build.

    `duplicates` are (path, path of the equal file that is used in its place), `warnings` (path of a
    file that is used, what is to be said of it); `files`, `bytes` and `documents` count usable
    files without duplicates. `end` is VISIBLE or NOT_VISIBLE: then a file that was cut between two
    lines looks whole.
    """

    files: int
    bytes: int
    documents: int
    digested: int
    reused: int
    end: str
    bad: list[BadInput] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[tuple[str, str]] = field(default_factory=list)


def build_manifest(
    paths: Sequence[str],
    out: Path,
    *,
    input_format: str = "",
    processes: int = 1,
    cache_dir: Path | None = None,
    on_bad_input: OnBadInput = "fail",
    quarantine: Path | None = None,
    progress: Progress | None = None,
) -> ManifestSummary:
    """Writes the manifest of `paths` (from `list_inputs`) to the Parquet file `out`.

    Rows are in the order of their paths; `MANIFEST_SCHEMA` has the columns. `input_format` is the
    text of an `InputFormat`, empty where each file shows its own. `cache_dir` keeps
    finished rows over runs, by default ``.NAME.cache`` beside `out`; one build at a time may use
    it. Bad files are listed in the TSV file `quarantine` (default: ``quarantine.tsv`` beside
    `out`), which is written in any case. `progress` is called with files and bytes done and in all.

    With ``on_bad_input="fail"`` any bad file is an InputError, raised after all were looked at;
    what was digested stays in the cache. StorewiseError: nothing usable, files of several formats,
    two files whose ids would collide, or an unwritable place.
    """
    table, digested = _scan(paths, out, input_format, processes, cache_dir, progress)
    return _finish(table, out, digested, on_bad_input, quarantine)


def build_part(
    paths: Sequence[str],
    out: Path,
    *,
    input_format: str = "",
    processes: int = 1,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes what one job of a split build found in its `paths`, bad files included, to `out`.

    Each part needs its own `cache_dir`. What to do about bad files is for `merge_parts` to say.
    """
    table, digested = _scan(paths, out, input_format, processes, cache_dir, progress)
    write_table(table, out, "part", digested=str(digested))


def merge_parts(
    parts: Iterable[Path],
    out: Path,
    *,
    on_bad_input: OnBadInput = "fail",
    quarantine: Path | None = None,
) -> ManifestSummary:
    """Merge the parts of a split build into the manifest `out`; otherwise like `build_manifest`."""
    # A part of an earlier version may lack a column.
    tables = [PART_SCHEMA.empty_table(), *(read_table(part, "part") for part in parts)]
    table = pa.concat_tables(tables, promote_options="default")
    return _finish(table.sort_by("path"), out, len(table), on_bad_input, quarantine)


def _scan(
    paths: Sequence[str],
    out: Path,
    input_format: str,
    processes: int,
    cache_dir: Path | None,
    progress: Progress | None,
) -> tuple[Any, int]:
    """The part table of `paths`, sorted, and how many files had to be read."""
    place = cache_dir if cache_dir is not None else out.with_name(f".{out.name}.cache")
    files, missing = status_of(paths)
    with open_cache(place, input_format) as cache:
        todo = cache.unknown(files)
        bad = scan_files(
            todo, cache.add, processes=processes, input_format=input_format, progress=progress
        )
        good = cache.rows(row["path"] for row in bad)
    failed = pa.Table.from_pylist([*missing, *bad], schema=PART_SCHEMA)
    table = pa.concat_tables([failed, good], promote_options="default")
    return table.cast(PART_SCHEMA).sort_by("path"), len(todo)


def _finish(
    table: Any, out: Path, digested: int, on_bad_input: OnBadInput, quarantine: Path | None
) -> ManifestSummary:
    failed = table.filter(pc.is_valid(table["error"])).select(
        ["path", "error_line", "error_offset", "error"]
    )
    bad = [BadInput(*row.values()) for row in failed.to_pylist()]
    _write_quarantine(bad, quarantine or out.with_name("quarantine.tsv"))
    if bad and on_bad_input == "fail":
        raise _bad_input_error(bad, len(table))
    good = table.filter(pc.is_null(table["error"])).select([f.name for f in FILE_COLUMNS])
    if not len(good):
        raise StorewiseError(
            f"{out}: no usable input file"
            + (f"; all {len(bad)} are bad, the first: {bad[0].reason}" if bad else "")
        )
    paths = good["path"].to_pylist()
    ends = _ends(paths, good["format"].to_pylist())
    first = _first_equal(paths, good["digest"].to_pylist())
    duplicates = {at: paths[index] for at, index in enumerate(first) if index < at}
    duplicate_of = pa.array(map(duplicates.get, range(len(paths))), pa.string())
    documents = pc.add(good["queries"], pc.multiply(good["alignments"], 3))
    manifest = good.append_column("documents", documents)
    manifest = manifest.append_column("duplicate_of", duplicate_of)
    manifest = manifest.append_column("end", pa.array([ends] * len(paths))).cast(MANIFEST_SCHEMA)
    write_table(manifest, out, "manifest", bad=str(len(bad)))
    sizes = good["bytes"].to_pylist()
    used = manifest.filter(pc.is_null(manifest["duplicate_of"]))
    return ManifestSummary(
        files=len(used),
        bytes=pc.sum(used["bytes"]).as_py(),
        documents=pc.sum(used["documents"]).as_py(),
        digested=digested,
        reused=len(table) - digested,
        bad=bad,
        # Tables without any hit are often empty files: none of them is worth a line.
        duplicates=[(paths[at], equal) for at, equal in duplicates.items() if sizes[at]],
        end=ends,
        warnings=[
            (row["path"], row["warning"])
            for row in used.filter(pc.is_valid(used["warning"])).to_pylist()
        ],
    )


def _ends(paths: Sequence[str], formats: Sequence[str]) -> str:
    """Whether the end of the files is visible; StorewiseError for several formats."""
    first: dict[str, str] = {}
    for path, form in zip(paths, formats, strict=True):
        first.setdefault(form or M10, path)  # a part of an earlier version has none
    if len(first) > 1:
        some = ", ".join(f"{form} ({path})" for form, path in first.items())
        raise StorewiseError(
            f"the inputs have several formats: {some}; a study has one: name the files of one, or "
            "say the format where two look alike"
        )
    return VISIBLE if parse_format(next(iter(first))).ends else NOT_VISIBLE


def _first_equal(paths: Sequence[str], digests: Sequence[bytes]) -> list[int]:
    """For each row the index of the first row with its digest.

    Raises StorewiseError where two digests differ but share the bytes that ids are made of.
    """
    first: dict[bytes, int] = {}
    indexes = [first.setdefault(digest, index) for index, digest in enumerate(digests)]
    prefixes: dict[bytes, int] = {}
    for digest, index in first.items():
        other = prefixes.setdefault(digest[:DIGEST_BYTES], index)
        if other != index:
            raise StorewiseError(
                f"{paths[other]} and {paths[index]} differ, but their digests share the "
                f"{DIGEST_BYTES} bytes that document ids are made of: their documents would "
                "overwrite each other; use them in separate studies"
            )
    return indexes


def _bad_input_error(bad: Sequence[BadInput], files: int) -> InputError:
    first = bad[0]
    rest = f"; {len(bad)} of {files} files are bad" if len(bad) > 1 else ""
    # The reason names the place already, as every InputError does.
    place = str(InputError(first.path, "", line=first.line, offset=first.offset))
    return InputError(
        first.path,
        f"{first.reason.removeprefix(place)}{rest} {QUARANTINE_HINT}",
        line=first.line,
        offset=first.offset,
    )


def _write_quarantine(bad: Sequence[BadInput], path: Path) -> None:
    """One row per bad file; the header alone says that there was none."""
    text = io.StringIO()
    writer = csv.writer(text, dialect="excel-tab", lineterminator="\n")
    writer.writerow(QUARANTINE_COLUMNS)
    writer.writerows([file.path, file.line, file.offset, file.reason] for file in bad)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, text.getvalue())
    except OSError as error:
        raise StorewiseError(f"{path}: cannot be written: {error.strerror or error}") from error
