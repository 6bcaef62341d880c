"""The end of a load: its parts become files of the data set.

DuckDB brings the rows of a table into the order of partitions and, within them, of the data set;
the data set's own writer makes the files. One commit gives all of them their names, so that a
killed `finish` leaves the parts or the files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from storewise.dataset.commits import Commit, stem
from storewise.dataset.conversion import describe, recover
from storewise.dataset.home import clear, locked
from storewise.dataset.pieces import partition_of_name
from storewise.dataset.rounds import Folders, check_rows, commit_round
from storewise.dataset.settings import SHARE_OF_TEXT, Settings, Wanted
from storewise.dataset.writer import DataFile, PartitionFiles
from storewise.documents import KINDS, Kind
from storewise.engines.parquet.store import Store
from storewise.engines.support.batches import arrow_schema
from storewise.engines.support.table import Table, quoted

#: A table that tells the partition of a query or library, and a column with that of a row.
_PARTITIONS, _PARTITION = "storewise_partitions", "storewise_partition"

#: Gives the FROM item of a table.
From = Callable[[Table], str]


def finish(
    connection: duckdb.DuckDBPyConnection,
    store: Store,
    tables: Mapping[Kind, Table],
    source: From,
    wanted: Wanted,
) -> None:
    """Take the parts of all tables into the data set.

    `source` gives what a table holds, each id once. The data set is made where there is none.
    Raises StorewiseError, duckdb.Error, pyarrow.ArrowException and OSError; the parts are there
    then as before.
    """
    todo = [kind for kind in tables if store.parts(kind)]
    if not todo:
        return
    largest = max(sum(part.stat().st_size for part in store.parts(kind)) for kind in todo)
    home = store.home
    with locked(home, "", alone=True) as own:
        folders = Folders(own)
        state = recover(home, folders, "")
        if state.next_number("") == store.number:  # else an earlier try had come to its journal
            settings = describe(home, wanted, int(largest / SHARE_OF_TEXT))
            shutil.rmtree(folders.out, ignore_errors=True)
            added: list[DataFile] = []
            documents = 0
            for kind in todo:
                table = tables[kind]
                order = settings.order if kind in KINDS else table.key
                rows = connection.sql(_statement(connection, tables, kind, source, settings))
                batches = rows.to_arrow_reader(settings.row_group)
                name = stem("", store.number)
                added += _write(batches, folders.out, table, name, settings, order)
                ((count,),) = connection.execute(f"SELECT count(*) FROM {source(table)}").fetchall()
                documents += count
            check_rows(home, documents, added)
            names = {kind.table for kind in todo}
            replaced = [file.name for file in state.files() if file.table in names]
            kept = [file for file in state.files() if file.table not in names]
            commit = Commit(state.rows(), sorted([*added, *kept]), [*state.commits, *replaced])
            commit_round(home, folders, commit, store.number, "")
        store.remove_parts()
        clear(home, own, "")
    store.look()


def _statement(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[Kind, Table],
    kind: Kind,
    source: From,
    settings: Settings,
) -> str:
    """All rows of a table in their order, each with its partition."""
    table = tables[kind]
    columns = ", ".join(f"t.{quoted(name)}" for name in table.names)
    rows = f"{source(table)} AS t"
    if settings.by == "hash":
        keys = [f"t.{quoted(name)}" for name in table.key]
        # The first byte of an id, as `partition_of_byte` has it.
        first = f"('0x' || hex(t._id[1:1]))::INTEGER * {settings.partitions} >> 8"
        partition = first if settings.partitions > 1 else "0"
    else:
        # Query and library of an alignment are in its own row or in that of its search (`tasks`).
        if kind is not Kind.TASKS:
            rows += f" LEFT JOIN {source(tables[Kind.TASKS])} AS s ON s._id = t.ti"
        search = "t" if kind is Kind.TASKS else "s"
        # A question for the hits of a query looks into one partition: the row's own name counts.
        query = "t.q, s.q" if kind is Kind.ALIGN else f"{search}.q"
        sql = {"_id": "t._id", "q": f"coalesce({query}, '')", "lib": f"coalesce({search}.lib, '')"}
        keys = [sql[name] for name in settings.order]
        column = "q" if settings.by == "query" else "lib"
        _register_partitions(connection, tables, column, source, settings)
        rows += f" JOIN {_PARTITIONS} AS p ON p.name = {sql[column]}"
        partition = "p.part"
    return (
        f"SELECT {columns}, {partition} AS {_PARTITION} FROM {rows} "
        f"ORDER BY {', '.join([_PARTITION, *keys])}"
    )


def _register_partitions(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[Kind, Table],
    column: str,
    source: From,
    settings: Settings,
) -> None:
    """Make the table that tells the partition of a query or a library."""
    kinds = [Kind.TASKS, Kind.ALIGN] if column == "q" else [Kind.TASKS]
    named = " UNION ".join(f"SELECT {column} FROM {source(tables[kind])}" for kind in kinds)
    names = sorted({"", *(name for (name,) in connection.execute(named).fetchall() if name)})
    parts = [partition_of_name(name, settings.partitions) for name in names]
    table = pa.table({"name": pa.array(names, pa.string()), "part": pa.array(parts, pa.int32())})
    connection.register(_PARTITIONS, table)


def _write(
    batches: Iterable[Any],
    directory: Path,
    table: Table,
    name: str,
    settings: Settings,
    order: Sequence[str],
) -> list[DataFile]:
    """Write rows that come in the order of their partitions. A table without rows has one file,
    which tells its columns."""
    schema = arrow_schema(table)
    done: list[DataFile] = []
    for partition, some in groupby(_cut(batches, schema), key=itemgetter(0)):
        files = PartitionFiles(directory, table.name, partition, name, settings, schema, order)
        try:
            for _, rows in some:
                files.write(rows)
            files.end()
        except BaseException:
            files.abandon()
            raise
        done += files.done
    return done


def _cut(batches: Iterable[Any], schema: Any) -> Iterator[tuple[int, Any]]:
    """The batches, cut where another partition begins."""
    found = False
    for batch in batches:
        partitions = batch.column(_PARTITION).to_numpy()
        rows = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        for partition in np.unique(partitions).tolist():
            start, stop = np.searchsorted(partitions, [partition, partition + 1])
            yield partition, rows.slice(start, stop - start)
            found = True
    if not found:
        yield 0, schema.empty_table()
