"""A pack: one file with all samples of a trial's workers, for a faster analysis.

A trial with 100 workers and two phases leaves 200 parts and 200 logs, and most of an analysis is
opening them. So the last job of a trial's phases packs them: the rows of all parts in the order of
the parts' names, their conditions with equal values stored once, and the sums of all logs. A pack
is a cache: it is used only while its parts and logs are unchanged, and may be removed.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from storewise.atomic import aside
from storewise.errors import ResultError
from storewise.layout import PACK
from storewise.metrics.hdr import Tag, encoded, histogram_of, merge_all
from storewise.metrics.schema import CORE, SCHEMA_VERSION, read_part

_KEY = b"storewise.pack"
#: Before the checksum of the whole file, computed with zeros for its digits (Parquet has checksums
#: of data pages only). Packs of before 2026-11 have none.
_CRC = b"storewise.crc32="
_NO_CRC = b"00000000"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Pack:
    """The content of a pack: `rows` has the columns of the result schema, `lengths` the number of
    rows of each part; both are in the order of `conditions`, sorted by part name. `totals` are the
    sums of each phase's logs by tag, as encoded histograms."""

    rows: pa.Table
    lengths: Sequence[int]
    conditions: Mapping[str, Mapping[str, Any]]
    totals: Mapping[str, Mapping[str, str]]


def write_pack(parts: Sequence[Path]) -> Path | None:
    """Pack the parts of a trial's workers, and their logs, into a file beside them.

    Returns its path. Returns None and leaves no file where a part or a log cannot be read (the
    analysis reports that), or the disk is full: an analysis without a pack is slower only.
    """
    directory = parts[0].parent
    path = directory / PACK
    path.unlink(missing_ok=True)
    parts = sorted(parts)
    logs: dict[str, list[Path]] = {}
    tables, entries = [], []
    values: dict[bytes, int] = {}
    try:
        for part in parts:
            table, conditions = read_part(part)
            if table.num_rows and set(table["trial"].unique().to_pylist()) != {directory.name}:
                return None
            if orjson.loads(orjson.dumps(conditions)) != conditions:
                return None  # NaN or Infinity, which JSON does not have
            large = {k: v for k, v in conditions.items() if v and isinstance(v, dict | list)}
            shared = {k: orjson.dumps(v) for k, v in large.items()}
            places = {k: values.setdefault(v, len(values)) for k, v in shared.items()}
            single = {k: v for k, v in conditions.items() if k not in places}
            entries.append([part.name, part.stat().st_size, table.num_rows, single, places])
            tables.append(table.select(CORE.names).replace_schema_metadata(None))
            log = part.with_suffix(".hlog")
            log.stat()
            logs.setdefault(part.name.partition(".")[0], []).append(log)
        totals = {
            phase: {
                tag: encoded(histogram_of(total.indexes, total.counts))
                for tag, total in merge_all(paths, lambda text: bool(Tag.parse(text))).items()
            }
            for phase, paths in logs.items()
        }
        sizes = [[log.name, log.stat().st_size] for paths in logs.values() for log in paths]
        meta = {
            "version": _VERSION,
            "schema_version": SCHEMA_VERSION,
            "parts": entries,
            "values": [orjson.Fragment(value) for value in values],
            "logs": sizes,
            "totals": totals,
        }
        text = orjson.dumps(meta)
    except (ResultError, OSError, TypeError):
        # TypeError: orjson writes no numbers beyond 64 bits.
        return None
    whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    content = BytesIO()
    with pq.ParquetWriter(content, whole.schema, compression="zstd") as writer:
        writer.write_table(whole)
        # In the schema's metadata it would be stored twice.
        writer.add_key_value_metadata({_KEY: text, b"storewise.sum": _CRC + _NO_CRC})
    packed = content.getvalue()
    try:
        with aside(path) as place:
            place.write_bytes(packed.replace(_CRC + _NO_CRC, _CRC + b"%08x" % zlib.crc32(packed)))
    except OSError:
        return None
    return path


def read_pack(directory: Path, parts: Sequence[str], logs: Sequence[str]) -> Pack | None:
    """The pack of a trial, if it was made of exactly these parts and logs; else None.

    They are given as all files of workers in the directory. They are unchanged if they have the
    sizes that were packed and none is newer than the pack. ResultError for a pack that was cut
    short or changed after it was written.
    """
    path = directory / PACK
    try:
        content = path.read_bytes()
        if (at := content.rfind(_CRC)) >= 0:
            digits = slice(at + len(_CRC), at + len(_CRC) + len(_NO_CRC))
            zeros = content[: digits.start] + _NO_CRC + content[digits.stop :]
            if b"%08x" % zlib.crc32(zeros) != content[digits]:
                raise ValueError("its checksum differs")
        file = pq.ParquetFile(pa.BufferReader(content))
        meta = orjson.loads((file.metadata.metadata or {})[_KEY])
        if (meta["version"], meta["schema_version"]) != (_VERSION, SCHEMA_VERSION):
            return None
        known = {name: size for name, size, *_ in (*meta["parts"], *meta["logs"])}
        if set(known) != {*parts, *logs}:
            return None
        packed = path.stat().st_mtime_ns
        for name, size in known.items():
            status = os.stat(f"{directory}/{name}")  # noqa: PTH116 - of thousands of files
            if status.st_size != size or status.st_mtime_ns > packed:
                return None
        rows = file.read(use_threads=False)
        values = meta["values"]
        conditions = {
            name: {**single, **{key: values[place] for key, place in places.items()}}
            for name, _, _, single, places in meta["parts"]
        }
        lengths = [length for _, _, length, *_ in meta["parts"]]
        if rows.schema.remove_metadata() != CORE or sum(lengths) != rows.num_rows:
            return None
        return Pack(rows.replace_schema_metadata(None), lengths, conditions, meta["totals"])
    except FileNotFoundError:
        return None  # of the pack, or of a file that it is about
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, IndexError) as error:
        raise ResultError(f"{path}: the pack was cut short or changed: {error}") from error
