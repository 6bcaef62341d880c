"""The end of a load: its parts become files of the data set.

DuckDB brings the rows of a table into their order, because ids that were inserted twice, and
documents whose search is not there, have to be seen to. The data set's own writer makes the files
and its commit gives them their names, so that a killed `finish` leaves the parts or the files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from storewise.dataset import pieces
from storewise.dataset.commits import Commit, stem
from storewise.dataset.conversion import describe, recover
from storewise.dataset.home import clear, locked
from storewise.dataset.rounds import Folders, check_rows, commit_round
from storewise.dataset.settings import SHARE_OF_TEXT, Settings, Wanted
from storewise.dataset.writer import DataFile, PartitionFiles, group_rows
from storewise.documents import KINDS, Kind
from storewise.engines.parquet.store import Store
from storewise.engines.support.batches import arrow_schema
from storewise.engines.support.table import Table, quoted

_PARTITIONS = "storewise_partitions"
_PART = "storewise_part"
#: Rows that DuckDB gives at a time.
_ROWS = 8192

#: Gives the FROM item of a table.
From = Callable[[Table], str]


class _Names(NamedTuple):
    """SQL of the names of a row's search, which stand in its own row or in that of the search."""

    query: str
    library: str


def _names(kind: Kind) -> _Names:
    if kind is Kind.TASKS:
        return _Names("coalesce(t.q, '')", "coalesce(t.lib, '')")
    # A question for the hits of a query looks into one partition only: the row's own name counts.
    query = "coalesce(t.q, s.q, '')" if kind is Kind.ALIGN else "coalesce(s.q, '')"
    return _Names(query, "coalesce(s.lib, '')")


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
        if state.next_number("") != store.number:  # an earlier try had come as far as its journal
            store.remove_parts()
            clear(home, own, "")
            store.look()
            return
        settings = describe(home, wanted, int(largest / SHARE_OF_TEXT))
        shutil.rmtree(folders.out, ignore_errors=True)
        number = store.number
        if not settings.by_ids:
            _register_partitions(connection, tables, source, settings)
        added: list[DataFile] = []
        replaced: list[str] = []
        documents = 0
        for kind in todo:
            table = tables[kind]
            order = settings.order if kind in KINDS else table.key
            writer = _Writer(folders.out, table, stem("", number), settings, order)
            rows = connection.sql(_statement(tables, kind, source, settings))
            added += writer.write(rows.to_arrow_reader(_ROWS))
            ((count,),) = connection.execute(f"SELECT count(*) FROM {source(table)}").fetchall()
            documents += count
            replaced += [file.name for file in store.files(kind)]
        check_rows(home, documents, added)
        gone = set(replaced)
        added += [file for file in state.files() if file.name not in gone]
        commit = Commit(state.rows(), sorted(added), [*state.commits, *replaced])
        commit_round(home, folders, commit, number, "")
        store.remove_parts()
        clear(home, own, "")
    store.look()


def _register_partitions(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[Kind, Table],
    source: From,
    settings: Settings,
) -> None:
    """Make the table that tells the partition of a name, or of an id's first byte."""
    count = settings.partitions
    if settings.by == "hash":
        names = pa.array([bytes([byte]) for byte in range(256)], pa.binary())
        parts = [pieces.partition_of_byte(byte, count) for byte in range(256)]
    else:
        column = "q" if settings.by == "query" else "lib"
        kinds = [Kind.TASKS, Kind.ALIGN] if settings.by == "query" else [Kind.TASKS]
        every = " UNION ".join(
            f"SELECT coalesce({column}, '') FROM {source(tables[kind])}"
            for kind in kinds
            if kind in tables
        )
        known = sorted({"", *(row[0] for row in connection.execute(every).fetchall())})
        names = pa.array(known, pa.string())
        parts = [pieces.partition_of_name(name, count) for name in known]
    table = pa.table({"name": names, "part": pa.array(parts, pa.int32())})
    connection.register(_PARTITIONS, table)


