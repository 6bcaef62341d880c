"""The client of Cassandra, through the DataStax driver."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent
from cassandra.query import SimpleStatement

from storewise.documents import Document, Field, FieldType, Kind
from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.cassandra.connection import FAILURES, open_session, retried
from storewise.engines.contract.engine import Cluster, Mode, Schema
from storewise.engines.contract.own_text import TABLE, OwnText, placed
from storewise.engines.contract.queries import Count, Find, Operator
from storewise.engines.contract.server import Credentials
from storewise.engines.support.clients import ProcessClient, ProcessState
from storewise.engines.support.servers import numbered_nodes, wait_until
from storewise.engines.support.table import SCHEMA_TABLE, Row, Table, make_tables, quoted
from storewise.errors import EngineError

_Result = TypeVar("_Result")

_TYPES: Mapping[FieldType, str] = {
    "id": "blob",
    "key": "blob",
    "int": "bigint",
    "float": "double",
    "str": "text",
}
#: Tokens of the ring.
_FIRST_TOKEN, _TOKENS = -(1 << 63), 1 << 64
#: A count asks for so many parts of the ring of each node, so that none takes long.
_PARTS_PER_NODE = 16
#: Where the schema is kept, for clients that connect later.
_SCHEMA = f"{KEYSPACE}.{SCHEMA_TABLE}"
_INDEXES = "SELECT index_name, is_queryable, is_building FROM system_views.sai_column_indexes"
#: Far above any build; one that fails never says so to clients.
_INDEX_SECONDS = 4 * 3600.0
#: An index that no node is building, and that cannot be asked either, has failed.
_INDEX_IDLE_SECONDS = 300.0
_FLUSHES = (
    "SELECT active_tasks, pending_tasks, completed_tasks FROM system_views.thread_pools "
    "WHERE name = 'MemtableFlushWriter'"
)
_FLUSH_PERIOD_MS = 250
_FLUSH_SECONDS = 120.0


class Statements:
    """The CQL of one table, written once: it is long, and point reads are many."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.name = f"{KEYSPACE}.{table.name}"
        self.where_key = f"WHERE {table.key_clause()}"
        marks = ", ".join("?" * len(table.names))
        self.insert = f"INSERT INTO {self.name} ({table.select}) VALUES ({marks})"
        self.select = f"SELECT {table.select} FROM {self.name}"
        self.get = f"{self.select} {self.where_key}"
        self.decode: Callable[[Row], Document] = table.decoder()
        partition = table.key[:-1] or table.key
        self.partition = ", ".join(map(quoted, partition))
        """The columns whose hash is a row's place on the ring."""
        self.primary_key = ", ".join(
            [f"({self.partition})", *map(quoted, table.key[len(partition) :])]
        )

    def create(self) -> str:
        columns = [f"{quoted(column.name)} {_TYPES[column.type]}" for column in self.table.columns]
        definition = ", ".join([*columns, f"PRIMARY KEY ({self.primary_key})"])
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({definition})"


