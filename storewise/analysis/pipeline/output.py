"""Tables, summary and verdict as files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype

from storewise.analysis.model.results import Results
from storewise.analysis.model.tables import Tables
from storewise.analysis.pipeline.build import judge, measured_tables
from storewise.analysis.pipeline.load import load_results
from storewise.analysis.verdict.decision import Verdict, verdict
from storewise.analysis.verdict.export import verdict_data, verdict_table
from storewise.atomic import aside, write_aside
from storewise.errors import ResultError
from storewise.layout import VERDICT

#: Rows from which on a table is written by DuckDB.
LONG = 50_000


def analyse(study_dir: Path, outdir: Path) -> None:
    """Write all tables of a study as CSV, and the verdict as JSON, into `outdir`.

    Files: one ``<table>.csv`` per table of `Tables` and ``verdict.json``; a table without rows is
    written with its heading. Raises ResultError where there is nothing to analyse or `outdir`
    cannot be written.
    """
    write_study(load_results(study_dir), outdir)


def write_study(results: Results, outdir: Path) -> tuple[Tables, Verdict]:
    """Make all tables and the verdict, and write them; long ones while the others are made."""
    tables = measured_tables(results)
    long = {name: table for name, table in tables.frames().items() if len(table) >= LONG}
    with ThreadPoolExecutor(1) as pool:
        # DuckDB does not hold up Python while it writes.
        written = pool.submit(_write, long, outdir)
        tables = judge(tables)
        written.result()
    return tables, write_tables(tables, outdir, but=long)


def write_tables(tables: Tables, outdir: Path, but: Collection[str] = ()) -> Verdict:
    """Write the tables, all `but` some, and the verdict, which is returned."""
    decision = verdict(tables)
    frames = {**tables.frames(), "verdict": verdict_table(decision)}
    short = {name: table for name, table in frames.items() if name not in but}
    _write(short, outdir, {VERDICT: json.dumps(verdict_data(decision), indent=1) + "\n"})
    return decision


def _write(
    tables: Mapping[str, pd.DataFrame], outdir: Path, texts: Mapping[str, str] | None = None
) -> None:
    try:
        outdir.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            write_csv(table, outdir / f"{name}.csv")
        for name, text in (texts or {}).items():
            write_aside(outdir / name, text)
    except OSError as error:
        raise ResultError(
            f"{outdir}: cannot be written: {error.strerror or error}; check its rights and the "
            "free space"
        ) from error


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a CSV, whole or not at all.

    The engine called ``null`` stays the text "null": read with ``keep_default_na=False`` or name
    ``na_values=[""]``. Long tables are written by DuckDB, several times as fast: the same cells in
    the same form, but that texts with a # are quoted.
    """
    if len(table) < LONG:
        write_aside(path, table.to_csv(index=False, float_format="%.9g", lineterminator="\n"))
        return
    with aside(path) as place, duckdb.connect(":memory:") as connection:
        connection.register("long", pa.Table.from_pandas(table, preserve_index=False))
        columns = ", ".join(_cells(str(name), table[name].dtype) for name in table)
        target = str(place).replace("'", "''")
        try:
            connection.execute(f"COPY (SELECT {columns} FROM long) TO '{target}' (FORMAT csv)")
        except duckdb.IOException as error:
            raise OSError(str(error)) from error


def _cells(name: str, dtype: Any) -> str:
    """SQL of a column's cells as text, as pandas writes them."""
    column = '"' + name.replace('"', '""') + '"'
    if is_float_dtype(dtype):
        text = f"CASE WHEN isnan({column}) THEN NULL ELSE format('{{:.9g}}', {column}) END"
    elif is_bool_dtype(dtype):
        text = f"CASE WHEN {column} THEN 'True' WHEN NOT {column} THEN 'False' END"
    elif is_integer_dtype(dtype):
        text = column
    else:
        text = f"nullif(CAST({column} AS VARCHAR), '')"
    return f"{text} AS {column}"
