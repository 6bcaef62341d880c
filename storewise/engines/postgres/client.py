"""One process's connections to PostgreSQL.

Driver: https://www.psycopg.org/psycopg3/docs/; SQL: https://www.postgresql.org/docs/current/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, LiteralString, cast

import psycopg

from storewise.documents import FieldType
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.sql.sharded_client import Session, ShardedClient
from storewise.engines.support.batches import batch_rows, is_batch
from storewise.engines.support.table import Row, Table, quoted

DATABASE = "postgres"
#: The consistency level at which tables are not in the write-ahead log.
UNLOGGED = "unlogged"
#: Until a server that is not there counts as unreachable.
CONNECT_SECONDS = 10
#: Until a connection whose packets nobody acknowledges counts as broken.
_SILENCE_MS = 30_000
#: The server has undone a transaction because of what others did at the same time.
_UNDONE = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


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


class PostgresClient(ShardedClient):
    """One thread's connections to the servers."""

    engine_name = "postgres"
    loads_batches = True
    # The others: Python's integers and strings that no type of the server can hold.
    failures = (psycopg.Error, OverflowError, UnicodeError)
    types: Mapping[FieldType, str] = {
        "id": "bytea",
        "key": "bytea",
        "int": "bigint",
        "float": "double precision",
        "str": "text",
    }

    def _open(self, server: Endpoint) -> Session:
        connection = connect(server.address, server.port, self._shared.credentials)
        return Session(connection, connection.cursor(binary=True))

    def _lost(self, session: Session, error: Exception) -> bool:
        return bool(session.connection.closed)

    def _undone(self, error: Exception) -> bool:
        return isinstance(error, _UNDONE)

    def _transaction(self, session: Session) -> AbstractContextManager[Any]:
        transaction: AbstractContextManager[Any] = session.connection.transaction()
        return transaction

    def _among(self, table: Table, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        if table.composite is not None:
            return super()._among(table, ids)
        # One statement for any number of ids, so that it is prepared once.
        return iter([("_id = ANY(%s)", (list(ids),))])

    def _table_ddl(self, table: Table) -> str:
        ddl = super()._table_ddl(table)
        if self._shared.consistency != UNLOGGED:
            return ddl
        return ddl.replace("CREATE TABLE", "CREATE UNLOGGED TABLE", 1)

    def _analyze(self, store: int) -> None:
        # Until there are statistics (else autovacuum makes them, later) the planner guesses.
        for table in self._shared.tables.values():
            self._run(store, f"ANALYZE {quoted(table.name)}")

    def _load(self, session: Session, table: Table, documents: Any) -> None:
        connection: psycopg.Connection[Row] = session.connection
        if self._shared.settings.bulk == "insert":
            marks = ", ".join(["%s"] * len(table.columns))
            sql = f"INSERT INTO {quoted(table.name)} VALUES ({marks}) {_on_conflict(table)}"
            with connection.transaction():
                session.cursor.executemany(sql, _rows_of(documents))
            return
        try:
            if is_batch(documents):
                self._copy_batch(connection, table, documents)
            else:
                self._copy(connection, table, table.name, documents)
        except psycopg.errors.UniqueViolation:
            # Ids are nearly always new, so the cheaper way is tried first; it leaves nothing.
            self._replace(connection, table, _rows_of(documents))

    def _replace(
        self, connection: psycopg.Connection[Row], table: Table, rows: Sequence[Row]
    ) -> None:
        """Copy rows over those with the same ids; of equal ids the last one counts."""
        key_of = table.key_of_row()
        newest = list({key_of(row): row for row in rows}.values())
        incoming = f"{table.name}_incoming"
        with connection.transaction():
            connection.execute(
                _sql(
                    f"CREATE TEMPORARY TABLE {quoted(incoming)} (LIKE {quoted(table.name)}) "
                    "ON COMMIT DROP"
                )
            )
            self._copy(connection, table, incoming, newest)
            connection.execute(
                _sql(
                    f"INSERT INTO {quoted(table.name)} SELECT * FROM {quoted(incoming)} "
                    f"ORDER BY {table.key_list} {_on_conflict(table)}"
                )
            )

    def _copy(
        self, connection: psycopg.Connection[Row], table: Table, into: str, rows: Sequence[Row]
    ) -> None:
        """COPY in binary form, which was measured a third faster than in text."""
        sql = _sql(f"COPY {quoted(into)} FROM STDIN (FORMAT BINARY)")
        with connection.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types([self.types[column.type] for column in table.columns])
            for row in rows:
                copy.write_row(row)

    def _copy_batch(
        self, connection: psycopg.Connection[Row], table: Table, batch: Sequence[Any]
    ) -> None:
        """COPY of text that Arrow writes, at half the processor time of rows."""
        from storewise.engines.postgres.csv import csv_of

        text = csv_of(batch)
        if b"\n\\.\n" in text:  # older servers take such a line for the end
            self._copy(connection, table, table.name, _rows_of(batch))
            return
        sql = _sql(f"COPY {quoted(table.name)} FROM STDIN (FORMAT CSV)")
        with connection.cursor() as cursor, cursor.copy(sql) as copy:
            copy.write(text)

    def disk_bytes(self) -> int:
        """Bytes of the tables with their indexes and long values; not the write-ahead log and not
        the catalogue, which an empty database has too (about 7 MB)."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = current_schema() AND c.relkind = 'r'"
        )
        return sum(int(rows[0][0]) for rows in self._on_all(lambda store: self._rows(store, sql)))


def _rows_of(documents: Any) -> list[Row]:
    return batch_rows(documents) if is_batch(documents) else cast(list[Row], documents)


def _on_conflict(table: Table) -> str:
    changes = [f"{quoted(n)} = EXCLUDED.{quoted(n)}" for n in table.names if n not in table.key]
    what = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
    return f"ON CONFLICT ({table.key_list}) DO {what}"


def _sql(text: str) -> LiteralString:
    """Statements are made of our own names, never of values; the driver's types want to hear it."""
    return cast(LiteralString, text)  # type: ignore[redundant-cast]
