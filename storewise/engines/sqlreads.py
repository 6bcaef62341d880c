"""The reading verbs of embedded SQL stores, over one store or several.

SQLite and DuckDB answer the same SQL; what differs is how a statement reaches a store. A client
gives `_rows` (run a statement against one store) and `_source` (what stands behind FROM), and
inherits the verbs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from storewise.documents import Document, Kind
from storewise.engines.base import Client
from storewise.engines.tabular import (
    Router,
    Row,
    Table,
    check_limit,
    chunks,
    directory_bytes,
    merge_counts,
    merge_scans,
    quoted,
)
from storewise.errors import EngineError

#: A group of stores that one statement can read: (a store of the group, its FROM item).
Part = tuple[int, str]


class SqlReads(Client):
    """get, get_many, scan, range, aggregate and count by SQL."""

    engine_name: ClassVar[str]

    def __init__(self, stores: Sequence[Path], router: Router) -> None:
        self._stores = tuple(stores)
        self._router = router
        self._tables: Mapping[Kind, Table] = {}
        self._decoders: dict[Kind, Callable[[Row], Document]] = {}
        self._get_sql: dict[tuple[Kind, int], str] = {}

    @abstractmethod
    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows that a statement gives; EngineError for a failure of the store."""

    @abstractmethod
    def _source(self, table: Table, store: int) -> str:
        """The FROM item of a table in one store."""

    def _parts(self, table: Table) -> Sequence[Part]:
        """The groups of stores that statements over all stores read, one after the other."""
        return [(store, self._source(table, store)) for store in range(len(self._stores))]

    def _use_tables(self, tables: Mapping[Kind, Table]) -> None:
        """Take `tables` as those of the stores; called again whenever sources change."""
        self._tables = tables
        self._decoders = {kind: table.decoder() for kind, table in tables.items()}
        self._get_sql = {
            (kind, store): (
                f"SELECT {table.select} FROM {self._source(table, store)} WHERE _id = ?"
            )
            for kind, table in tables.items()
            for store in range(len(self._stores))
        }

    def _table(self, kind: Kind) -> Table:
        table = self._tables.get(kind)
        if table is None:
            raise EngineError(
                f"{self.engine_name}: {self._stores[0]}: {kind.table} was never created"
            )
        return table

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        for store in self._router.stores_of(document_id):
            sql = self._get_sql.get((kind, store))
            if sql is None:
                self._table(kind)
                sql = self._get_sql[kind, store]
            rows = self._rows(store, sql, (document_id,))
            if rows:
                return self._decoders[kind](rows[0])
        return None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        table = self._table(kind)
        decode = self._decoders[kind]
        found: dict[bytes, Document] = {}
        for store, ids in self._router.group(document_ids).items():
            head = f"SELECT {table.select} FROM {self._source(table, store)} WHERE _id IN "
            for chunk in chunks(ids):
                marks = ", ".join("?" * len(chunk))
                for row in self._rows(store, f"{head}({marks})", chunk):
                    found[row[0]] = decode(row)
        return [found.get(document_id) for document_id in document_ids]

    def scan(self, kind: Kind, start: bytes, limit: int) -> list[Document]:
        check_limit(limit)
        table = self._table(kind)
        decode = self._decoders[kind]
        scans = []
        for store, source in self._parts(table):
            sql = f"SELECT {table.select} FROM {source} WHERE _id >= ? ORDER BY _id LIMIT {limit}"
            scans.append([decode(row) for row in self._rows(store, sql, (start,))])
        return scans[0] if len(scans) == 1 else merge_scans(scans, limit)

    def range(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        check_limit(limit)
        table = self._table(kind)
        decode = self._decoders[kind]
        condition, values = table.range_clause(field_name, low, high)
        found: list[Document] = []
        for store, source in self._parts(table):
            sql = f"SELECT {table.select} FROM {source} WHERE {condition}"
            if limit is not None:
                sql += f" LIMIT {limit - len(found)}"
            found += map(decode, self._rows(store, sql, values))
        return found

    def aggregate(self, kind: Kind, field_name: str, limit: int) -> list[tuple[Any, int]]:
        check_limit(limit)
        table = self._table(kind)
        name = quoted(table.column(field_name).name)
        tallies = []
        parts = self._parts(table)
        for store, source in parts:
            sql = (
                f"SELECT {name}, count(*) AS n FROM {source} "
                f"WHERE {name} IS NOT NULL GROUP BY {name}"
            )
            if len(parts) == 1:
                sql += f" ORDER BY n DESC, {name} LIMIT {limit}"
            tallies.append(self._rows(store, sql))
        if len(parts) == 1:
            return [(value, number) for value, number in tallies[0]]
        return merge_counts(tallies, limit)

    def count(self, kind: Kind) -> int:
        table = self._table(kind)
        return sum(
            int(self._rows(store, f"SELECT count(*) FROM {source}")[0][0])
            for store, source in self._parts(table)
        )

    def disk_bytes(self) -> int:
        return directory_bytes(self._stores)
