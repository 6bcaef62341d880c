"""The verbs of SQL stores, over one store or several.

SQLite, DuckDB and the SQL servers answer the same SQL; what differs is how a statement reaches a
store. A client gives `_rows` and `_change` (run a statement against one store) and `_source` (what
stands behind FROM), and inherits the verbs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from sys import float_info
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Flags, Mode
from storewise.engines.contract.queries import Count, Find, Histogram, Plan, Query, Scan, Top, Where
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.composite_keys import CompositeKey, quoted
from storewise.engines.support.stores import IN_LIST, Router, chunks
from storewise.engines.support.table import TYPES, Row, Table
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
    concurrent_writers=False,
)

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


class _Update(NamedTuple):
    """The statement that updates some fields of a kind, and the types their values may have."""

    sql: str
    types: Sequence[frozenset[type]]
    composite: CompositeKey | None


class SqlReads(ThreadClient[State, Table]):
    """The reading verbs by SQL, and how the store would answer them.

    `_requests` makes the statements of a query, so that `explain` shows the plan of just those.
    """

    mark: ClassVar[str] = "?"
    """What stands for a parameter in a statement."""

    def __init__(self, shared: State) -> None:
        self._stores = shared.stores
        self._router = shared.router
        self._tables: Mapping[Kind, Table] = {}
        self._decoders: dict[Kind, Callable[[Row], Document]] = {}
        self._points: dict[Kind, _Point] = {}
        self._updates: dict[tuple[Kind, tuple[str, ...]], _Update] = {}
        """Of fields whose values go into columns of their own; found to be right before."""
        super().__init__(shared)

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

    def _parts(self, table: Table, where: Sequence[Where] = ()) -> Sequence[Part]:
        """The groups of stores that statements over all stores read, one after the other; what no
        row can have that fulfils `where` may be left out."""
        return [(store, self._source(table, store)) for store in range(len(self._stores))]

    def _scan_parts(self, table: Table, query: Scan) -> Sequence[Part]:
        """The parts that a scan reads."""
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
        keys = [table.composite.values(document_id) for document_id in ids]
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
        self._updates = {}
        self._points = {
            kind: _Point(
                [
                    f"SELECT {table.select} FROM {self._source(table, store)} "
                    f"WHERE {table.key_clause(self.mark)}"
                    for store in range(len(self._stores))
                ],
                table.composite,
                self._decoders[kind],
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

    row_lock: ClassVar[str] = ""
    """What a SELECT ends with whose row will be changed."""

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
        known = self._updates.get((kind, tuple(changes)))
        if known is None:
            return self._first_update(kind, document_id, changes)
        sql, types, composite = known
        for value, right in zip(changes.values(), types):  # noqa: B905 - of one length
            if value.__class__ not in right:
                self._table(kind).check_types(changes)
        key = (document_id,) if composite is None else composite.values(document_id)
        store = self._store_of(document_id) if len(self._stores) > 1 else 0
        return self._change(store, sql, (*changes.values(), *key)) > 0

    def _first_update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Update a combination of fields for the first time, or fields without columns."""
        self._writing("update")
        table = self._table(kind)
        table.check_changes(changes)
        store = self._store_of(document_id)
        names = tuple(changes)
        key = table.key_values(document_id)
        assignments = self._assignments(table, changes)
        if assignments is not None:
            clauses, values = assignments
            sql = self._update_of(table, clauses)
            if table.__class__ is Table:  # others make more of the values
                types = [TYPES[table.by_name[name].type] for name in names]
                if TYPES["id"] not in types:  # they are looked at one by one
                    self._updates[kind, names] = _Update(sql, types, table.composite)
            return self._change(store, sql, [*values, *key]) > 0
        # Fields may lie in the column of open fields, so the row is read first.
        with self._exclusive(store):
            rows = self._rows(store, f"{self._points[kind].sql[store]}{self.row_lock}", key)
            if not rows:
                return False
            (row,) = table.rows([{**table.document(rows[0]), **changes}])
            new = {n: v for n, v in zip(table.names, row, strict=True) if n not in table.key}
            clauses = [f"{quoted(name)} = {self.mark}" for name in new]
            return self._change(store, self._update_of(table, clauses), [*new.values(), *key]) > 0

    def _assignments(
        self, table: Table, changes: Mapping[str, Any]
    ) -> tuple[list[str], list[Any]] | None:
        """The SET clauses of changes and their parameters; None where the row has to be read."""
        if table.has_params:
            return None
        return [f"{quoted(name)} = {self.mark}" for name in changes], [*changes.values()]

    def _update_of(self, table: Table, clauses: Sequence[str]) -> str:
        """The statement that sets what the clauses say in one row."""
        which = table.key_clause(self.mark)
        return f"UPDATE {quoted(table.name)} SET {', '.join(clauses)} WHERE {which}"

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        table = self._table(kind)
        store = self._store_of(document_id)
        key = table.key_values(document_id)
        sql = f"DELETE FROM {quoted(table.name)} WHERE {table.key_clause(self.mark)}"
        return self._change(store, sql, key) > 0

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
        decode = self._decoders[kind]
        documents: dict[bytes, Document] = {}
        requests = [
            (store, f"SELECT {table.select} FROM {self._source(table, store)} WHERE {which}", keys)
            for store, group in self._router.group(document_ids).items()
            for which, keys in self._among(table, group)
        ]
        for rows in self._gather(requests):
            for document in map(decode, rows):
                documents[document["_id"]] = document
        return [documents.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        return query.merged([list(part) for part in self._documents(query)])

    def find(self, query: Find) -> list[Document]:
        documents = self._documents(query, anew=True)
        if query.order_by is not None and len(self._parts(self._table(query.kind))) == 1:
            return list(next(documents))
        return query.merged(documents)

    def count(self, query: Count) -> int:
        answers = self._gather(self._requests(query), anew=bool(query.where))
        return sum(int(rows[0][0]) for rows in answers)

    def top(self, query: Top) -> list[tuple[Any, int]]:
        answers = self._gather(self._requests(query))
        table = self._table(query.kind)
        column = table.column(query.field)
        return query.merged([(table.value(column, v), n) for v, n in rows] for rows in answers)

    def histogram(self, query: Histogram) -> dict[int, int]:
        bins: Counter[int] = Counter()
        for number, documents in chain.from_iterable(self._gather(self._requests(query), True)):
            bins[int(number)] += int(documents)
        return dict(bins)

    def explain(self, query: Find | Count) -> Plan:
        requests = self._requests(query)
        if not requests:
            raise EngineError(f"{self.engine_name}: no store is asked for {query}")
        text = self._plan(*requests[0])
        return Plan(text, self._uses_index(text, query))

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        """Whether a plan takes a secondary index; here one that names it."""
        return any(f"{query.kind.table}_{condition.field}" in plan for condition in query.where)

    def _documents(self, query: Scan | Find, anew: bool = False) -> Iterator[Iterator[Document]]:
        """The documents of each store that the query's statements give."""
        requests = self._requests(query)
        decode = self._decoders[query.kind]
        if isinstance(query, Find) and query.order_by is None and query.limit is not None:
            # One store after the other: the first ones often have enough.
            return (map(decode, self._rows(*request, anew=anew)) for request in requests)
        return (map(decode, rows) for rows in self._gather(requests, anew=anew))

    def _requests(self, query: Query) -> list[Request]:
        """The statements whose rows together answer a query: one for each part."""
        table = self._table(query.kind)
        match query:
            case Scan():
                clauses, values = table.conditions(query.where, self.mark)
                rest = f" ORDER BY {table.key_list} LIMIT {query.limit}"
                parts = self._scan_parts(table, query)
                return self._select(parts, table.select, clauses, values, rest)
            case Top():
                name = table.expression(table.column(query.field))
                parts = self._parts(table)
                # A store alone knows which values are frequent; of several each must tell all.
                end = f" ORDER BY n DESC, {name} LIMIT {query.limit}" if len(parts) == 1 else ""
                some = [f"{name} IS NOT NULL"]
                rest = f" GROUP BY {name}{end}"
                return self._select(parts, f"{name}, count(*) AS n", some, (), rest)
        clauses, values = table.conditions(query.where, self.mark)
        parts = self._parts(table, query.where)
        match query:
            case Find():
                rest = self._order(table, query, clauses)
                return self._select(parts, table.select, clauses, values, rest)
            case Count():
                return self._select(parts, "count(*)", clauses, values)
            case Histogram():
                return self._histogram_requests(table, parts, query, clauses, values)

    def _order(self, table: Table, query: Find, clauses: list[str]) -> str:
        """ORDER BY and LIMIT of a query; adds the condition that leaves nulls out."""
        end = "" if query.limit is None else f" LIMIT {query.limit}"
        if query.order_by is None:
            return end
        way = " DESC" if query.descending else ""
        if query.order_by == "_id":
            return f" ORDER BY {', '.join(f'{quoted(name)}{way}' for name in table.key)}{end}"
        name = table.expression(table.column(query.order_by))
        if not any(one.field == query.order_by for one in query.where):
            clauses.append(f"{name} IS NOT NULL")
        return f" ORDER BY {name}{way}, {table.key_list}{end}"

    def _histogram_requests(
        self,
        table: Table,
        parts: Sequence[Part],
        query: Histogram,
        clauses: list[str],
        values: Sequence[Any],
    ) -> list[Request]:
        column = table.column(query.field)
        name = table.expression(column)
        clauses = [*clauses, f"{name} IS NOT NULL"]
        if column.type == "float":
            clauses.append(f"abs({name}) <= {float_info.max!r}")
        # With an exponent, because MySQL and PostgreSQL take 0.1 for a decimal.
        number = self._floor(f"{name} / {query.width:.17e}")
        inner = self._select(parts, f"{number} AS n", clauses, values)
        return [
            (store, f"SELECT n, count(*) FROM ({sql}) AS bins GROUP BY n", bound)
            for store, sql, bound in inner
        ]

    def _floor(self, quotient: str) -> str:
        """SQL of the largest integer that is not above a quotient of floats."""
        return f"floor({quotient})"

    @staticmethod
    def _select(
        parts: Sequence[Part],
        selected: str,
        clauses: Sequence[str],
        values: Sequence[Any],
        rest: str = "",
    ) -> list[Request]:
        """A SELECT over the parts: one statement for each."""
        which = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        return [
            (store, f"SELECT {selected} FROM {source}{which}{rest}", values)
            for store, source in parts
        ]
