"""Write tables and verdict to files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_bool_dtype, is_float_dtype, is_object_dtype

from storewise.analysis.common.frames import missing
from storewise.analysis.model.results import Results
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import build_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.verdict.decision import Verdict, verdict
from storewise.analysis.verdict.export import verdict_data, verdict_table
from storewise.atomic import aside, write_aside
from storewise.errors import ResultError
from storewise.layout import VERDICT


def analyse(study_dir: Path, outdir: Path) -> None:
    """Write all tables of a study as CSV, and the verdict as JSON, into `outdir`.

    Files: one ``<table>.csv`` per table of `Tables` and ``verdict.json``; a table without rows is
    written with its heading. Raises ResultError if there is nothing to analyse or `outdir` is not
    writable.
    """
    write_study(load_results(study_dir), outdir)


def write_study(results: Results, outdir: Path) -> tuple[Tables, Verdict]:
    """Make all tables and the verdict, and write them."""
    tables = build_tables(results)
    return tables, write_tables(tables, outdir)


def write_tables(tables: Tables, outdir: Path) -> Verdict:
    """Write the tables and the verdict, which is returned."""
    decision = verdict(tables)
    frames = {**tables.frames(), "verdict": verdict_table(decision)}
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        for name, table in frames.items():
            write_csv(table, outdir / f"{name}.csv")
        write_aside(outdir / VERDICT, json.dumps(verdict_data(decision), indent=1) + "\n")
    except OSError as error:
        raise ResultError(
            f"{outdir}: cannot be written: {error.strerror or error}; check permissions and "
            "free space"
        ) from error
    return decision


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a CSV file atomically.

    The engine ``null`` is the text "null": read with ``keep_default_na=False`` or
    ``na_values=[""]``. DuckDB writes long tables several times as fast as pandas.
    """
    cells = table.copy(deep=False)
    for name in filter(lambda one: is_object_dtype(table[one]), table):
        cells[name] = [None if missing(one) else str(one) for one in table[name]]
    with aside(path) as place, duckdb.connect(":memory:") as connection:
        connection.register("cells", pa.Table.from_pandas(cells, preserve_index=False))
        columns = ", ".join(_cells(str(name), table[name].dtype) for name in table)
        target = str(place).replace("'", "''")
        try:
            connection.execute(f"COPY (SELECT {columns} FROM cells) TO '{target}' (FORMAT csv)")
        except duckdb.IOException as error:
            raise OSError(str(error)) from error


def _cells(name: str, dtype: Any) -> str:
    """The SQL expression of a column's cells as text; booleans as Python writes them."""
    column = '"' + name.replace('"', '""') + '"'
    if is_float_dtype(dtype):
        text = f"CASE WHEN isnan({column}) THEN NULL ELSE format('{{:.9g}}', {column}) END"
    elif is_bool_dtype(dtype):
        text = f"CASE WHEN {column} THEN 'True' WHEN NOT {column} THEN 'False' END"
    else:
        text = f"nullif(CAST({column} AS VARCHAR), '')"
    return f"{text} AS {column}"
