"""The end of a load: its parts become files of the data set.

DuckDB sorts the rows of each table and writes its partitions. One commit gives all files their
names, so that a killed `finish` leaves the parts or the files.

COPY: https://duckdb.org/docs/stable/sql/statements/copy,
https://duckdb.org/docs/stable/data/partitioning/partitioned_writes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from storewise.atomic import sync
from storewise.dataset.commits import Commit, stem
from storewise.dataset.conversion import describe, recover
from storewise.dataset.rounds import Folders, check_rows, commit_round
from storewise.dataset.settings import SHARE_OF_TEXT, Settings, Wanted
from storewise.dataset.storage import clear, locked
from storewise.dataset.writer import DataFile, partition_name
from storewise.documents import KINDS, Kind
from storewise.engines.parquet.settings import ParquetSettings
from storewise.engines.parquet.store import Store
from storewise.engines.sql.duckdb_reads import sql_string
from storewise.engines.support.batches import arrow_schema
from storewise.engines.support.table import Table, quoted

#: Gives the FROM item of a table.
From = Callable[[Table], str]


def finish(
    connection: duckdb.DuckDBPyConnection,
    store: Store,
    tables: Mapping[Kind, Table],
    source: From,
    asked: ParquetSettings,
    *,
    study_fields: bool,
) -> None:
    """Move the parts of all tables into the data set, which is created if missing.

    `source` returns the FROM item of a table with each id once; the connection must have one thread
    and the function `partition_of_name`. Raises StorewiseError, duckdb.Error,
    pyarrow.ArrowException and OSError; the parts are then unchanged.
    """
    todo = [kind for kind in tables if store.parts(kind)]
    if not todo:
        return
    largest = max(sum(part.stat().st_size for part in store.parts(kind)) for kind in todo)
    wanted = Wanted(
        by=asked.partition,
        sort="id" if asked.partition == "hash" else asked.partition,
        partitions=asked.partitions if set(tables) <= set(KINDS) else 1,
        study_fields=study_fields,
        row_group=asked.row_group_size,
        level=3,
    )
    storage = store.storage
    with locked(storage, "", alone=True) as own:
        folders = Folders(own)
        state = recover(storage, folders, "")
        if state.next_number("") == store.number:  # else an earlier try had come to its journal
            settings = describe(storage, wanted, int(largest / SHARE_OF_TEXT))
            shutil.rmtree(folders.out, ignore_errors=True)
            added: list[DataFile] = []
            documents = 0
            for kind in todo:
                sql = _sorted_rows(tables, kind, source, settings)
                added += _write(connection, sql, tables[kind], folders.out, store.number, settings)
                count = f"SELECT count(*) FROM {source(tables[kind])}"
                documents += connection.execute(count).fetchall()[0][0]
            check_rows(storage, documents, added)
            names = {kind.table for kind in todo}
            replaced = [file.name for file in state.files() if file.table in names]
            kept = [file for file in state.files() if file.table not in names]
            commit = Commit(state.rows(), sorted([*added, *kept]), [*state.commits, *replaced])
            commit_round(storage, folders, commit, store.number, "")
        store.remove_parts()
        clear(storage, own, "")
    store.look()


def _sorted_rows(tables: Mapping[Kind, Table], kind: Kind, source: From, settings: Settings) -> str:
    """All rows of a table in their order, each with its partition's number as two digits."""
    table, number = tables[kind], "0"
    columns = ", ".join(f"t.{quoted(name)}" for name in table.names)
    rows = f"{source(table)} AS t"
    if settings.by == "hash":
        keys = [f"t.{quoted(name)}" for name in table.key]
        if settings.partitions > 1:
            # The first byte of an id, as `partition_of_byte` has it.
            number = f"('0x' || hex(t._id[1:1]))::INTEGER * {settings.partitions} >> 8"
    else:
        # Query and library of an alignment are in its own row or in that of its search (`tasks`).
        search = "t" if kind is Kind.TASKS else "s"
        if kind is not Kind.TASKS:
            rows += f" LEFT JOIN {source(tables[Kind.TASKS])} AS s ON s._id = t.ti"
        # A question for the hits of a query looks into one partition: the row's own name counts.
        query = "t.q, s.q" if kind is Kind.ALIGN else f"{search}.q"
        sql = {"_id": "t._id", "q": f"coalesce({query}, '')", "lib": f"coalesce({search}.lib, '')"}
        keys = [sql[name] for name in settings.order]
        if settings.partitions > 1:
            name = sql["q" if settings.by == "query" else "lib"]
            number = f"partition_of_name({name}, {settings.partitions})"
    part = f"printf('%02d', {number}) AS part"
    return f"SELECT {columns}, {part} FROM {rows} ORDER BY {', '.join(['part', *keys])}"


def _write(
    connection: duckdb.DuckDBPyConnection,
    rows: str,
    table: Table,
    out: Path,
    number: int,
    settings: Settings,
) -> list[DataFile]:
    """Write the rows of a query below `out`; on disk when this returns. A table without rows has
    one file, which tells its columns."""
    directory, name = out / table.name, stem("", number)
    directory.mkdir(parents=True, exist_ok=True)
    written = connection.execute(
        f"COPY ({rows}) TO {sql_string(str(directory))} (FORMAT parquet, COMPRESSION zstd, "
        f"COMPRESSION_LEVEL {settings.level}, ROW_GROUP_SIZE {settings.row_group}, "
        f"FILE_SIZE_BYTES {settings.target_bytes}, FILENAME_PATTERN '{name}-{{i}}', "
        "PARTITION_BY (part), WRITE_PARTITION_COLUMNS false, RETURN_STATS)"
    ).fetchall()
    files = {Path(path): count for path, count, *_ in written}
    if not files:
        path = out / partition_name(table.name, 0) / f"{name}-0.parquet"
        path.parent.mkdir()
        pq.write_table(arrow_schema(table).empty_table(), path)
        files[path] = 0
    for path in files:
        sync(path)
    return [
        DataFile(path.relative_to(out).as_posix(), count, path.stat().st_size)
        for path, count in files.items()
    ]
