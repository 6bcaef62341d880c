"""The samples of some trials as one table: all their parts read at once.

A study of 500 trials with 100 workers has 100,000 small files, of which the time goes to opening,
not to rows. DuckDB reads a list of files about twice as fast as the same files are read one by
one. Where it cannot (a file is damaged, or of another schema), they are read one by one, so that
each bad one is named and the others count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from storewise.analysis.parts import Part, TrialFiles, place_of
from storewise.analysis.warning import StudyWarning
from storewise.errors import ResultError
from storewise.metrics.schema import (
    CORE,
    METADATA_KEY,
    METRICS,
    SCHEMA_VERSION,
    parse_conditions,
    read_part,
)

#: Columns of the schema but for `unit`, which the metric tells.
COLUMNS = [name for name in CORE.names if name != "unit"]
_TEXTS = [f.name for f in CORE if pa.types.is_dictionary(f.type) and f.name != "unit"]
#: What DuckDB makes of CORE: text instead of dictionaries.
_TYPES = {
    f.name: pa.string() if pa.types.is_dictionary(f.type) else f.type
    for f in CORE
    if f.name != "unit"
}
_SELECT = f"SELECT {', '.join(COLUMNS)}, file_index FROM read_parquet($1)"
_CONDITIONS = """
    SELECT file_name, value FROM parquet_kv_metadata($1) WHERE decode(key) = $2
"""


@dataclass(frozen=True, slots=True)
class Samples:
    """Parts of trials and all their rows: `rows` has CORE's columns, text as categories."""

    parts: Sequence[Part]
    rows: pd.DataFrame
    warnings: Sequence[StudyWarning]


def read_samples(trials: Sequence[TrialFiles]) -> Samples:
    """Read the parts of some trials; what cannot be read is left out, with a warning."""
    files = [(one.directory, name) for one in trials for name in one.parts]
    if not files:
        return Samples([], _frame(CORE.empty_table().select(COLUMNS)), [])
    try:
        found = _together(files)
    except (duckdb.Error, ResultError, pa.ArrowException, ValueError):
        # Which of them it is, and what is wrong with it, is told file by file.
        return _one_by_one(files)
    return found


def _together(files: Sequence[tuple[Path, str]]) -> Samples:
    paths = [f"{directory}/{name}" for directory, name in files]
    connection = _connection()
    texts = dict(connection.execute(_CONDITIONS, [paths, METADATA_KEY.decode()]).fetchall())
    if len(texts) != len(paths):
        raise ResultError("a part has no conditions")
    known: dict[tuple[str, bytes], Any] = {}
    parts = []
    for path, (directory, name) in zip(paths, files, strict=True):
        conditions = parse_conditions(texts[path])
        if conditions.get("schema_version") != SCHEMA_VERSION:
            raise ResultError("a part is of another schema version")
        parts.append(_part(directory, name, _shared(conditions, known)))
    table = connection.sql(_SELECT, params=[paths]).to_arrow_table()
    if any(table.schema.field(name).type != wanted for name, wanted in _TYPES.items()):
        raise ResultError("a part has a column of another type")
    rows = _frame(table.select(COLUMNS))
    _check_trials(rows, files, table["file_index"].to_numpy())
    return Samples(parts, rows, [])


def _check_trials(
    rows: pd.DataFrame, files: Sequence[tuple[Path, str]], file_of: NDArray[np.uint64]
) -> None:
    """Rows must be of the trial in whose directory they lie; raises ResultError."""
    names = rows["trial"].cat
    known = {name: code for code, name in enumerate(names.categories)}
    expected = np.array([known.get(directory.name, -1) for directory, _ in files])
    if not np.array_equal(names.codes.to_numpy(), expected[file_of]):
        raise ResultError("rows are of another trial than their directory")


def _one_by_one(files: Sequence[tuple[Path, str]]) -> Samples:
    parts, tables, warnings = [], [CORE.empty_table().select(COLUMNS)], []
    known: dict[tuple[str, bytes], Any] = {}
    for directory, name in files:
        path = directory / name
        trial = directory.name
        try:
            table, conditions = read_part(path)
            if table.num_rows and set(table["trial"].unique().to_pylist()) != {trial}:
                raise ResultError(f"{path}: its rows are of another trial than its directory")
        except ResultError as error:
            warnings.append(
                StudyWarning(
                    "unreadable_part", trial, str(error), "delete the file and measure again"
                )
            )
            continue
        parts.append(_part(directory, name, _shared(conditions, known)))
        tables.append(table.select(COLUMNS).replace_schema_metadata(None))
    return Samples(parts, _frame(pa.concat_tables(tables)), warnings)


def _part(directory: Path, name: str, conditions: Mapping[str, Any]) -> Part:
    place = place_of(name)
    assert place is not None
    phase, worker, node = place
    return Part(directory, name, directory.name, phase, worker, conditions, node)


def _frame(table: pa.Table) -> pd.DataFrame:
    """The rows with text as categories in the order in which they come, and with units."""
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if name in _TEXTS and not pa.types.is_dictionary(column.type):
            table = table.set_column(place, name, column.combine_chunks().dictionary_encode())
    frame: pd.DataFrame = table.unify_dictionaries().to_pandas()
    metrics = frame["metric"].cat
    # A counter of the store itself (`status.NAME`) is a number.
    units = pd.Index([METRICS.get(name, "1") for name in metrics.categories])
    own = pd.CategoricalDtype(units.unique())
    codes = own.categories.get_indexer(units)
    frame["unit"] = pd.Categorical.from_codes(codes.take(metrics.codes), dtype=own)
    return frame


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
