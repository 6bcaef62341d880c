"""The client of MariaDB and MySQL: documents sharded by the client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from storewise.documents import ID_BYTES, KEY_BYTES, Field, FieldType
from storewise.engines.contract.engine import Endpoint
from storewise.engines.mysql.connection import driver_of, error_code, sign_in
from storewise.engines.sql.sharded import ShardedClient, Shared
from storewise.engines.support.table import Row, Table, quoted

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
    analyze_statement = "ANALYZE TABLE"
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
        # The others: values that no text can be made of, and what PyMySQL's socket raises.
        error = driver_of(shared.settings.driver).Error
        self.failures = (error, UnicodeError, OverflowError, OSError)

    def _open(self, server: Endpoint) -> Any:
        return sign_in(server, self._shared.credentials, self._shared.settings.driver).cursor()

    def _lost(self, cursor: Any, error: Exception) -> bool:
        # The drivers' own errors: the connection is lost, closed or out of step.
        code = error_code(error)
        return code == 0 or 2000 <= code < 3000

    def _undone(self, error: Exception) -> bool:
        return error_code(error) in _UNDONE

    def _load(self, cursor: Any, table: Table, documents: list[Row]) -> None:
        marks = ", ".join(["%s"] * len(table.columns))
        sql = f"REPLACE INTO {quoted(table.name)} ({table.select}) VALUES ({marks})"
        cursor.connection.begin()
        try:
            # The drivers put as many rows into one statement as its longest length allows.
            cursor.executemany(sql, documents)
            cursor.connection.commit()
        except BaseException:
            with suppress(*self.failures):  # the connection may be lost
                cursor.connection.rollback()
            raise

    def _make_index(self, store: int, name: str, table: Table, column: Field) -> None:
        length = f"({_INDEXED_CHARACTERS})" if column.type == "str" else ""
        on = f"{quoted(table.name)} ({quoted(column.name)}{length})"
        try:
            self._cursor(store).execute(f"CREATE INDEX {quoted(name)} ON {on}")
        except self.failures as error:
            # MySQL has no CREATE INDEX IF NOT EXISTS.
            if error_code(error) != _DUPLICATE_INDEX:
                raise

    def disk_bytes(self) -> int:
        """Files of the tables with their indexes; not the redo log, of a fixed size, and what
        the server keeps for itself."""

        def ask(store: int) -> int:
            ((version,),) = self._rows(store, "SELECT VERSION()")
            view = "INNODB_SYS_TABLESPACES" if "MariaDB" in version else "INNODB_TABLESPACES"
            ((size,),) = self._rows(
                store,
                f"SELECT SUM(FILE_SIZE) FROM information_schema.{view} "
                "WHERE name LIKE CONCAT(DATABASE(), '/%')",
            )
            return int(size or 0)

        return sum(self._on_all(ask))
