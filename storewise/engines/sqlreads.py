"""The reading verbs of SQL stores, over one store or several.

SQLite, DuckDB and the SQL servers answer the same SQL; what differs is how a statement reaches a
store. A client gives `_rows` (run a statement against one store) and `_source` (what stands behind
FROM), and inherits the verbs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from storewise.documents import Document, Kind
from storewise.engines.base import Client
from storewise.engines.tabular import (
    Router,
    Row,
    Table,
    check_limit,
    chunks,
    merge_counts,
    merge_scans,
)
from storewise.errors import EngineError

#: A group of stores that one statement can read: (a store of the group, its FROM item).
Part = tuple[int, str]
#: A statement for one store: (store, SQL, parameters).
Request = tuple[int, str, Sequence[Any]]
#: What names a store: a directory or a server. Its text stands in messages.
Store = TypeVar("Store")


class SqlReads(Client, Generic[Store]):
    """get, get_many, scan, range, aggregate and count by SQL."""

    engine_name: ClassVar[str]
    mark: ClassVar[str] = "?"
    """What stands for a parameter in a statement."""

    def __init__(self, stores: Sequence[Store], router: Router) -> None:
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

    def _scan_parts(self, table: Table, start: bytes) -> Sequence[Part]:
        """The parts that a scan from `start` reads."""
        return self._parts(table)

    def _gather(self, requests: Sequence[Request]) -> list[list[Row]]:
        """The rows of each statement; servers override it to ask all of them at once."""
        return [self._rows(*request) for request in requests]

    def _among(self, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        """Conditions and parameters that together are true for these ids."""
        for chunk in chunks(ids):
            yield f"_id IN ({', '.join([self.mark] * len(chunk))})", chunk

    def _use_tables(self, tables: Mapping[Kind, Table]) -> None:
        """Take `tables` as those of the stores; called again whenever sources change."""
        self._tables = tables
        self._decoders = {kind: table.decoder() for kind, table in tables.items()}
        self._get_sql = {
            (kind, store): (
                f"SELECT {table.select} FROM {self._source(table, store)} WHERE _id = {self.mark}"
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
        requests = [
            (store, f"SELECT {table.select} FROM {self._source(table, store)} WHERE {which}", ids)
            for store, group in self._router.group(document_ids).items()
            for which, ids in self._among(group)
        ]
        for rows in self._gather(requests):
            for row in rows:
                found[row[0]] = decode(row)
        return [found.get(document_id) for document_id in document_ids]

    def scan(self, kind: Kind, start: bytes, limit: int) -> list[Document]:
        check_limit(limit)
        table = self._table(kind)
        decode = self._decoders[kind]
        clauses = f"WHERE _id >= {self.mark} ORDER BY _id LIMIT {limit}"
        requests = [
            (store, f"SELECT {table.select} FROM {source} {clauses}", (start,))
            for store, source in self._scan_parts(table, start)
        ]
        scans = [[decode(row) for row in rows] for rows in self._gather(requests)]
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
        condition, values = table.range_clause(field_name, low, high, self.mark)
        requests = [
            (store, f"SELECT {table.select} FROM {source} WHERE {condition}", values)
            for store, source in self._parts(table)
        ]
        if limit is None:
            return [decode(row) for rows in self._gather(requests) for row in rows]
        # One store after the other: the first ones often have enough.
        found: list[Document] = []
        for store, sql, _ in requests:
            found += map(decode, self._rows(store, f"{sql} LIMIT {limit - len(found)}", values))
            if len(found) >= limit:
                break
        return found

    def aggregate(self, kind: Kind, field_name: str, limit: int) -> list[tuple[Any, int]]:
        check_limit(limit)
        table = self._table(kind)
        column = table.column(field_name)
        name = table.expression(column)
        parts = self._parts(table)
        # A store alone knows which values are frequent; of several each must tell all.
        end = f" ORDER BY n DESC, {name} LIMIT {limit}" if len(parts) == 1 else ""
        requests: list[Request] = [
            (
                store,
                f"SELECT {name}, count(*) AS n FROM {source} "
                f"WHERE {name} IS NOT NULL GROUP BY {name}{end}",
                (),
            )
            for store, source in parts
        ]
        tallies = [
            [(table.value(column, value), number) for value, number in rows]
            for rows in self._gather(requests)
        ]
        return tallies[0] if len(parts) == 1 else merge_counts(tallies, limit)

    def count(self, kind: Kind) -> int:
        table = self._table(kind)
        requests: list[Request] = [
            (store, f"SELECT count(*) FROM {source}", ()) for store, source in self._parts(table)
        ]
        return sum(int(rows[0][0]) for rows in self._gather(requests))
