"""The client of MariaDB and MySQL: documents sharded by the client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from storewise.documents import ID_BYTES, KEY_BYTES, Field, FieldType
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.queries import Count, Find
from storewise.engines.mysql.connection import driver_of, error_code, sign_in
from storewise.engines.sql.sharded_client import Session, ShardedClient, Shared
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

#: Characters of a text that are in a secondary index; a whole LONGTEXT cannot be.
_INDEXED_CHARACTERS = 191
_DUPLICATE_INDEX = 1061
#: A deadlock, a lock that was not given in time, and MariaDB's "record has changed since last
#: read": the server has undone a transaction because others stood in its way.
_UNDONE = frozenset({1213, 1205, 1020})


class MysqlClient(ShardedClient):
    """One thread's connections to the servers."""

    engine_name = "mariadb"
    explain_statement = "EXPLAIN FORMAT=JSON"
    types: Mapping[FieldType, str] = {
        # BINARY would fill a shorter id up with zeros.
        "id": f"VARBINARY({ID_BYTES})",
        "key": f"VARBINARY({KEY_BYTES})",
        "int": "BIGINT",
        "float": "DOUBLE",
        # Texts have no longest length here; InnoDB keeps short ones in the row as it does VARCHAR.
        "str": "LONGTEXT",
    }

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        driver = driver_of(shared.settings.driver)
        # The others: values that no text can be made of, and what PyMySQL's socket raises.
        self.failures = (driver.Error, UnicodeError, OverflowError, OSError)

    def _open(self, server: Endpoint) -> Session:
        shared = self._shared
        connection = sign_in(
            server.address, server.port, shared.credentials, driver=shared.settings.driver
        )
        return Session(connection, connection.cursor())

    def _lost(self, session: Session, error: Exception) -> bool:
        # The drivers' own errors: the connection is lost, closed or out of step.
        code = error_code(error)
        return code == 0 or 2000 <= code < 3000

    def _undone(self, error: Exception) -> bool:
        return error_code(error) in _UNDONE

    @contextmanager
    def _transaction(self, session: Session) -> Iterator[None]:
        session.connection.begin()
        try:
            yield
            session.connection.commit()
        except BaseException as error:
            if not isinstance(error, Exception) or not self._lost(session, error):
                session.connection.rollback()
            raise

    def _load(self, session: Session, table: Table, documents: list[Row]) -> None:
        marks = ", ".join(["%s"] * len(table.columns))
        sql = f"REPLACE INTO {quoted(table.name)} ({table.select}) VALUES ({marks})"
        with self._transaction(session):
            # The drivers put as many rows into one statement as its longest length allows.
            session.cursor.executemany(sql, documents)

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        # It names those that it could have taken, too.
        names = [f"{query.kind.table}_{condition.field}" for condition in query.where]
        return any(f'"key": "{name}"' in plan for name in names)

    def _table_ddl(self, table: Table) -> str:
        return f"{super()._table_ddl(table)} ENGINE=InnoDB"

    def _make_index(self, store: int, name: str, table: Table, column: Field) -> None:
        length = f"({_INDEXED_CHARACTERS})" if column.type == "str" else ""
        on = f"{quoted(table.name)} ({quoted(column.name)}{length})"
        try:
            self._session(store).cursor.execute(f"CREATE INDEX {quoted(name)} ON {on}")
        except self.failures as error:
            # MySQL has no CREATE INDEX IF NOT EXISTS.
            if error_code(error) != _DUPLICATE_INDEX:
                raise

    def _analyze(self, store: int) -> None:
        names = ", ".join(quoted(table.name) for table in self._shared.tables.values())
        for row in self._rows(store, f"ANALYZE TABLE {names}"):
            if str(row[2]).lower() == "error":
                raise EngineError(f"{self.engine_name}: {row[0]} cannot be analyzed: {row[3]}")

    def disk_bytes(self) -> int:
        """Files of the tables with their indexes; not the redo log, of a fixed size, and what
        the server keeps for itself."""

        def ask(store: int) -> int:
            views = self._rows(
                store,
                "SELECT table_name FROM information_schema.tables WHERE table_schema = "
                "'information_schema' AND LOWER(table_name) IN (%s, %s)",
                ("innodb_sys_tablespaces", "innodb_tablespaces"),
            )
            view = quoted(str(views[0][0]))
            sql = (
                f"SELECT SUM(FILE_SIZE) FROM information_schema.{view} "
                "WHERE name LIKE CONCAT(DATABASE(), '/%')"
            )
            return int(self._rows(store, sql)[0][0] or 0)

        return sum(self._on_all(ask))
