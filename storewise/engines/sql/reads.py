"""The operations of SQL stores, over one store or several.

SQLite, DuckDB and the SQL servers understand the same SQL and differ in how a statement reaches a
store. A client implements `_rows` and `_change` (run a statement in one store) and `_source` (the
FROM item) and inherits the operations. For another SQL dialect it overrides `_among`, `_first_rows`
or `_floor`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import float_info
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, TypeVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Flags, Mode
from storewise.engines.contract.own_text import TABLE, OwnText, placed
from storewise.engines.contract.queries import Count, Find, Histogram, Plan, Query, Scan, Top, Where
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.stores import Router
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

#: Flags of an embedded SQL store.
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
    """State shared by the clients of one process."""

    stores: tuple[Any, ...]
    """Directories or servers; messages name them by `str`."""
    router: Router

    @classmethod
    def of(cls, cluster: Cluster, mode: Mode, stores: tuple[Any, ...], **more: Any) -> Self:
        """Build it for `Engine.connect`; `more` are the fields of a subclass."""
        router = Router(len(stores), cluster.placement)
        return cls(mode=mode, kinds=cluster.kinds, stores=stores, router=router, **more)


State = TypeVar("State", bound=SqlState)


class _Point(NamedTuple):
    """The statement and decoder that read a document of a kind by its id."""

    sql: list[str]
    """One statement for each store."""
    table: Table
    decode: Callable[[Row], Document]


class SqlReads(ThreadClient[State, Table]):
    """Queries by SQL, and their plans.

    `_requests` makes the statements of a query, also for `explain`.
    """

    mark: ClassVar[str] = "?"
    """Placeholder of a parameter in a statement."""
    explain_statement: str = "EXPLAIN"

    def __init__(self, shared: State) -> None:
        self._stores = shared.stores
        self._router = shared.router
        self._points: dict[Kind, _Point] = {}
        """To be cleared when tables or sources have changed."""
        self._updates: dict[tuple[Kind, tuple[str, ...]], str] = {}
        """Statements by the kind and the names of the fields that they set."""
        super().__init__(shared)

    @abstractmethod
    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> Sequence[Row]:
        """All rows of a statement; EngineError if the store fails."""

    def _fail(self, store: int, error: Exception) -> NoReturn:
        """Translate an error of a store to EngineError and raise it."""
        where = f"{self.engine_name}: {self._stores[store]}"
        raise EngineError(f"{where}: {self._error_message(error)}") from error

    @abstractmethod
    def _source(self, table: Table, store: int) -> str:
        """The FROM item of a table in one store."""

    def _parts(self, table: Table, query: Query) -> Sequence[Part]:
        """The groups of stores to query; those without matching rows may be left out."""
        return [(store, self._source(table, store)) for store in range(len(self._stores))]

    def _gather(self, requests: Sequence[Request]) -> list[Sequence[Row]]:
        """The rows of each statement, in any order; servers override it to ask all at once."""
        return [self._rows(*request) for request in requests]

    def _point(self, kind: Kind) -> _Point:
        point = self._points.get(kind)
        if point is None:
            table = self._table(kind)
            which = table.key_clause(self.mark)
            sources = [self._source(table, store) for store in range(len(self._stores))]
            sql = [f"SELECT {table.select} FROM {source} WHERE {which}" for source in sources]
            point = self._points[kind] = _Point(sql, table, table.decoder())
        return point

    # Changes.

    def _store_of(self, document_id: bytes) -> int:
        """The store whose document is changed; a writer of an embedded engine has one."""
        return 0

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        """Run a statement that changes rows; how many it matched."""
        raise self._cannot("update or delete")

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        table, names = self._table(kind), tuple(changes)
        table.check_changes(changes)
        sql = self._updates.get((kind, names))
        if sql is None:
            fields = ", ".join(f"{quoted(name)} = {self.mark}" for name in names)
            sql = (
                f"UPDATE {self._source(table, 0)} SET {fields} WHERE {table.key_clause(self.mark)}"
            )
            self._updates[kind, names] = sql
        values = (*changes.values(), *table.key_values(document_id))
        return self._change(self._store_of(document_id), sql, values) > 0

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        table = self._table(kind)
        sql = f"DELETE FROM {self._source(table, 0)} WHERE {table.key_clause(self.mark)}"
        return self._change(self._store_of(document_id), sql, table.key_values(document_id)) > 0

    # Queries.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        sql, table, decode = self._points.get(kind) or self._point(kind)
        values = table.key_values(document_id)
        for store in self._router.stores_of(document_id):
            if rows := self._rows(store, sql[store], values):
                return decode(rows[0])
        return None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        table = self._table(kind)
        requests = [
            (store, f"SELECT {table.select} FROM {self._source(table, store)} WHERE {which}", keys)
            for store, group in self._router.group(document_ids).items()
            for which, keys in self._among(table, group)
        ]
        rows = chain.from_iterable(self._gather(requests))
        documents = {document["_id"]: document for document in map(table.decoder(), rows)}
        return [documents.get(document_id) for document_id in document_ids]

    def _among(self, table: Table, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        """Conditions with parameters; each id fulfils one of them, and no other row does."""
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
        return query.merged(self._gather(self._requests(query)))

    def histogram(self, query: Histogram) -> dict[int, int]:
        bins: Counter[int] = Counter()
        for number, documents in chain.from_iterable(self._gather(self._requests(query))):
            bins[int(number)] += int(documents)
        return dict(bins)

    def ask(self, question: OwnText) -> list[tuple[Any, ...]]:
        """The rows of a user's statement, in which `{align}` stands for a table."""
        stores: set[int] = set()

        def source(match: re.Match[str]) -> str:
            for kind in self._shared.kinds:
                if kind.table == match[1]:
                    parts = self._parts(self._table(kind), Count(kind))
                    if len(parts) > 1:
                        raise EngineError(
                            f"{self.engine_name}: a statement reads one store, and there are "
                            f"{len(parts)}; give the study one worker, process and node"
                        )
                    stores.update(store for store, _ in parts)
                    return parts[0][1]
            return match[0]

        text = TABLE.sub(source, question.text)
        # Drivers with `%s` take a single percent sign for the begin of one.
        text = text.replace("%", "%%") if self.mark == "%s" else text
        statement, values = placed(text, question.values, self.mark)
        return [tuple(row) for row in self._rows(min(stores, default=0), statement, values)]

    def explain(self, query: Find | Count) -> Plan:
        text = self._plan(*self._requests(query)[0])
        return Plan(text, self._uses_index(text, query))

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        rows = self._rows(store, f"{self.explain_statement} {sql}", values)
        return "\n".join(str(row[-1]) for row in rows)

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        """Whether a plan uses a secondary index: by default, whether it names the index."""
        fields = [condition.field for condition in query.where]
        if isinstance(query, Find) and query.order_by is not None:
            fields.append(query.order_by)
        return any(f"{query.kind.table}_{field}" in plan for field in fields)

    def _documents(self, query: Scan | Find) -> list[Iterator[Document]]:
        """The results of the query's statements as documents, one iterator per store."""
        requests = self._requests(query)
        decode = self._point(query.kind).decode
        return [map(decode, rows) for rows in self._gather(requests)]

    def _requests(self, query: Query) -> list[Request]:
        """The statements whose rows together answer a query: one for each part."""
        table = self._table(query.kind)
        parts = self._parts(table, query)
        select, rest = "count(*)", ""
        where: Sequence[Where] = getattr(query, "where", ())
        clauses, values = table.conditions(where, self.mark)
        match query:
            case Scan():
                select = table.select
                rest = self._first_rows(query.limit, f" ORDER BY {table.key_list}")
            case Find():
                select = table.select
                if query.order_by is not None:
                    name = quoted(table.column(query.order_by).name)
                    clauses.append(f"{name} IS NOT NULL")
                    rest = f" ORDER BY {name}, {table.key_list}"
                if query.limit is not None:
                    rest = self._first_rows(query.limit, rest)
            case Top():
                name = quoted(table.column(query.field).name)
                select = f"{name}, count(*) AS n"
                clauses.append(f"{name} IS NOT NULL")
                rest = f" GROUP BY {name}"
                # A single store can limit the result; several must return all counts.
                if len(parts) == 1:
                    rest += self._first_rows(query.limit, f" ORDER BY n DESC, {name}")
            case Histogram():
                column = table.column(query.field)
                name = quoted(column.name)
                clauses = [f"{name} IS NOT NULL"]
                if column.type == "float":
                    clauses.append(f"abs({name}) <= {float_info.max!r}")
                # With an exponent, because some stores take 0.1 for a decimal.
                number = self._floor(f"{name} / {query.width:.17e}")
                select, rest = f"{number}, count(*)", f" GROUP BY {number}"
        which = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        return [(s, f"SELECT {select} FROM {source}{which}{rest}", values) for s, source in parts]

    def _first_rows(self, limit: int, order: str) -> str:
        """The end of a statement that returns only the first rows in an order (or any rows)."""
        return f"{order} LIMIT {limit}"

    def _floor(self, quotient: str) -> str:
        """SQL of the largest integer that is not above a quotient of floats."""
        return f"floor({quotient})"
