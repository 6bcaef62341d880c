"""The verbs of SQL stores, over one store or several.

SQLite, DuckDB and the SQL servers answer the same SQL; what differs is how a statement reaches a
store. A client gives `_rows` and `_change` (run a statement against one store) and `_source` (what
stands behind FROM), and inherits the verbs. Where a store's SQL is another, it overrides `_among`,
`_first_rows` or `_floor`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from sys import float_info
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Flags, Mode
from storewise.engines.contract.queries import Count, Find, Histogram, Plan, Query, Scan, Top
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.stores import Router
from storewise.engines.support.table import CompositeKey, Row, Table, quoted
from storewise.errors import EngineError

#: What a store with SQL in the client's process can do.
FLAGS = Flags(
    embedded=True,
    secondary_indexes=True,
    updates=True,
    deletes=True,
    scans=True,
    ranges=True,
    server_aggregation=True,
    finds=True,
    explains=True,
)

#: Ids that one `IN (...)` list may hold: far below SQLite's limit of 999 in old builds.
IN_LIST = 500
#: A group of stores that one statement can read: (a store of the group, its FROM item).
Part = tuple[int, str]
#: A statement for one store: (store, SQL, parameters).
Request = tuple[int, str, Sequence[Any]]


@dataclass(slots=True, kw_only=True, eq=False)
class SqlState(ProcessState[Table]):
    """What the clients of one process have in common."""

    stores: tuple[Any, ...]
    """Directories or servers; their texts stand in messages."""
    router: Router

    @classmethod
    def of(cls, cluster: Cluster, mode: Mode, stores: tuple[Any, ...], **more: Any) -> Self:
        """For `Engine.connect`; `more` are the fields of a subclass."""
        router = Router(len(stores), cluster.placement)
        return cls(mode=mode, kinds=cluster.kinds, stores=stores, router=router, **more)


State = TypeVar("State", bound=SqlState)


class _Point(NamedTuple):
    """The statements that read a document of a kind by its id, one for each store."""

    sql: list[str]
    composite: CompositeKey | None
    decode: Callable[[Row], Document]


class SqlReads(ThreadClient[State, Table]):
    """The verbs by SQL, and how the store would answer them.

    `_requests` makes the statements of a query, so that `explain` shows the plan of just those.
    """

    mark: ClassVar[str] = "?"
    """What stands for a parameter in a statement."""
    row_lock: str = ""
    """What a SELECT ends with whose row will be changed."""
    explain_statement: str = "EXPLAIN"

    def __init__(self, shared: State) -> None:
        self._stores = shared.stores
        self._router = shared.router
        self._tables: Mapping[Kind, Table] = {}
        self._points: dict[Kind, _Point] = {}
        self._updates: dict[tuple[Kind, tuple[str, ...]], str] = {}
        """Statements that set these fields, which the table has."""
        super().__init__(shared)

    @abstractmethod
    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> Sequence[Row]:
        """All rows that a statement gives; EngineError for a failure of the store."""

    def _fail(self, store: int, error: Exception) -> NoReturn:
        """Raise an error of a store as EngineError."""
        where = f"{self.engine_name}: {self._stores[store]}"
        raise EngineError(f"{where}: {self._error_message(error)}") from error

    @abstractmethod
    def _source(self, table: Table, store: int) -> str:
        """The FROM item of a table in one store."""

    def _parts(self, table: Table, query: Query) -> Sequence[Part]:
        """The groups of stores whose statements answer a query; what no row can have that fulfils
        its conditions may be left out."""
        return [(store, self._source(table, store)) for store in range(len(self._stores))]

    def _gather(self, requests: Sequence[Request]) -> list[Sequence[Row]]:
        """The rows of each statement; servers override it to ask all of them at once."""
        return [self._rows(*request) for request in requests]

    def _use_tables(self, tables: Mapping[Kind, Table]) -> None:
        """Take `tables` as those of the stores; called again whenever sources change."""
        self._tables = tables
        self._updates = {}
        self._points = {
            kind: _Point(
                [
                    f"SELECT {table.select} FROM {self._source(table, store)} "
                    f"WHERE {table.key_clause(self.mark)}"
                    for store in range(len(self._stores))
                ],
                table.composite,
                table.decoder(),
            )
            for kind, table in tables.items()
        }

    def _table(self, kind: Kind) -> Table:
        if kind not in self._tables and self._shared.tables:
            # Another thread's client has created them since.
            self._use_tables(self._shared.tables)
        table = self._tables.get(kind)
        if table is None:
            raise EngineError(
                f"{self.engine_name}: {self._stores[0]}: {kind.table} was never created"
            )
        return table

    # Changes.

    def _store_of(self, document_id: bytes) -> int:
        """The store whose document is changed; a writer of an embedded engine has one."""
        return 0

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        """Run a statement that changes rows; how many it matched."""
        raise self._cannot("update or delete")

    def _exclusive(self, store: int) -> AbstractContextManager[Any]:
        """What is done within it is one transaction, and no other client is between."""
        raise self._cannot("update or delete")

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        table, names = self._table(kind), tuple(changes)
        table.check_changes(changes)
        sql = self._updates.get((kind, names))
        if sql is None:
            if table.has_params:
                return self._update_open_fields(table, document_id, changes)
            sql = self._updates[kind, names] = self._update_of(table, names)
        values = (*changes.values(), *table.key_values(document_id))
        return self._change(self._store_of(document_id), sql, values) > 0

    def _update_open_fields(
        self, table: Table, document_id: bytes, changes: Mapping[str, Any]
    ) -> bool:
        """Update fields that may lie in the JSON column, so that the row is read first."""
        store, key = self._store_of(document_id), table.key_values(document_id)
        with self._exclusive(store):
            rows = self._rows(store, f"{self._points[table.kind].sql[store]}{self.row_lock}", key)
            if not rows:
                return False
            (row,) = table.rows([{**table.document(rows[0]), **changes}])
            new = {n: v for n, v in zip(table.names, row, strict=True) if n not in table.key}
            return self._change(store, self._update_of(table, new), (*new.values(), *key)) > 0

    def _update_of(self, table: Table, names: Iterable[str]) -> str:
        """The statement that sets these columns of one row."""
        clauses = ", ".join(f"{quoted(name)} = {self.mark}" for name in names)
        source = self._source(table, 0)
        return f"UPDATE {source} SET {clauses} WHERE {table.key_clause(self.mark)}"

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        table = self._table(kind)
        sql = f"DELETE FROM {self._source(table, 0)} WHERE {table.key_clause(self.mark)}"
        return self._change(self._store_of(document_id), sql, table.key_values(document_id)) > 0

    # Queries.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        point = self._points.get(kind)
        if point is None:
            self._table(kind)
            point = self._points[kind]
        sql, composite, decode = point
        values = (document_id,) if composite is None else composite.values(document_id)
        for store in self._router.stores_of(document_id):
            if rows := self._rows(store, sql[store], values):
                return decode(rows[0])
        return None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        table = self._table(kind)
        decode = self._points[kind].decode
        requests = [
            (store, f"SELECT {table.select} FROM {self._source(table, store)} WHERE {which}", keys)
            for store, group in self._router.group(document_ids).items()
            for which, keys in self._among(table, group)
        ]
        rows = chain.from_iterable(self._gather(requests))
        documents = {document["_id"]: document for document in map(decode, rows)}
        return [documents.get(document_id) for document_id in document_ids]

    def _among(self, table: Table, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        """Conditions and parameters that together are true for these ids."""
        size = IN_LIST // len(table.key)
        for start in range(0, len(ids), size):
            keys = [table.key_values(document_id) for document_id in ids[start : start + size]]
            if table.composite is None:
                which = f"{table.key_list} IN ({', '.join([self.mark] * len(keys))})"
            else:
                which = " OR ".join([f"({table.key_clause(self.mark)})"] * len(keys))
            yield which, list(chain.from_iterable(keys))

    def scan(self, query: Scan) -> list[Document]:
        return query.merged([list(part) for part in self._documents(query)])

    def find(self, query: Find) -> list[Document]:
        return query.merged(self._documents(query))

    def count(self, query: Count) -> int:
        return sum(int(rows[0][0]) for rows in self._gather(self._requests(query)))

    def top(self, query: Top) -> list[tuple[Any, int]]:
        answers = self._gather(self._requests(query))
        return query.merged([(value, n) for value, n in rows] for rows in answers)

    def histogram(self, query: Histogram) -> dict[int, int]:
        bins: Counter[int] = Counter()
        for number, documents in chain.from_iterable(self._gather(self._requests(query))):
            bins[int(number)] += int(documents)
        return dict(bins)

    def explain(self, query: Find | Count) -> Plan:
        text = self._plan(*self._requests(query)[0])
        return Plan(text, self._uses_index(text, query))

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        rows = self._rows(store, f"{self.explain_statement} {sql}", values)
        return "\n".join(str(row[-1]) for row in rows)

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        """Whether a plan takes a secondary index; here one that names it."""
        return any(f"{query.kind.table}_{condition.field}" in plan for condition in query.where)

    def _documents(self, query: Scan | Find) -> list[Iterator[Document]]:
        """The documents of each store that the query's statements give."""
        requests = self._requests(query)
        decode = self._points[query.kind].decode
        return [map(decode, rows) for rows in self._gather(requests)]

    def _requests(self, query: Query) -> list[Request]:
        """The statements whose rows together answer a query: one for each part."""
        table = self._table(query.kind)
        parts = self._parts(table, query)
        select, clauses, rest = "count(*)", list[str](), ""
        values: list[Any] = []
        if not isinstance(query, Top | Histogram):
            clauses, values = table.conditions(query.where, self.mark)
        match query:
            case Scan():
                select = table.select
                rest = self._first_rows(query.limit, f" ORDER BY {table.key_list}")
            case Find():
                select = table.select
                order = self._order(table, query, clauses)
                rest = order if query.limit is None else self._first_rows(query.limit, order)
            case Top():
                name = quoted(table.column(query.field).name)
                select, clauses = f"{name}, count(*) AS n", [f"{name} IS NOT NULL"]
                rest = f" GROUP BY {name}"
                # A store alone knows which values are frequent; of several each must tell all.
                if len(parts) == 1:
                    rest += self._first_rows(query.limit, f" ORDER BY n DESC, {name}")
            case Histogram():
                select = f"{self._bin(table, query, clauses)} AS n"
        which = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        statements = [(s, f"SELECT {select} FROM {source}{which}{rest}") for s, source in parts]
        if isinstance(query, Histogram):
            outer = "SELECT n, count(*) FROM ({}) bins GROUP BY n"
            statements = [(store, outer.format(sql)) for store, sql in statements]
        return [(store, sql, values) for store, sql in statements]

    def _order(self, table: Table, query: Find, clauses: list[str]) -> str:
        """ORDER BY of a query; adds the condition that leaves nulls out."""
        if query.order_by is None:
            return ""
        name = quoted(table.column(query.order_by).name)
        if not any(one.field == query.order_by for one in query.where):
            clauses.append(f"{name} IS NOT NULL")
        return f" ORDER BY {name}, {table.key_list}"

    def _first_rows(self, limit: int, order: str) -> str:
        """What follows a statement of which only the first rows in an order (or any) are wanted."""
        return f"{order} LIMIT {limit}"

    def _bin(self, table: Table, query: Histogram, clauses: list[str]) -> str:
        """The bin of a value; adds the conditions that leave null and infinite values out."""
        column = table.column(query.field)
        name = quoted(column.name)
        clauses.append(f"{name} IS NOT NULL")
        if column.type == "float":
            clauses.append(f"abs({name}) <= {float_info.max!r}")
        # With an exponent, because some stores take 0.1 for a decimal.
        return self._floor(f"{name} / {query.width:.17e}")

    def _floor(self, quotient: str) -> str:
        """SQL of the largest integer that is not above a quotient of floats."""
        return f"floor({quotient})"
