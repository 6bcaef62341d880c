"""One process's connections to PostgreSQL.

Driver: https://www.psycopg.org/psycopg3/docs/; SQL: https://www.postgresql.org/docs/current/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg

from storewise.documents import FieldType
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.sql.sharded import ShardedClient
from storewise.engines.support.batches import batch_rows, is_batch
from storewise.engines.support.table import Table, quoted

DATABASE = "postgres"
#: Until a server that is not there counts as unreachable.
CONNECT_SECONDS = 10
#: Until a connection whose packets nobody acknowledges counts as broken.
_SILENCE_MS = 30_000


def connect(server: Endpoint, credentials: Credentials, seconds: int | None = None) -> Any:
    """A connection that commits each statement by itself; psycopg.Error where there is none."""
    return psycopg.connect(
        host=server.address,
        hostaddr=server.address,
        port=server.port,
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

    def _open(self, server: Endpoint) -> Any:
        return connect(server, self._shared.credentials).cursor(binary=True)

    def _lost(self, cursor: Any, error: Exception) -> bool:
        return bool(cursor.connection.closed)

    def _undone(self, error: Exception) -> bool:
        # The server has undone a transaction because of what others did at the same time.
        errors = psycopg.errors
        return isinstance(error, errors.SerializationFailure | errors.DeadlockDetected)

    def _among(self, table: Table, ids: Sequence[bytes]) -> Iterator[tuple[str, Sequence[Any]]]:
        if table.composite is not None:
            return super()._among(table, ids)
        # One statement for any number of ids, so that it is prepared once.
        return iter([("_id = ANY(%s)", (list(ids),))])

    def _table_ddl(self, table: Table) -> str:
        ddl, unlogged = super()._table_ddl(table), self._shared.consistency == "unlogged"
        return ddl.replace("CREATE TABLE", "CREATE UNLOGGED TABLE", 1) if unlogged else ddl

    def _load(self, cursor: Any, table: Table, documents: Any) -> None:
        name, key = quoted(table.name), table.key_list
        changes = [f"{quoted(n)} = EXCLUDED.{quoted(n)}" for n in table.names if n not in table.key]
        what = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
        replacing = f"ON CONFLICT ({key}) DO {what}"
        if self._shared.settings.bulk == "insert":
            marks = ", ".join(["%s"] * len(table.columns))
            rows = batch_rows(documents) if is_batch(documents) else documents
            with cursor.connection.transaction():
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks}) {replacing}", rows)
            return
        try:
            self._copy(cursor, table, name, documents)
        except psycopg.errors.UniqueViolation:
            # Ids are nearly always new, so the cheaper way is tried first; it leaves nothing.
            incoming = quoted(f"{table.name}_incoming")
            with cursor.connection.transaction():
                cursor.execute(f"CREATE TEMPORARY TABLE {incoming} (LIKE {name}) ON COMMIT DROP")
                self._copy(cursor, table, incoming, documents)
                # `ctid` is the place of a row: of equal ids the last one counts.
                newest = f"SELECT DISTINCT ON ({key}) * FROM {incoming} ORDER BY {key}, ctid DESC"
                cursor.execute(f"INSERT INTO {name} {newest} {replacing}")

    def _copy(self, cursor: Any, table: Table, into: str, documents: Any) -> None:
        if is_batch(documents):
            # Text that Arrow writes costs half the processor time of rows.
            from storewise.engines.postgres.csv import csv_of

            with cursor.copy(f"COPY {into} FROM STDIN (FORMAT CSV)") as copy:
                copy.write(csv_of(documents))
            return
        # The binary form was measured a third faster than text.
        with cursor.copy(f"COPY {into} FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([self.types[column.type] for column in table.columns])
            for row in documents:
                copy.write_row(row)

    def disk_bytes(self) -> int:
        """Bytes of the tables with their indexes and long values; not the write-ahead log and not
        the catalogue, which an empty database has too (about 7 MB)."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        )
        return sum(int(rows[0][0]) for rows in self._on_all(lambda store: self._rows(store, sql)))
