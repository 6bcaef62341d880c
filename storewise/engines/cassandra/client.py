"""What one process does with Cassandra, through the driver."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent

from storewise.documents import Document, Field, FieldType, Kind
from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.cassandra.connection import (
    FAILURES,
    TRANSIENT,
    error_message,
    execute,
    open_session,
    retried,
)
from storewise.engines.contract.engine import Cluster, Endpoint, Mode, Schema
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
        self.updates: dict[tuple[str, ...], str] = {}
        self.decode: Callable[[Row], Document] = table.decoder()

    def create(self) -> str:
        columns = [f"{quoted(column.name)} {_TYPES[column.type]}" for column in self.table.columns]
        *partition, last = map(quoted, self.table.key)
        key = f"({', '.join(partition)}), {last}" if partition else last
        definition = ", ".join([*columns, f"PRIMARY KEY ({key})"])
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({definition})"

    def update(self, names: tuple[str, ...]) -> str:
        """The CQL that sets these columns."""
        if names not in self.updates:
            columns = ", ".join(f"{quoted(name)} = ?" for name in names)
            self.updates[names] = f"UPDATE {self.name} SET {columns} {self.where_key}"
        return self.updates[names]


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Statements]):
    """What the threads of one process have in common."""

    endpoints: tuple[Endpoint, ...]
    session: Any
    concurrency: int
    prepared: dict[str, Any] = field(default_factory=dict)


def connect(cluster: Cluster, mode: Mode, level: str, concurrency: int) -> CassandraClient:
    """Sign in, to read and write at `level` (``QUORUM``). EngineError within seconds where no node
    answers or the password is refused."""
    credentials, endpoints = Credentials.of(cluster), numbered_nodes(cluster)
    try:
        session = open_session(
            endpoints,
            credentials.user,
            credentials.password,
            ConsistencyLevel.name_to_value[level],
        )
    except FAILURES as error:
        hosts = ", ".join(map(str, endpoints))
        raise EngineError(f"cassandra: connect to {hosts}: {error_message(error)}") from error
    return CassandraClient(
        Shared(
            mode=mode,
            kinds=cluster.kinds,
            endpoints=endpoints,
            session=session,
            concurrency=concurrency,
        )
    )


class CassandraClient(ProcessClient[Shared, Statements]):
    """One session of the driver, which all threads of a process share."""

    engine_name = "cassandra"
    failures = (*FAILURES, TypeError, ValueError, OverflowError, struct.error)

    def create(self, schema: Schema) -> None:
        self._writing("create")
        note = self._new_note(schema)
        for statements in self._make_tables(schema).values():
            self._query("create", statements.create())
        if schema.index_time == "before":
            self._make_indexes(schema)
        columns = "(id int PRIMARY KEY, content text)"
        self._query("create", f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.{SCHEMA_TABLE} {columns}")
        # The last step: a reader of a half-made schema must find none.
        insert = f"INSERT INTO {KEYSPACE}.{SCHEMA_TABLE} (id, content) VALUES (1, %s)"
        self._query("create", insert, ConsistencyLevel.ALL, [note])
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, Statements]:
        tables = make_tables(schema, composite=True)
        return {kind: Statements(table) for kind, table in tables.items()}

    def _read_note(self) -> str | None:
        names = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
        if (SCHEMA_TABLE,) not in self._query("read the schema", names):
            return None
        # Written on all nodes that hold it, so one of them is enough, whichever it is.
        row = f"SELECT content FROM {KEYSPACE}.{SCHEMA_TABLE} WHERE id = 1"
        rows = self._query("read the schema", row)
        return rows[0][0] if rows else None

    def _make_indexes(self, schema: Schema) -> None:
        """Storage-attached indexes; returns when all rows are in them."""
        versions = [host.release_version for host in self._hosts()]
        if old := [v for v in versions if schema.indexes and int(v.split(".")[0]) < 5]:
            raise EngineError(
                "cassandra: secondary indexes that know ranges (SAI) come with version 5.0; a node "
                f"has {old[0]}: leave indexes out or take a newer Cassandra"
            )
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
            if done == len(wanted) * len(self._hosts()):
                return None
            if any(building for *_, building in rows):
                last_building = time.monotonic()
            elif time.monotonic() - last_building > _INDEX_IDLE_SECONDS:
                raise EngineError(
                    "cassandra: no node builds the indexes any more, but some of them are not "
                    "queryable; the nodes' logs have the errors"
                )
            return f"{done} of {len(wanted)} on each of {len(self._hosts())} nodes"

        complaint = "cassandra: the indexes are not built on all nodes"
        wait_until(pending_reason, _INDEX_SECONDS, complaint)

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        """Each document is a request, `concurrency` of them in flight."""
        self._writing("insert")
        statements = self._table(kind)
        table = statements.table
        rows = table.rows(documents)
        # Requests of one call are not in order: of equal ids the last document counts.
        key_of = table.key_of_row()
        latest = {key_of(row): row for row in rows}
        self._execute_many("insert", statements.insert, latest.values())

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        statements = self._table(kind)
        rows = self._rows(statements.get, statements.table.key_values(document_id))
        return statements.decode(rows[0]) if rows else None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        """One request for each id: `IN` would make one node ask all others for the client."""
        statements = self._table(kind)
        keys = map(statements.table.key_values, dict.fromkeys(document_ids))
        answers = self._execute_many("get", statements.get, keys)
        documents = {d["_id"]: d for rows in answers for d in map(statements.decode, rows)}
        return [documents.get(document_id) for document_id in document_ids]

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> None:
        """Write the changed columns without a read, which creates a missing row."""
        self._writing("update")
        statements = self._table(kind)
        table = statements.table
        table.check_changes(changes)
        cql = statements.update(tuple(changes))
        self._rows(cql, [*changes.values(), *table.key_values(document_id)])
        return None

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
        """By an index where the column has one that can, else each node looks at all; without
        conditions every document."""
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
        """By a look at all rows, at the session's level: no node knows the number."""
        if query.where:
            raise self._cannot("count of conditions")
        statements = self._table(query.kind)
        key = statements.table.key
        token = f"token({', '.join(map(quoted, key[:-1] or key))})"
        cql = f"SELECT count(*) FROM {statements.name} WHERE {token} > ? AND {token} <= ?"
        parts = _PARTS_PER_NODE * len(self._shared.endpoints)
        # No row has the first token.
        limits = [_FIRST_TOKEN + n * (_TOKENS - 1) // parts for n in range(parts + 1)]
        answers = self._execute_many("count", cql, pairwise(limits))
        return sum(int(number) for ((number,),) in answers)

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node whose part of the ring has the id: the first replica."""
        routing_key = self.routing_key(kind, document_id)
        metadata = self._shared.session.cluster.metadata
        names = {(e.address, e.port): e.name for e in self._shared.endpoints}
        for host in metadata.get_replicas(KEYSPACE, routing_key)[:1]:
            return names.get((host.endpoint.address, host.endpoint.port))
        return None

    def routing_key(self, kind: Kind, document_id: bytes) -> bytes:
        """The bytes whose hash is the document's place on the ring."""
        statements = self._table(kind)
        key, prepared = statements.table.key_values(document_id), self._prepared(statements.get)
        routing_key: bytes = self._try("owner", lambda: prepared.bind(key).routing_key)
        return routing_key

    def disk_bytes(self) -> int:
        """Of the tables on the disks of all nodes, replicas and indexes counted, after a flush of
        what is in memory. The nodes report whole MiB of each table, rounded up; commit logs are not
        in it."""
        # Without JMX the way to have memory written to disk is to say that it may not be old.
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
        with self._shared.lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._shared.session.cluster.shutdown()

    def _hosts(self) -> list[Any]:
        """The nodes as the driver knows them."""
        return list(self._shared.session.cluster.metadata.all_hosts())

    def _prepared(self, cql: str) -> Any:
        """The statement, prepared once in a process."""
        statement = self._shared.prepared.get(cql)
        if statement is None:
            statement = self._try("prepare", lambda: self._shared.session.prepare(cql))
            self._shared.prepared[cql] = statement
        return statement

    def _rows(self, cql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a prepared statement, over all pages."""
        statement = self._prepared(cql)
        return self._try("query", lambda: list(self._shared.session.execute(statement, values)))

    def _execute_many(self, verb: str, cql: str, values: Iterable[Any]) -> list[Any]:
        """The results of a statement for each of the values, in their order."""
        statement = self._prepared(cql)
        # All are bound before the first is sent: a refused batch leaves nothing behind.
        pending = self._try(verb, lambda: dict(enumerate(map(statement.bind, values))))
        results: list[Any] = [None] * len(pending)

        def execute_pending() -> None:
            answers = execute_concurrent(
                self._shared.session,
                [(bound, ()) for bound in pending.values()],
                concurrency=self._shared.concurrency,
                raise_on_first_error=False,
            )
            errors = []
            for n, (success, result) in zip(list(pending), answers, strict=True):
                if success:
                    results[n] = result
                    del pending[n]
                else:
                    errors.append(result)
            if errors:
                # A permanent one first: what passes is not worth another try then.
                raise min(errors, key=lambda error: isinstance(error, TRANSIENT))

        self._try(verb, execute_pending)
        return results

    def _rows_of_nodes(self, cql: str) -> list[tuple[Any, ...]]:
        """The rows of a virtual table, which each node has of its own."""
        session = self._shared.session
        return self._try(
            "query", lambda: [row for h in self._hosts() for row in session.execute(cql, host=h)]
        )

    def _query(
        self, verb: str, cql: str, level: int = ConsistencyLevel.ONE, values: Any = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement that is asked once."""
        return self._try(verb, lambda: execute(self._shared.session, cql, level, values))

    def _try(self, verb: str, action: Callable[[], _Result]) -> _Result:
        self._check_open()
        with self._errors(verb):
            return retried(action)

    def _error_message(self, error: Exception) -> str:
        return f"{', '.join(map(str, self._shared.endpoints))}: {error_message(error)}"


def bounds(column: Field, operator: Operator, value: Any) -> list[tuple[str, Any]]:
    """A condition as CQL's operators and values."""
    if column.type != "float":
        return [(operator, value)]
    # The server orders as Java does: -0.0 before 0.0, and NaN behind all others.
    if operator == "=":
        return [(">=", value or -0.0), ("<=", value or 0.0)]
    limit = (operator, value or (-0.0 if operator in (">=", "<") else 0.0))
    return [limit] if operator in ("<", "<=") else [limit, ("<=", math.inf)]