def _statement(tables: Mapping[Kind, Table], kind: Kind, source: From, settings: Settings) -> str:
    """All rows of a table in their order, and the partition of each where ids do not tell it."""
    table = tables[kind]
    selected = ", ".join(f"t.{quoted(name)}" for name in table.names)
    rows = f"{source(table)} AS t"
    if kind not in KINDS or settings.by_ids:
        key = ", ".join(f"t.{quoted(name)}" for name in table.key)
        return f"SELECT {selected} FROM {rows} ORDER BY {key}"
    names = _names(kind)
    if kind is not Kind.TASKS:
        rows += f" LEFT JOIN {source(tables[Kind.TASKS])} AS s ON s._id = t.ti"
    of: dict[str, str] = {"hash": "t._id[1:1]", "query": names.query, "library": names.library}
    sql = {"q": names.query, "lib": names.library, "_id": "t._id"}
    keys = ["p.part", *(sql[name] for name in settings.order)]
    return (
        f"SELECT {selected}, p.part AS {_PART} FROM {rows} "
        f"JOIN {_PARTITIONS} AS p ON p.name = {of[settings.by]} ORDER BY {', '.join(keys)}"
    )


class _Writer:
    """Writes rows that come in the order of their partitions into files of row groups."""

    def __init__(
        self, directory: Path, table: Table, name: str, settings: Settings, order: Sequence[str]
    ) -> None:
        self._schema = arrow_schema(table)
        self._settings = settings
        self._place = (directory, table.name)
        self._name, self._order = name, order

    def write(self, batches: Iterable[Any]) -> list[DataFile]:
        """Write them all; a table without rows has one file, which tells its columns."""
        done: list[DataFile] = []
        for partition, groups in self._partitions(batches):
            files = PartitionFiles(
                *self._place, partition, self._name, self._settings, self._schema, self._order
            )
            try:
                for group in groups:
                    files.write(group)
                files.end()
            except BaseException:
                files.abandon()
                raise
            done += files.done
        return done

    def _partitions(self, batches: Iterable[Any]) -> Iterable[tuple[int, Iterable[Any]]]:
        """The partitions and their row groups; those of one are taken before the next comes."""
        coming = _PartitionedReader(batches, self._schema, self._settings)
        if not coming.has_rows():
            yield 0, [self._schema.empty_table()]
        while coming.has_rows():
            yield coming.partition, coming.groups()


class _PartitionedReader:
    """Reads batches of rows and cuts them where a new partition begins."""

    def __init__(self, batches: Iterable[Any], schema: Any, settings: Settings) -> None:
        self._batches = iter(batches)
        self._schema = schema
        self._settings = settings
        self._rows: Any = None
        self._parts: Any = None

    def has_rows(self) -> bool:
        """Whether rows are left; reads the next batch if needed."""
        while self._rows is None or not len(self._rows):
            batch = next(self._batches, None)
            if batch is None:
                return False
            rows = pa.Table.from_batches([batch])
            self._rows = rows.select(self._schema.names).cast(self._schema)
            if _PART in rows.column_names:
                self._parts = rows[_PART].to_numpy()
            elif self._settings.partitions > 1:
                first = pieces.ids_of(self._rows["_id"])[:, 0].astype(np.int64)
                self._parts = pieces.partition_of_byte(first, self._settings.partitions)
            else:
                self._parts = np.zeros(len(rows), np.int64)
        return True

    @property
    def partition(self) -> int:
        """Of the next row."""
        return int(self._parts[0])

    def groups(self) -> Iterable[Any]:
        """The row groups of the partition that comes."""
        partition = self.partition
        waiting: list[Any] = []
        size = 0
        most = group_rows(self._settings, self._rows.nbytes // len(self._rows))
        while self.has_rows() and self.partition == partition:
            count = int(np.searchsorted(self._parts, partition, "right"))
            count = min(count, most - size)
            waiting.append(self._rows.slice(0, count))
            self._rows, self._parts = self._rows.slice(count), self._parts[count:]
            size += count
            if size == most:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
        if waiting:
            yield pa.concat_tables(waiting)
