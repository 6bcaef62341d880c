"""One process's connections to PostgreSQL.

Driver: https://www.psycopg.org/psycopg3/docs/; SQL: https://www.postgresql.org/docs/current/.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg.types.json import set_json_loads

from storewise.documents import Field, FieldType, Kind
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.sql.json_table import DOCUMENT_COLUMN, JsonTable
from storewise.engines.sql.sharded_client import ShardedClient
from storewise.engines.support.clients import retried
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

DATABASE = "postgres"
#: The consistency level at which tables are not in the write-ahead log.
UNLOGGED = "unlogged"
#: Times that a transaction is tried whose result would not be serializable.
_TRIES = 20
#: Until a server that is not there counts as unreachable.
CONNECT_SECONDS = 10
#: Until a connection whose packets nobody acknowledges counts as broken.
_SILENCE_MS = 30_000

_TYPES: Mapping[FieldType, str] = {
    "id": "bytea",
    "key": "bytea",
    "int": "bigint",
    "float": "double precision",
    "str": "text",
}


def connect(
    address: str, port: int, credentials: Credentials, seconds: int | None = None
) -> psycopg.Connection[Row]:
    """A connection that commits each statement by itself; psycopg.Error where there is none."""
    return psycopg.connect(
        host=address,
        hostaddr=address,
        port=port,
        user=credentials.user,
        password=credentials.password,
        dbname=DATABASE,
        autocommit=True,
        connect_timeout=seconds or CONNECT_SECONDS,
        tcp_user_timeout=_SILENCE_MS,
        # What a user's environment (PGHOSTADDR, PGOPTIONS and so on) says of other servers does
        # not count here.
        sslmode="disable",
        gssencmode="disable",
        channel_binding="disable",
        options="",
        application_name="storewise",
        client_encoding="UTF8",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A connection and a cursor that gets results in PostgreSQL's binary format."""

    connection: psycopg.Connection[Row]
    cursor: psycopg.Cursor[Row]

    @property
    def idle(self) -> bool:
        """Whether no transaction has begun."""
        return self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


#: Copies documents into the table that is named.
_Copy = Callable[[str], None]


