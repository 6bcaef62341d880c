"""What one process does with Cassandra, through the driver."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.concurrent import execute_concurrent
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType

from storewise.documents import Document, Field, FieldType, Kind
from storewise.engines.cassandra.cluster import KEYSPACE
from storewise.engines.cassandra.connection import PASSING, PATIENCE_SECONDS, CassandraLink, Shared
from storewise.engines.cassandra.disk_size import disk_bytes_of
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find
from storewise.engines.support.table import (
    SCHEMA_TABLE,
    Row,
    Table,
    check_same,
    describe,
    make_tables,
    quoted,
)
from storewise.errors import EngineError

_TYPES: Mapping[FieldType, str] = {
    "id": "blob",
    "key": "blob",
    "int": "bigint",
    "float": "double",
    "str": "text",
}
_LAYOUT = "columns"
_COMPRESSORS = {
    "lz4": "LZ4Compressor",
    "zstd": "ZstdCompressor",
    "snappy": "SnappyCompressor",
    "deflate": "DeflateCompressor",
}
_COMPACTIONS = {
    "size-tiered": "SizeTieredCompactionStrategy",
    "leveled": "LeveledCompactionStrategy",
    "unified": "UnifiedCompactionStrategy",
}
#: Of the ring, and of a column of integers.
FIRST_TOKEN, LAST_TOKEN = -(1 << 63), (1 << 63) - 1
#: A count asks for so many parts of the ring of each node, so that none takes long.
_PARTS = 16
#: Far above any build; one that fails never says so to clients.
_INDEX_SECONDS = 4 * 3600.0
#: An index that no node is building, and that cannot be asked either, has failed.
_INDEX_IDLE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Single:
    """The statements that read and change single documents of a table."""

    table: Table
    document: str
    """CQL of all columns of a row."""
    key: str
    """CQL of its key, to see whether there is one."""
    decode: Callable[[Row], Document]
    updates: dict[tuple[str, ...], str] = field(default_factory=dict)
    """CQL that sets these columns, for combinations that `check_changes` has accepted."""


class CassandraClient(CassandraLink):
    """All threads of a process share one."""

    def __init__(self, shared: Shared, **times: Any) -> None:
        super().__init__(shared, **times)
        self._singles: dict[Kind, Single] = {}

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = make_tables(schema, composite=True)
        content = describe(schema, _LAYOUT)
        self._learn()
        if shared.schema is not None:
            check_same("cassandra", "the cluster", describe(shared.schema, _LAYOUT), content)
        for table in tables.values():
            self._ddl(self._table_ddl(table))
        if schema.index_time == "before":
            self._make_indexes(schema)
        self._ddl(
            f"CREATE TABLE IF NOT EXISTS {KEYSPACE}.{SCHEMA_TABLE} "
            "(id int PRIMARY KEY, content text)"
        )
        # The last step: a reader of a half-made schema must find none.
        self._rows(
            f"INSERT INTO {KEYSPACE}.{SCHEMA_TABLE} (id, content) VALUES (?, ?)",
            [1, content],
            ConsistencyLevel.ALL,
        )
        with shared.lock:
            shared.schema, shared.tables = schema, tables

    def _table_ddl(self, table: Table) -> str:
        settings = self._shared.settings
        columns = ", ".join(
            f"{quoted(column.name)} {_TYPES[column.type]}" for column in table.columns
        )
        *partition, last = map(quoted, table.key)
        key = f"({', '.join(partition)}), {last}" if partition else last
        if settings.compressor == "none":
            compression = "{'enabled': 'false'}"
        else:
            compression = f"{{'class': '{_COMPRESSORS[settings.compressor]}'}}"
        return (
            f"CREATE TABLE IF NOT EXISTS {full_name(table)} ({columns}, PRIMARY KEY ({key})) "
            f"WITH compression = {compression} "
            f"AND compaction = {{'class': '{_COMPACTIONS[settings.compaction]}'}}"
        )

    def _make_indexes(self, schema: Schema) -> None:
        """Storage-attached indexes; returns when all rows are in them."""
        hosts = self._shared.driver.metadata.all_hosts()
        oldest = min(tuple(map(int, str(host.release_version).split(".")[:2])) for host in hosts)
        if schema.indexes and oldest < (5, 0):
            raise EngineError(
                "cassandra: secondary indexes that know ranges (SAI) come with version 5.0; a node "
                f"has {'.'.join(map(str, oldest))}: leave indexes out or take a newer Cassandra"
            )
        for kind, name in schema.indexes:
            self._ddl(
                f"CREATE INDEX IF NOT EXISTS {quoted(f'{kind.table}_{name}')} ON "
                f"{KEYSPACE}.{kind.table} ({quoted(name)}) USING 'sai'"
            )
        self._await_indexes(schema)

    def _await_indexes(self, schema: Schema) -> None:
        """Of a table with rows an index is built in the background, on each node."""
        wanted = {f"{kind.table}_{name}" for kind, name in schema.indexes}
        cql = "SELECT index_name, is_queryable, is_building FROM system_views.sai_column_indexes"
        idle_from = started = time.monotonic()
        while True:
            lacking = 0
            for host in self._shared.driver.metadata.all_hosts():
                rows = self._rows_of(host, cql)
                if any(building for name, _, building in rows if name in wanted):
                    idle_from = time.monotonic()
                done = {name for name, queryable, building in rows if queryable and not building}
                lacking += len(wanted - done)
            if not lacking:
                return
            now = time.monotonic()
            if now - started > _INDEX_SECONDS or now - idle_from > _INDEX_IDLE_SECONDS:
                raise EngineError(
                    f"cassandra: {lacking} indexes are still not built on all nodes after "
                    f"{now - started:.0f} s; look for their errors in the nodes' logs"
                )
            time.sleep(0.1)

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        settings = self._writing("insert").settings
        table = self._table(kind)
        rows = table.rows(documents)
        if not rows:
            return
        blobs = [n for n, column in enumerate(table.columns) if column.type in ("id", "key")]
        key_of = table.key_of_row()
        # Requests of one call are not in order: of equal ids the last document counts.
        wanted: dict[Any, Row] = {key_of(row): row for row in rows}
        for row in wanted.values():
            for n in blobs:
                # Of an integer the driver would make so many bytes.
                if row[n].__class__ is not bytes and (
                    row[n] is not None or table.names[n] == "_id"
                ):
                    raise EngineError(
                        f"{table.name}.{table.names[n]}: {row[n]!r} is no id of bytes"
                    )
        marks = ", ".join("?" * len(table.names))
        statement = self._prepared(
            f"INSERT INTO {full_name(table)} ({table.select}) VALUES ({marks})"
        )
        unset = settings.nulls == "unset"
        with self._words(f"insert into {table.name}"):
            # All are bound before the first is sent: a refused batch leaves nothing behind.
            bound = [
                statement.bind(
                    [UNSET_VALUE if value is None else value for value in row] if unset else row
                )
                for row in wanted.values()
            ]
        self._send("insert", bound if settings.batch_rows == 1 else list(self._batches(bound)))

    def _batches(self, bound: list[Any]) -> Iterator[Any]:
        """Unlogged batches, each of rows that the same node holds."""
        metadata, size = self._shared.driver.metadata, self._shared.settings.batch_rows
        groups: dict[Any, list[Any]] = {}
        for statement in bound:
            replicas = metadata.get_replicas(KEYSPACE, statement.routing_key)
            groups.setdefault(replicas[0] if replicas else None, []).append(statement)
        for statements in groups.values():
            for start in range(0, len(statements), size):
                batch = BatchStatement(
                    BatchType.UNLOGGED, consistency_level=self._shared.level.requests
                )
                batch.is_idempotent = True
                for statement in statements[start : start + size]:
                    batch.add(statement)
                batch.routing_key = statements[start].routing_key
                yield batch

    def _send(self, verb: str, statements: list[Any]) -> list[Any]:
        """Send many requests, `concurrency` of them at a time; their results in order.

        Waits for all; those that no server answered are sent again for some seconds."""
        results: list[Any] = [None] * len(statements)
        left = list(range(len(statements)))
        until: float | None = None
        while left:
            done = self._try(verb, partial(self._execute, [statements[n] for n in left]))
            # Counted from the first answers: those of a server that stood still come late.
            until = until or self._clock() + PATIENCE_SECONDS
            again = []
            for n, (success, result) in zip(left, done, strict=True):
                if success:
                    results[n] = result
                elif isinstance(result, PASSING) and self._clock() < until:
                    again.append(n)
                elif isinstance(result, Exception):
                    raise self._error(verb, result) from result
            left = again
            if left:
                self._sleep(0.2)
        return results

    def _execute(self, statements: list[Any]) -> list[Any]:
        results: list[Any] = execute_concurrent(
            self._shared.session,
            [(statement, ()) for statement in statements],
            concurrency=self._shared.settings.concurrency,
            raise_on_first_error=False,
        )
        return results

    def finish(self) -> None:
        self._writing("finish")
        if self._shared.schema is None:
            self._learn()
        schema = self._shared.schema
        if schema is not None and schema.index_time == "after":
            self._make_indexes(schema)

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        single = self._single(kind)
        rows = self._rows(single.document, single.table.key_values(document_id))
        return single.decode(rows[0]) if rows else None

    def _single(self, kind: Kind) -> Single:
        """The statements of single documents of a kind, written once for each of its tables."""
        table = self._table(kind)
        single = self._singles.get(kind)
        if single is None or single.table is not table:
            select = f"SELECT {table.key_list} FROM {full_name(table)} {of_key(table)}"
            document = select_cql(table, of_key(table))
            single = self._singles[kind] = Single(table, document, select, table.decoder())
        return single

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        """One request for each id: `IN` would make one node ask all others for the client."""
        table = self._table(kind)
        statement = self._prepared(select_cql(table, of_key(table)))
        keys = map(table.key_values, dict.fromkeys(document_ids))
        with self._words("get"):
            bound = [statement.bind(key) for key in keys]
        id_of = table.id_of_row()
        documents: dict[bytes, Document] = {}
        for rows in self._send("get", bound):
            for row in rows:
                documents[id_of(row)] = table.document(row)
        return [documents.get(document_id) for document_id in document_ids]

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool | None:
        """Write the changed columns without a read, which creates a missing row (returns None).

        If a field in the JSON column changes, the document is read first; then a concurrent update
        of it may be lost."""
        self._writing("update")
        single = self._single(kind)
        table = single.table
        names = tuple(changes)
        cql = single.updates.get(names)
        if cql is not None:
            table.check_types(changes)
        else:
            table.check_changes(changes)
            if table.has_params and not changes.keys() <= set(table.names[:-1]):
                return self._update_read(single, document_id, changes)
            cql = single.updates[names] = _update_cql(table, names)
        self._rows(cql, [*changes.values(), *table.key_values(document_id)])
        return None

    def _update_read(self, single: Single, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        table = single.table
        old = self.get(table.kind, document_id)
        if old is None:
            return False
        (row,) = table.rows([{**old, **changes}])
        columns = {*changes, table.names[-1]}
        values = {n: v for n, v in zip(table.names, row, strict=True) if n in columns}
        key = table.key_values(document_id)
        self._rows(_update_cql(table, values), [*values.values(), *key])
        return True

    def _exists(self, single: Single, document_id: bytes) -> bool:
        return bool(self._rows(single.key, single.table.key_values(document_id)))

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """A read, then a delete; not one transaction."""
        self._writing("delete")
        single = self._single(kind)
        if not self._exists(single, document_id):
            return False
        table = single.table
        key = table.key_values(document_id)
        self._rows(f"DELETE FROM {full_name(table)} {of_key(table)}", key)
        return True

    def find(self, query: Find) -> list[Document]:
        """A range of one field, through an index where the column has one that can, else each
        node looks at all; without conditions every document. CQL knows no other conditions."""
        table = self._table(query.kind)
        span = query.span
        if span is None and (query.where or query.order_by is not None):
            raise self._cannot("find beyond the range of one field")
        if query.limit == 0:
            return []
        rest, values = "", []
        if span is not None:
            name, low, high = span
            limits = bounds(table.column(name), low, high)
            clause = " AND ".join(f"{quoted(name)} {operator} ?" for operator, _ in limits)
            rest, values = f"WHERE {clause}", [value for _, value in limits]
        if query.limit is not None:
            rest += f" LIMIT {query.limit}"
        if span is not None:
            rest += " ALLOW FILTERING"
        return list(map(table.document, self._rows(select_cql(table, rest), values)))

    def count(self, query: Count) -> int:
        """By a look at all rows, at the session's level: no node knows the number."""
        if query.where:
            raise self._cannot("count of conditions")
        table = self._table(query.kind)
        token = f"token({', '.join(map(quoted, table.key[:-1] or table.key))})"
        statement = self._prepared(
            f"SELECT count(*) FROM {full_name(table)} WHERE {token} >= ? AND {token} <= ?"
        )
        parts = _PARTS * len(self._shared.endpoints)
        width = (LAST_TOKEN - FIRST_TOKEN + 1) // parts
        starts = [FIRST_TOKEN + n * width for n in range(parts)]
        ends = [start - 1 for start in starts[1:]] + [LAST_TOKEN]
        bound = [statement.bind(pair) for pair in zip(starts, ends, strict=True)]
        answers = self._send("count", bound)
        return sum(int(row[0]) for rows in answers for row in rows)

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node whose part of the ring has the id: the first replica."""
        endpoints = self._shared.endpoints
        if len(endpoints) == 1:
            return endpoints[0].name
        routing = self.routing_key(kind, document_id)
        replicas = self._shared.driver.metadata.get_replicas(KEYSPACE, routing)
        if not replicas:
            return None
        place = (replicas[0].endpoint.address, replicas[0].endpoint.port)
        for endpoint in endpoints:
            if (endpoint.address, endpoint.port) == place:
                return endpoint.name
        return None

    def routing_key(self, kind: Kind, document_id: bytes) -> bytes:
        """The bytes whose hash is the document's place on the ring."""
        table = self._table(kind)
        if table.composite is None:
            return document_id
        key = table.key_values(document_id)
        with self._words("owner"):
            bound = self._prepared(select_cql(table, of_key(table))).bind(key)
        routing: bytes = bound.routing_key
        return routing

    def disk_bytes(self) -> int:
        """Of the tables on disk, replicas and indexes counted, after a flush of what is in memory.

        The servers say whole MiB of each table, rounded up; commit logs are not in it.
        """
        tables = [table.name for table in self._shared.tables.values()]
        return self._try("disk size", lambda: disk_bytes_of(self._shared, tables))


def full_name(table: Table) -> str:
    return f"{KEYSPACE}.{table.name}"


def select_cql(table: Table, rest: str) -> str:
    return f"SELECT {table.select} FROM {full_name(table)} {rest}"


def _update_cql(table: Table, names: Iterable[str]) -> str:
    clauses = ", ".join(f"{quoted(name)} = ?" for name in names)
    return f"UPDATE {full_name(table)} SET {clauses} {of_key(table)}"


def of_key(table: Table) -> str:
    return f"WHERE {table.key_clause()}"


def bounds(column: Field, low: Any, high: Any) -> list[tuple[str, Any]]:
    """Operators and values of low <= column <= high, with at least one end."""
    if column.type == "float":
        # The server orders as Java does: -0.0 before 0.0, and NaN behind all others.
        low = None if low is None else low or -0.0
        high = math.inf if high is None else high or 0.0
    elif low is not None and low == high:
        # Text columns have an index of equal values only.
        return [("=", low)]
    return [(op, value) for op, value in ((">=", low), ("<=", high)) if value is not None]
