"""The samples of some trials as one table: all their parts read at once.

A study of 500 trials with 100 workers has 100,000 small files, of which the time goes to opening,
not to rows. DuckDB reads a list of files about twice as fast as the same files are read one by
one. Where it cannot (a file is damaged, or of another schema), they are read one by one, so that
each bad one is named and the others count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson
import pyarrow as pa

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import Part, TrialFiles, place_of
from storewise.errors import ResultError
from storewise.metrics.pack import Pack, read_pack
from storewise.metrics.schema import CORE, METADATA_KEY, SCHEMA_VERSION, parse_conditions, read_part

#: Columns of the schema but for `unit`, which the metric tells.
COLUMNS = [name for name in CORE.names if name != "unit"]
_TEXTS = [f.name for f in CORE if pa.types.is_dictionary(f.type) and f.name != "unit"]
_SCHEMA = pa.schema([CORE.field(name) for name in COLUMNS])
#: What DuckDB makes of it: text instead of dictionaries.
_TYPES = [pa.string() if f.name in _TEXTS else f.type for f in _SCHEMA]
_SELECT = f"SELECT {', '.join(COLUMNS)}, file_index FROM read_parquet($1)"
_CONDITIONS = """
    SELECT file_name, value FROM parquet_kv_metadata($1) WHERE decode(key) = $2
"""


@dataclass(frozen=True, slots=True)
class Samples:
    """Parts of trials and all their rows: `rows` has CORE's columns but for `unit`. `totals` are
    the sums of logs that are known already, by trial and phase, as payloads by tag."""

    parts: Sequence[Part]
    rows: pa.Table
    warnings: Sequence[StudyWarning]
    totals: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)


#: Directory and name of a part.
_File = tuple[Path, str]
#: A part as read: a table with its rows, where they begin in it and how many they are; conditions.
_Read = tuple[pa.Table, int, int, Mapping[str, Any]]


def read_samples(trials: Sequence[TrialFiles]) -> Samples:
    """Read the parts of some trials; what cannot be read is left out, with a warning."""
    files = [(one.directory, name) for one in trials for name in one.parts]
    read: dict[_File, _Read] = {}
    totals: dict[tuple[str, str], Mapping[str, str]] = {}
    warnings: list[StudyWarning] = []
    for trial in trials:
        pack = _pack(trial)
        if pack is None:
            continue
        begin = 0
        for (name, conditions), length in zip(pack.conditions.items(), pack.lengths, strict=True):
            read[trial.directory, name] = (pack.rows, begin, length, conditions)
            begin += length
        totals |= {(trial.trial, phase): sums for phase, sums in pack.totals.items()}
    loose = [one for one in files if one not in read]
    try:
        read |= _together(loose) if loose else {}
    except (duckdb.Error, ResultError, pa.ArrowException, ValueError):
        # Which of them it is, and what is wrong with it, is told file by file.
        read |= _one_by_one(loose, warnings)
    known: dict[tuple[str, bytes], Any] = {}
    files = [one for one in files if one in read]
    parts = [_part(*one, _shared(read[one][-1], known)) for one in files]
    return Samples(parts, _table(_runs([read[one] for one in files])), warnings, totals)


def _runs(read: Sequence[_Read]) -> list[pa.Table]:
    """The rows of parts, those that follow each other in one table together."""
    runs: list[tuple[pa.Table, int, int]] = []
    for table, begin, length, _ in read:
        if runs and runs[-1][0] is table and runs[-1][1] + runs[-1][2] == begin:
            runs[-1] = (table, runs[-1][1], runs[-1][2] + length)
        else:
            runs.append((table, begin, length))
    return [table.slice(begin, length) for table, begin, length in runs]


def _pack(trial: TrialFiles) -> Pack | None:
    if not trial.packed:
        return None
    of_workers = [n for n in trial.parts if (place := place_of(n)) and place[1] is not None]
    try:
        return read_pack(trial.directory, of_workers, [log.name for log in trial.logs])
    except ResultError:
        return None  # the files beside it have all that is in it


def _together(files: Sequence[_File]) -> dict[_File, _Read]:
    """Files read at once; raises an error that need not name the file where one is bad."""
    paths = [f"{directory}/{name}" for directory, name in files]
    connection = _connection()
    texts = dict(connection.execute(_CONDITIONS, [paths, METADATA_KEY.decode()]).fetchall())
    if len(texts) != len(paths):
        raise ResultError("a part has no conditions")
    conditions = [parse_conditions(texts[path]) for path in paths]
    if any(one.get("schema_version") != SCHEMA_VERSION for one in conditions):
        raise ResultError("a part is of another schema version")
    table = connection.sql(_SELECT, params=[paths]).to_arrow_table()
    lengths = np.bincount(table["file_index"].to_numpy(), minlength=len(files))
    table = table.select(COLUMNS)
    if table.schema.types != _TYPES:
        raise ResultError("a part has a column of another type")
    columns = [
        table[name].combine_chunks().dictionary_encode() if name in _TEXTS else table[name]
        for name in COLUMNS
    ]
    table = pa.table(columns, schema=_SCHEMA)
    trials = table["trial"].combine_chunks()
    codes = {name: code for code, name in enumerate(trials.dictionary.to_pylist())}
    expected = np.array([codes.get(directory.name, -1) for directory, _ in files])
    if not np.array_equal(trials.indices.to_numpy(), expected.repeat(lengths)):
        raise ResultError("rows are of another trial than their directory")
    begins = np.cumsum(lengths) - lengths
    return {
        file: (table, int(begin), int(length), meta)
        for file, begin, length, meta in zip(files, begins, lengths, conditions, strict=True)
    }


def _one_by_one(files: Sequence[_File], warnings: list[StudyWarning]) -> dict[_File, _Read]:
    read: dict[_File, _Read] = {}
    for directory, name in files:
        path = directory / name
        trial = directory.name
        try:
            table, conditions = read_part(path)
            if table.num_rows and set(table["trial"].unique().to_pylist()) != {trial}:
                raise ResultError(f"{path}: its rows are of another trial than its directory")
            read[directory, name] = (table, 0, table.num_rows, conditions)
        except ResultError as error:
            remedy = "delete the file and measure again"
            warnings.append(StudyWarning("unreadable_part", trial, str(error), remedy))
    return read


def _part(directory: Path, name: str, conditions: Mapping[str, Any]) -> Part:
    place = place_of(name)
    assert place is not None
    phase, worker, node = place
    return Part(directory, name, directory.name, phase, worker, conditions, node)


def _table(tables: Sequence[pa.Table]) -> pa.Table:
    every = [one.select(COLUMNS).replace_schema_metadata(None).cast(_SCHEMA) for one in tables]
    return pa.concat_tables([_SCHEMA.empty_table(), *every])


def _shared(conditions: Mapping[str, Any], known: dict[tuple[str, bytes], Any]) -> dict[str, Any]:
    """The conditions with each value that another part has too as that very object.

    Parts of a trial differ in little; kept apart their conditions would take ten times the memory.
    """
    shared = {}
    for key, value in conditions.items():
        if isinstance(value, dict | list) and value:
            value = known.setdefault((key, _digest(value)), value)
        shared[key] = value
    return shared


def _digest(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # Numbers beyond 64 bits.
        return json.dumps(value).encode()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One of this process. With one thread rows stay in the order of the files."""
    return duckdb.connect(":memory:", config={"threads": 1, "memory_limit": "1GB"})
