"""The reading verbs of SQL stores, over one store or several.

SQLite, DuckDB and the SQL servers answer the same SQL; what differs is how a statement reaches a
store. A client gives `_rows` (run a statement against one store) and `_source` (what stands behind
FROM), and inherits the verbs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from sys import float_info
from typing import Any, ClassVar, Generic, TypeVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Verb, Where
from storewise.engines.sql.histogram import Dialect, added_classes, checked_classes, class_of
from storewise.engines.support.checks import check_limit
from storewise.engines.support.composite_keys import CompositeKey, quoted
from storewise.engines.support.conditions import conditions, range_clause
from storewise.engines.support.merge import merge_counts, merge_found, merge_scans
from storewise.engines.support.routing import IN_LIST, Router, chunks
from storewise.engines.support.table import Row, Table
from storewise.errors import EngineError

#: A group of stores that one statement can read: (a store of the group, its FROM item).
Part = tuple[int, str]
#: A statement for one store: (store, SQL, parameters).
Request = tuple[int, str, Sequence[Any]]
#: What names a store: a directory or a server. Its text stands in messages.
Store = TypeVar("Store")


class SqlReads(Dialect, Client, Generic[Store]):
    """The reading verbs by SQL, and how the store would answer them.

    Each verb's statements are made by a method of its own, so that `explain` shows the plan of
    just those.
    """

    engine_name: ClassVar[str]
    mark: ClassVar[str] = "?"
    """What stands for a parameter in a statement."""

    def __init__(self, stores: Sequence[Store], router: Router) -> None:
        self._stores = tuple(stores)
        self._router = router
        self._tables: Mapping[Kind, Table] = {}
        self._decoders: dict[Kind, Callable[[Row], Document]] = {}
        self._get_sql: dict[tuple[Kind, int], str] = {}
        self._composites: dict[Kind, CompositeKey] = {}

    @abstractmethod
    def _rows(
        self, store: int, sql: str, values: Sequence[Any] = (), anew: bool = False
    ) -> list[Row]:
        """All rows that a statement gives; EngineError for a failure of the store.

        `anew`: the best plan depends on the values, so that a plan that was made without them (of
        a prepared statement) must not be used."""

    @abstractmethod
    def _source(self, table: Table, store: int) -> str:
        """The FROM item of a table in one store."""

    def _parts(self, table: Table) -> Sequence[Part]:
        """The groups of stores that statements over all stores read, one after the other."""
        return [(store, self._source(table, store)) for store in range(len(self._stores))]

    def _scan_parts(self, table: Table, start: bytes) -> Sequence[Part]:
        """The parts that a scan from `start` reads."""
        return self._parts(table)

    def _gather(self, requests: Sequence[Request], anew: bool = False) -> list[list[Row]]:
        """The rows of each statement; servers override it to ask all of them at once."""
        return [self._rows(*request, anew=anew) for request in requests]

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        """The store's own words about how it would run a statement with these parameters."""
        raise self._cannot("explain")

    def _among(self, table: Table, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        """Conditions and parameters that together are true for these ids."""
        if table.composite is None:
            for chunk in chunks(ids):
                yield f"_id IN ({', '.join([self.mark] * len(chunk))})", chunk
            return
        keys = [key for key in map(table.composite.values, ids) if key is not None]
        size = IN_LIST // len(table.key)
        for start in range(0, len(keys), size):
            some = keys[start : start + size]
            yield self._among_keys(table, len(some)), [number for key in some for number in key]

    def _among_keys(self, table: Table, number: int) -> str:
        """A condition that is true for so many composite keys, whose numbers are parameters."""
        return " OR ".join([f"({table.key_clause(self.mark)})"] * number)

    def _use_tables(self, tables: Mapping[Kind, Table]) -> None:
        """Take `tables` as those of the stores; called again whenever sources change."""
        self._tables = tables
        self._decoders = {kind: table.decoder() for kind, table in tables.items()}
        self._composites = {kind: t.composite for kind, t in tables.items() if t.composite}
        self._get_sql = {
            (kind, store): (
                f"SELECT {table.select} FROM {self._source(table, store)} "
                f"WHERE {table.key_clause(self.mark)}"
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
        values: Sequence[Any] = (document_id,)
        if kind in self._composites:
            found = self._composites[kind].values(document_id)
            if found is None:
                return None
            values = found
        for store in self._router.stores_of(document_id):
            sql = self._get_sql.get((kind, store))
            if sql is None:
                self._table(kind)
                sql = self._get_sql[kind, store]
            rows = self._rows(store, sql, values)
            if rows:
                return self._decoders[kind](rows[0])
        return None

    def _get_requests(self, kind: Kind, document_id: bytes) -> list[Request]:
        table = self._table(kind)
        values = table.key_values(document_id)
        if values is None:
            raise EngineError(f"{kind.table}: no document can have the id {document_id!r}")
        return [
            (store, self._get_sql[kind, store], values)
            for store in self._router.stores_of(document_id)
        ]

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        table = self._table(kind)
        decode = self._decoders[kind]
        found: dict[bytes, Document] = {}
        requests = [
            (store, f"SELECT {table.select} FROM {self._source(table, store)} WHERE {which}", keys)
            for store, group in self._router.group(document_ids).items()
            for which, keys in self._among(table, group)
        ]
        for rows in self._gather(requests):
            for document in map(decode, rows):
                found[document["_id"]] = document
        return [found.get(document_id) for document_id in document_ids]

    def scan(self, kind: Kind, start: bytes, limit: int) -> list[Document]:
        requests = self._scan_requests(kind, start, limit)
        decode = self._decoders[kind]
        scans = [[decode(row) for row in rows] for rows in self._gather(requests)]
        return scans[0] if len(scans) == 1 else merge_scans(scans, limit)

    def _scan_requests(self, kind: Kind, start: bytes, limit: int) -> list[Request]:
        check_limit(limit)
        table = self._table(kind)
        clause, values = table.key_compared(">=", start, self.mark)
        rest = f"WHERE {clause} ORDER BY {table.key_list} LIMIT {limit}"
        return [
            (store, f"SELECT {table.select} FROM {source} {rest}", values)
            for store, source in self._scan_parts(table, start)
        ]

    def range(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        return self._until(kind, self._range_requests(kind, field_name, low, high, limit), limit)

    def _range_requests(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> list[Request]:
        check_limit(limit)
        table = self._table(kind)
        condition, values = range_clause(table, field_name, low, high, self.mark, self.infinite)
        return self._select(table, table.select, [condition], values, _limit(limit))

    def _until(self, kind: Kind, requests: Sequence[Request], limit: int | None) -> list[Document]:
        """The documents of all statements, or the first `limit` that come."""
        decode = self._decoders[kind]
        if limit is None:
            rows = self._gather(requests, anew=True)
            return [decode(row) for some in rows for row in some]
        # One store after the other: the first ones often have enough.
        found: list[Document] = []
        for request in requests:
            found += map(decode, self._rows(*request, anew=True))
            if len(found) >= limit:
                break
        return found[:limit]

    def aggregate(self, kind: Kind, field_name: str, limit: int) -> list[tuple[Any, int]]:
        requests = self._aggregate_requests(kind, field_name, limit)
        table = self._table(kind)
        column = table.column(field_name)
        tallies = [
            [(table.value(column, value), number) for value, number in rows]
            for rows in self._gather(requests)
        ]
        return tallies[0] if len(tallies) == 1 else merge_counts(tallies, limit)

    def _aggregate_requests(self, kind: Kind, field_name: str, limit: int) -> list[Request]:
        check_limit(limit)
        table = self._table(kind)
        name = table.expression(table.column(field_name))
        # A store alone knows which values are frequent; of several each must tell all.
        one = len(self._parts(table)) == 1
        end = f" ORDER BY n DESC, {name} LIMIT {limit}" if one else ""
        return self._select(
            table,
            f"{name}, count(*) AS n",
            [f"{name} IS NOT NULL"],
            (),
            f" GROUP BY {name}{end}",
        )

    def count(self, kind: Kind) -> int:
        requests = self._select(self._table(kind), "count(*)", [], ())
        return sum(int(rows[0][0]) for rows in self._gather(requests))

    def find(
        self,
        kind: Kind,
        where: Sequence[Where] = (),
        order_by: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Document]:
        requests = self._find_requests(kind, where, order_by, descending, limit)
        if order_by is None:
            return self._until(kind, requests, limit)
        decode = self._decoders[kind]
        parts = [[decode(row) for row in rows] for rows in self._gather(requests, anew=True)]
        return parts[0] if len(parts) == 1 else merge_found(parts, order_by, descending, limit)

    def _find_requests(
        self,
        kind: Kind,
        where: Sequence[Where] = (),
        order_by: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Request]:
        check_limit(limit)
        table = self._table(kind)
        clauses, values = conditions(table, where, self.mark, infinite=self.infinite)
        order = ""
        if order_by is not None:
            way = " DESC" if descending else ""
            if order_by == "_id":
                order = ", ".join(f"{quoted(name)}{way}" for name in table.key)
            else:
                name = table.expression(table.column(order_by))
                order = f"{name}{way}, {table.key_list}"
                if not any(condition.field == order_by for condition in where):
                    clauses.append(f"{name} IS NOT NULL")
            order = f" ORDER BY {order}"
        return self._select(table, table.select, clauses, values, f"{order}{_limit(limit)}")

    def count_where(self, kind: Kind, where: Sequence[Where]) -> int:
        requests = self._count_where_requests(kind, where)
        return sum(int(rows[0][0]) for rows in self._gather(requests, anew=True))

    def _count_where_requests(self, kind: Kind, where: Sequence[Where]) -> list[Request]:
        table = self._table(kind)
        clauses, values = conditions(table, where, self.mark, infinite=self.infinite)
        return self._select(table, "count(*)", clauses, values)

    def histogram(
        self, kind: Kind, field_name: str, width: float, where: Sequence[Where] = ()
    ) -> dict[int, int]:
        requests = self._histogram_requests(kind, field_name, width, where)
        rows = [row for rows in self._gather(requests, anew=True) for row in rows]
        return added_classes(self._table(kind), field_name, width, rows)

    def _histogram_requests(
        self, kind: Kind, field_name: str, width: float, where: Sequence[Where] = ()
    ) -> list[Request]:
        table = self._table(kind)
        column = checked_classes(table, field_name, width)
        clauses, values = conditions(table, where, self.mark, infinite=self.infinite)
        name = table.expression(column)
        clauses.append(f"{name} IS NOT NULL")
        if column.type == "float" and self.infinite:
            clauses.append(f"abs({name}) <= {self.double(float_info.max)}")
        head = "SELECT n, count(*)"
        number, selected = class_of(column, name, width, self)
        return [
            (
                store,
                f"{head} FROM (SELECT {number} AS n FROM ({inner}) AS q) AS c GROUP BY n",
                bound,
            )
            for store, inner, bound in self._select(table, selected, clauses, values)
        ]

    def _select(
        self,
        table: Table,
        selected: str,
        clauses: Sequence[str],
        values: Sequence[Any],
        rest: str = "",
    ) -> list[Request]:
        """A SELECT over all stores: one statement for each part."""
        which = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        return [
            (store, f"SELECT {selected} FROM {source}{which}{rest}", values)
            for store, source in self._parts(table)
        ]

    def explain(self, verb: Verb, kind: Kind, *arguments: Any, **named: Any) -> str:
        makers: Mapping[str, Callable[..., list[Request]]] = {
            "get": self._get_requests,
            "scan": self._scan_requests,
            "range": self._range_requests,
            "aggregate": self._aggregate_requests,
            "find": self._find_requests,
            "count_where": self._count_where_requests,
            "histogram": self._histogram_requests,
        }
        if verb not in makers:
            raise EngineError(f"explain knows {', '.join(makers)}, not {verb!r}")
        requests = makers[verb](kind, *arguments, **named)
        if not requests:
            raise EngineError(f"{self.engine_name}: no store is asked by this {verb}")
        return self._plan(*requests[0])


def _limit(limit: int | None) -> str:
    return "" if limit is None else f" LIMIT {limit}"


def check_columns(client: SqlReads[Path], tables: Mapping[Kind, Table]) -> None:
    """Raise EngineError where a table that was there before `create` has other columns (SQLite
    and DuckDB)."""
    for table in tables.values():
        rows = client._rows(0, f"PRAGMA table_info({quoted(table.name)})")
        names = tuple(row[1] for row in rows)
        if names != table.names:
            raise EngineError(
                f"{client.engine_name}: {client._stores[0]}: {table.name} has the columns "
                f"{', '.join(names)}; expected {', '.join(table.names)}: load into an empty store"
            )