class PostgresClient(ShardedClient[Session]):
    """One thread's connections to the servers."""

    engine_name = "postgres"
    # The others: Python's integers and strings that no type of the server can hold.
    failures = (psycopg.Error, OverflowError, UnicodeError)
    types = _TYPES
    json_type = "jsonb"

    def _open(self, server: Endpoint) -> Session:
        connection = connect(server.address, server.port, self._shared.credentials)
        connection.prepare_threshold = 0 if self._shared.settings.prepare else None
        # A JSON column gives its text: the table makes the document of it.
        set_json_loads(lambda data: data, connection)
        return Session(connection, connection.cursor(binary=True))

    def _shut(self, connection: Session) -> None:
        connection.connection.close()

    def _usable(self, connection: Session) -> bool:
        return not connection.connection.closed

    def _query(
        self, connection: Session, sql: str, values: Sequence[Any], anew: bool = False
    ) -> list[Row]:
        # A try of its own first: the retries' closures would be a part of each short read.
        try:
            return self._ask(connection, sql, values, anew)
        except _UNDONE:
            if not connection.idle:
                raise
        return _again(lambda: self._ask(connection, sql, values, anew), connection)

    @staticmethod
    def _ask(connection: Session, sql: str, values: Sequence[Any], anew: bool) -> list[Row]:
        # The server may keep one plan for all parameters of a prepared statement.
        prepare = False if anew else None
        return connection.cursor.execute(_sql(sql), values, prepare=prepare).fetchall()

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        return "\n".join(row[0] for row in self._rows(store, f"EXPLAIN {sql}", values, anew=True))

    def _execute(self, connection: Session, sql: str, values: Sequence[Any] = ()) -> int:
        try:
            return self._run(connection, sql, values)
        except _UNDONE:
            if not connection.idle:
                raise
        return _again(lambda: self._run(connection, sql, values), connection)

    @staticmethod
    def _run(connection: Session, sql: str, values: Sequence[Any]) -> int:
        return connection.cursor.execute(_sql(sql), values or None).rowcount

    def _transaction(self, connection: Session) -> AbstractContextManager[Any]:
        return connection.connection.transaction()

    def _among(self, table: Table, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        # One statement for any number of ids, so that it is prepared once.
        if table.composite is None:
            yield "_id = ANY(%s)", (list(ids),)
            return
        if keys := [table.composite.values(document_id) for document_id in ids]:
            arrays = ", ".join(["%s::bigint[]"] * len(table.key))
            yield (
                f"({table.key_list}) IN (SELECT * FROM unnest({arrays}))",
                [list(column) for column in zip(*keys, strict=True)],
            )

    @staticmethod
    def _json_value(column: Field) -> str:
        text = f"({quoted(DOCUMENT_COLUMN)}->>'{column.name}')"
        return text if column.type in ("str", "id") else f"({text}::{_TYPES[column.type]})"

    def _json_change(self, texts: Mapping[str, str]) -> tuple[str, list[Any]]:
        members = ",".join(f"{json.dumps(name)}:{text}" for name, text in texts.items())
        return f"{quoted(DOCUMENT_COLUMN)} || %s::jsonb", [f"{{{members}}}"]

    def _index_ddl(self, table: Table, name: str, column: Field) -> str:
        value = f"(({table.expression(column)}))"
        return f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {quoted(table.name)} {value}"

    def _settle(self, connection: Session) -> None:
        # Without statistics the planner guesses until autovacuum comes by.
        for table in self._tables.values():
            self._execute(connection, f"ANALYZE {quoted(table.name)}")

    def _table_ddl(self, table: Table) -> str:
        ddl = super()._table_ddl(table)
        if self._shared.consistency != UNLOGGED:
            return ddl
        return ddl.replace("CREATE TABLE", "CREATE UNLOGGED TABLE", 1)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        change = super().update
        return _again(lambda: change(kind, document_id, changes))

    def _load(self, connection: Session, table: Table, rows: list[Row]) -> None:
        _again(lambda: self._load_once(connection, table, rows))

    def _load_once(self, connection: Session, table: Table, rows: list[Row]) -> None:
        if self._shared.settings.bulk == "insert":
            values = ", ".join(["%s"] * len(rows[0]))
            sql = f"INSERT INTO {quoted(table.name)} VALUES ({values}) {_overwrite(table)}"
            with connection.connection.transaction(), connection.connection.cursor() as cursor:
                cursor.executemany(_sql(sql), rows)
            return
        key_of = table.key_of_row()
        self._copy_new(
            connection,
            table,
            lambda into: _copy(connection, table, into, rows),
            lambda into: _copy(
                connection, table, into, list({key_of(row): row for row in rows}.values())
            ),
        )

    def _load_batch(self, connection: Session, table: Table, batch: Any) -> None:
        if self._shared.settings.bulk == "insert":
            super()._load_batch(connection, table, batch)
            return
        from storewise.engines.support import batches

        _again(
            lambda: self._copy_new(
                connection,
                table,
                lambda into: _copy_columns(connection, table, into, batch),
                lambda into: _copy_columns(connection, table, into, batches.newest(batch)),
            )
        )

    def _copy_new(self, connection: Session, table: Table, every: _Copy, newest: _Copy) -> None:
        """Copy documents; where an id exists, or is there twice, the newest of each over it."""
        try:
            every(table.name)
        except psycopg.errors.UniqueViolation:
            # Ids are nearly always new, so the cheaper way is tried first; it leaves nothing.
            self._replace(connection, table, newest)

    def _replace(self, connection: Session, table: Table, newest: _Copy) -> None:
        incoming = f"{table.name}_incoming"
        self._execute(
            connection,
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {quoted(incoming)} "
            f"(LIKE {quoted(table.name)}) ON COMMIT DELETE ROWS",
        )
        with connection.connection.transaction():
            newest(incoming)
            self._execute(
                connection,
                f"INSERT INTO {quoted(table.name)} SELECT * FROM {quoted(incoming)} "
                f"ORDER BY {table.key_list} {_overwrite(table)}",
            )

    def disk_bytes(self) -> int:
        """Bytes of the tables with their indexes and long values; not the write-ahead log and not
        the catalogue, which an empty database has too (about 7 MB)."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = current_schema() AND c.relkind = 'r'"
        )
        return sum(int(rows[0][0]) for rows in self._ask_all(sql))


#: The server has undone a transaction because of what others did at the same time.
_UNDONE = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_Result = TypeVar("_Result")


def _again(do: Callable[[], _Result], session: Session | None = None) -> _Result:
    """Do a transaction, once more where the server has undone it for the sake of another one.

    Of a statement on `session`: only where it was a transaction of its own."""

    def undone(error: Exception) -> bool:
        words = error.__cause__ if isinstance(error, EngineError) else error
        return isinstance(words, _UNDONE) and (session is None or session.idle)

    return retried(do, undone, _TRIES)


def _overwrite(table: Table) -> str:
    names = [DOCUMENT_COLUMN] if isinstance(table, JsonTable) else table.names
    changes = [f"{quoted(n)} = EXCLUDED.{quoted(n)}" for n in names if n not in table.key]
    what = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
    return f"ON CONFLICT ({table.key_list}) DO {what}"


def _copy(session: Session, table: Table, into: str, rows: Sequence[Row]) -> None:
    """COPY in binary form, which was measured a third faster than in text."""
    if isinstance(table, JsonTable):
        # What jsonb takes in binary form is its version and the text: as bytes it costs least.
        types = ["bytea", "bytea"]
        rows = [(row[0], b"\x01" + row[1].encode()) for row in rows]
    else:
        types = [_TYPES[column.type] for column in table.columns]
    sql = _sql(f"COPY {quoted(into)} FROM STDIN (FORMAT BINARY)")
    with session.connection.cursor() as cursor, cursor.copy(sql) as copy:
        copy.set_types(types)
        try:
            for row in rows:
                copy.write_row(row)
        except TypeError as error:
            raise psycopg.DataError(f"{table.name}: a value has a wrong type: {error}") from error


def _copy_columns(session: Session, table: Table, into: str, batch: Any) -> None:
    """COPY of a record batch: its bytes are made of whole columns."""
    from storewise.engines.postgres import copy_data

    rows = copy_data.copy_rows(table, batch)
    sql = _sql(f"COPY {quoted(into)} FROM STDIN (FORMAT BINARY)")
    with session.connection.cursor() as cursor, cursor.copy(sql) as copy:
        for part in (copy_data.HEADER, rows, copy_data.TRAILER):
            copy.write(part)


def _sql(text: str) -> LiteralString:
    """Statements are made of our own names, never of values; the driver's types want to hear it."""
    return cast(LiteralString, text)  # type: ignore[redundant-cast]