class CassandraClient(ProcessClient[ProcessState[Statements], Statements]):
    """One session of the driver, which all threads of a process share.

    It reads and writes at one consistency `level`, with `concurrency` requests in flight."""

    engine_name = "cassandra"
    failures = (*FAILURES, TypeError, ValueError, OverflowError)

    def __init__(self, cluster: Cluster, mode: Mode, level: int, concurrency: int) -> None:
        super().__init__(ProcessState(mode=mode, kinds=cluster.kinds))
        self._concurrency = concurrency
        self._endpoints = numbered_nodes(cluster)
        self._names = {(e.address, e.port): e.name for e in self._endpoints}
        self._prepared: dict[str, Any] = {}
        with self._errors("connect"):
            self._session = open_session(self._endpoints, Credentials.of(cluster), level)

    def create(self, schema: Schema) -> None:
        self._writing("create")
        note = self._new_note(schema)
        for statements in self._make_tables(schema).values():
            self._query("create", statements.create())
        if schema.index_time == "before":
            self._make_indexes(schema)
        columns = "(id int PRIMARY KEY, content text)"
        self._query("create", f"CREATE TABLE IF NOT EXISTS {_SCHEMA} {columns}")
        # The last step: a reader of a half-made schema must find none. To all nodes that hold it,
        # so that one of them is enough for a reader, whichever it is.
        insert = f"INSERT INTO {_SCHEMA} (id, content) VALUES (1, %s)"
        everywhere = SimpleStatement(insert, consistency_level=ConsistencyLevel.ALL)
        self._query("create", everywhere, [note])
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, Statements]:
        tables = make_tables(schema, composite=True)
        return {kind: Statements(table) for kind, table in tables.items()}

    def _read_note(self) -> str | None:
        names = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
        if (SCHEMA_TABLE,) not in self._query("read the schema", names):
            return None
        rows = self._query("read the schema", f"SELECT content FROM {_SCHEMA} WHERE id = 1")
        return rows[0][0] if rows else None

    def _make_indexes(self, schema: Schema) -> None:
        """Storage-attached indexes; returns when all rows are in them."""
        for kind, name in schema.indexes:
            index = quoted(f"{kind.table}_{name}")
            column = f"{KEYSPACE}.{kind.table} ({quoted(name)})"
            self._query("create", f"CREATE INDEX IF NOT EXISTS {index} ON {column} USING 'sai'")
        # Of a table with rows each node builds it in the background.
        wanted = {f"{kind.table}_{name}" for kind, name in schema.indexes}
        last_building = time.monotonic()

        def pending_reason() -> str | None:
            nonlocal last_building
            rows = [row for row in self._rows_of_nodes(_INDEXES) if row[0] in wanted]
            done = sum(queryable and not building for _, queryable, building in rows)
            if done == len(wanted) * len(self._endpoints):
                return None
            if any(building for *_, building in rows):
                last_building = time.monotonic()
            elif time.monotonic() - last_building > _INDEX_IDLE_SECONDS:
                raise EngineError(
                    "cassandra: no node builds the indexes any more, but some of them are not "
                    "queryable; the nodes' logs have the errors"
                )
            return f"{done} of {len(wanted)} on each of {len(self._endpoints)} nodes"

        complaint = "cassandra: the indexes are not built on all nodes"
        wait_until(pending_reason, _INDEX_SECONDS, complaint)

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        """Each document is a request, `concurrency` of them in flight."""
        self._writing("insert")
        statements = self._table(kind)
        rows = statements.table.rows(documents)
        # Requests of one call are not in order: of equal ids the last document counts.
        key_of = statements.table.key_of_row()
        latest = {key_of(row): row for row in rows}
        self._execute_many("insert", statements.insert, latest.values())

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        statements = self._table(kind)
        rows = self._rows(statements.get, statements.table.key_values(document_id))
        return statements.decode(rows[0]) if rows else None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        """One request for each id: `IN` would make one node ask all others for the client."""
        statements = self._table(kind)
        keys = list(map(statements.table.key_values, dict.fromkeys(document_ids)))
        answers = self._execute_many("get", statements.get, keys)
        documents = {d["_id"]: d for rows in answers for d in map(statements.decode, rows)}
        return [documents.get(document_id) for document_id in document_ids]

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> None:
        """Write the changed columns without a read, which creates a missing row."""
        self._writing("update")
        statements = self._table(kind)
        statements.table.check_changes(changes)
        columns = ", ".join(f"{quoted(name)} = ?" for name in changes)
        cql = f"UPDATE {statements.name} SET {columns} {statements.where_key}"
        self._rows(cql, [*changes.values(), *statements.table.key_values(document_id)])

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """A read, then a delete; not one transaction."""
        self._writing("delete")
        statements = self._table(kind)
        key = statements.table.key_values(document_id)
        one_row = f"FROM {statements.name} {statements.where_key}"
        if not self._rows(f"SELECT {statements.table.key_list} {one_row}", key):
            return False
        self._rows(f"DELETE {one_row}", key)
        return True

    def find(self, query: Find) -> list[Document]:
        """Find by an index if the column has a suitable one, else each node filters all rows;
        without conditions all documents are found."""
        statements = self._table(query.kind)
        if query.order_by is not None:
            raise self._cannot("find in an order")
        if query.limit == 0:
            return []
        clauses, values = [], []
        for one in query.where:
            for operator, value in bounds(statements.table.column(one.field), one.op, one.value):
                clauses.append(f"{quoted(one.field)} {operator} ?")
                values.append(value)
        where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
        limit = "" if query.limit is None else f"LIMIT {query.limit}"
        cql = f"{statements.select} {where} {limit} ALLOW FILTERING"
        return list(map(statements.decode, self._rows(cql, values)))

    def count(self, query: Count) -> int:
        """Count by reading all rows at the session's level: no node stores the number."""
        if query.where:
            raise self._cannot("count of conditions")
        statements = self._table(query.kind)
        token = f"token({statements.partition})"
        cql = f"SELECT count(*) FROM {statements.name} WHERE {token} > ? AND {token} <= ?"
        parts = _PARTS_PER_NODE * len(self._endpoints)
        # No row has the first token.
        limits = [_FIRST_TOKEN + n * (_TOKENS - 1) // parts for n in range(parts + 1)]
        answers = self._execute_many("count", cql, list(pairwise(limits)))
        return sum(int(number) for ((number,),) in answers)

    def ask(self, question: OwnText) -> list[tuple[Any, ...]]:
        """The rows of a user's statement, in which `{align}` stands for a table."""
        names = {kind.table: kind for kind in self._shared.kinds}
        text = TABLE.sub(
            lambda match: self._table(names[match[1]]).name if match[1] in names else match[0],
            question.text,
        )
        return [tuple(row) for row in self._rows(*placed(text, question.values, "?"))]

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node whose part of the ring has the id: the first replica."""
        statements = self._table(kind)
        if len(self._endpoints) == 1:
            return self._endpoints[0].name
        key = statements.table.key_values(document_id)
        bound = self._try("owner", lambda: self._prepare(statements.get).bind(key))
        metadata = self._session.cluster.metadata
        for host in metadata.get_replicas(KEYSPACE, bound.routing_key)[:1]:
            return self._names.get((host.endpoint.address, host.endpoint.port))
        return None

    def disk_bytes(self) -> int:
        """Bytes of the tables on all nodes, with replicas and indexes, after a flush of memtables.
        The nodes report each table in whole MiB, rounded up; commit logs are not included."""
        # Without JMX, only a short memtable_flush_period_in_ms flushes memtables.
        self._flush_each(_FLUSH_PERIOD_MS)
        last: list[Any] = []

        def pending_reason() -> str | None:
            nonlocal last
            before, last = last, self._rows_of_nodes(_FLUSHES)
            is_busy = any(active or pending for active, pending, _ in last)
            return f"they still write ({last})" if is_busy or last != before else None

        complaint = "cassandra: the memory of the nodes is not on their disks"
        wait_until(pending_reason, _FLUSH_SECONDS, complaint, poll=4 * _FLUSH_PERIOD_MS / 1000)
        self._flush_each(0)
        rows = self._rows_of_nodes("SELECT keyspace_name, mebibytes FROM system_views.disk_usage")
        return sum(int(mebibytes) for keyspace, mebibytes in rows if keyspace == KEYSPACE) << 20

    def _flush_each(self, milliseconds: int) -> None:
        for statements in self._shared.tables.values():
            period = f"memtable_flush_period_in_ms = {milliseconds}"
            self._query("disk size", f"ALTER TABLE {statements.name} WITH {period}")

    def close(self) -> None:
        """Closes the connections of all threads."""
        self._closed = True
        self._session.cluster.shutdown()

    def _prepare(self, cql: str) -> Any:
        """The statement, prepared once in a process."""
        statement = self._prepared.get(cql)
        if statement is None:
            statement = self._prepared[cql] = self._session.prepare(cql)
        return statement

    def _rows(self, cql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a prepared statement, over all pages."""
        return self._try("query", lambda: list(self._session.execute(self._prepare(cql), values)))

    def _execute_many(self, verb: str, cql: str, values: Collection[Any]) -> list[Any]:
        """The results of a statement for each of the values, in their order."""

        def execute_all() -> list[Any]:
            # All are bound before the first is sent: a refused batch leaves nothing behind.
            statement = self._prepare(cql)
            bound = [(statement.bind(one), ()) for one in values]
            # Not `raise_on_first_error`: that would leave requests in flight.
            answers = execute_concurrent(
                self._session, bound, self._concurrency, raise_on_first_error=False
            )
            for success, result in answers:
                if not success:
                    raise result
            return [result for _, result in answers]

        return self._try(verb, execute_all)

    def _rows_of_nodes(self, cql: str) -> list[tuple[Any, ...]]:
        """The rows of a virtual table from all nodes; each node has its own."""
        hosts, execute = self._session.cluster.metadata.all_hosts(), self._session.execute
        return self._try("query", lambda: [row for h in hosts for row in execute(cql, host=h)])

    def _query(self, verb: str, cql: str | SimpleStatement, values: Any = None) -> list[Row]:
        """The rows of a statement that is not prepared."""
        return self._try(verb, lambda: list(self._session.execute(cql, values)))

    def _try(self, verb: str, action: Callable[[], _Result]) -> _Result:
        self._check_open()
        with self._errors(verb):
            return retried(action)

    def _error_message(self, error: Exception) -> str:
        return f"{', '.join(map(str, self._endpoints))}: {super()._error_message(error)}"


def bounds(column: Field, operator: Operator, value: Any) -> list[tuple[str, Any]]:
    """The CQL comparisons (operator, value) that express one condition."""
    if column.type != "float":
        return [(operator, value)]
    # The server orders as Java does: -0.0 before 0.0, and NaN after all others.
    if operator == "=":
        return [(">=", value or -0.0), ("<=", value or 0.0)]
    limit = (operator, value or (-0.0 if operator in (">=", "<") else 0.0))
    return [limit] if operator in ("<", "<=") else [limit, ("<=", math.inf)]
