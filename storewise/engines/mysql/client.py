"""The client of MariaDB and MySQL: documents sharded by the client, loaded in bulk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from storewise.documents import KEY_BYTES, Field, FieldType, Kind
from storewise.engines.contract.engine import Endpoint
from storewise.engines.mysql.connection import FAILURES, again, sign_in, undone
from storewise.engines.mysql.link import Link, LinkError
from storewise.engines.mysql.load_data import load_text, value_lists
from storewise.engines.sql.json_table import DOCUMENT_COLUMN, JsonTable
from storewise.engines.sql.sharded_client import ShardedClient
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

#: Characters of a text that are in a secondary index; a whole LONGTEXT cannot be.
_INDEXED_CHARACTERS = 191
_DUPLICATE_INDEX = 1061


class MysqlClient(ShardedClient[Link]):
    """One thread's connections to the servers."""

    engine_name = "mariadb"
    failures = FAILURES
    types: ClassVar[Mapping[FieldType, str]] = {
        "id": "BINARY(12)",
        "key": f"VARBINARY({KEY_BYTES})",
        "int": "BIGINT",
        "float": "DOUBLE",
        # Texts have no longest length here; InnoDB keeps short ones in the row as it does VARCHAR.
        "str": "LONGTEXT",
    }
    json_type = "JSON"

    def _open(self, server: Endpoint) -> Link:
        shared = self._shared
        driver = shared.settings.driver
        return sign_in(server.address, server.port, shared.credentials, driver=driver)

    def _shut(self, connection: Link) -> None:
        connection.close()

    def _usable(self, connection: Link) -> bool:
        return connection.open

    def _query(
        self, connection: Link, sql: str, values: Sequence[Any], anew: bool = False
    ) -> list[Row]:
        return connection.rows(sql, values)

    def _plan(self, store: int, sql: str, values: Sequence[Any]) -> str:
        """One line per table: what EXPLAIN says, less the indexes that it did not choose."""
        link = self._connection(store)
        try:
            names, rows = link.described(f"EXPLAIN {sql}", values)
        except self.failures as error:
            self._fail(store, error)
        return "\n".join(
            " ".join(
                f"{name}={value}"
                for name, value in zip(names, row, strict=True)
                if value is not None and name != "possible_keys"
            )
            for row in rows
        )

    def _among_keys(self, table: Table, number: int) -> str:
        marks = f"({', '.join(['%s'] * len(table.key))})"
        return f"({table.key_list}) IN ({', '.join([marks] * number)})"

    def _execute(self, connection: Link, sql: str, values: Sequence[Any] = ()) -> int:
        try:
            return connection.change(sql, values)
        except LinkError as error:
            # MySQL has no CREATE INDEX IF NOT EXISTS.
            if sql.startswith("CREATE INDEX") and error.code == _DUPLICATE_INDEX:
                return 0
            if connection.within or not undone(error):
                raise
        return again(lambda: connection.change(sql, values))

    def _transaction(self, connection: Link) -> AbstractContextManager[None]:
        return connection.transaction()

    def _load(self, connection: Link, table: Table, rows: list[Row]) -> None:
        columns = _stored(table)
        if self._shared.settings.bulk == "insert":
            names = ", ".join(quoted(column.name) for column in columns)
            head = f"REPLACE INTO {quoted(table.name)} ({names}) VALUES "
            sql = head.encode() + value_lists(table.name, columns, rows)
            # Bytes, because PyMySQL would let half a surrogate pair through as a raw byte.
            again(lambda: connection.change(sql))
        else:
            text = load_text(table.name, columns, rows)
            again(lambda: self._load_data(connection, table, columns, [text], len(rows)))

    def _load_batch(self, connection: Link, table: Table, batch: Any) -> None:
        if self._shared.settings.bulk == "insert":
            super()._load_batch(connection, table, batch)
            return
        from storewise.engines.mysql.load_columns import load_lines

        text = load_lines(table, batch)
        again(lambda: self._load_data(connection, table, table.columns, text, len(batch)))

    def _load_data(
        self,
        connection: Link,
        table: Table,
        columns: Sequence[Field],
        text: Sequence[bytes | memoryview],
        rows: int,
    ) -> None:
        # The drivers send a file that they open by name: one in memory has a name in /proc.
        file = os.memfd_create("storewise")
        try:
            with open(file, "wb", closefd=False) as writer:
                writer.writelines(text)
            with connection.transaction():
                taken = connection.change(load_sql(table, columns, f"/proc/self/fd/{file}"))
                # LOCAL makes warnings of errors and stores what is nearest to the value.
                if warnings := connection.warnings():
                    told = connection.rows("SHOW WARNINGS LIMIT 1")
                    words = told[0][2] if told else f"{warnings} warnings"
                    raise EngineError(f"{self.engine_name}: a batch of {table.name}: {words}")
                if taken < rows:
                    raise EngineError(
                        f"{self.engine_name}: of {rows} documents of a batch of {table.name} the "
                        f"server took {taken}"
                    )
        finally:
            os.close(file)

    def _first_update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        change = super()._first_update  # may be a transaction
        return again(lambda: change(kind, document_id, changes))

    @staticmethod
    def _json_value(column: Field) -> str:
        return quoted(column.name)

    def _json_change(self, texts: Mapping[str, str]) -> tuple[str, list[Any]]:
        parts = [(f"$.{json.dumps(name)}", text) for name, text in texts.items()]
        pairs = ", %s, JSON_EXTRACT(%s, '$')" * len(parts)
        return f"JSON_SET({quoted(DOCUMENT_COLUMN)}{pairs})", [p for part in parts for p in part]

    def _table_ddl(self, table: Table) -> str:
        ddl = super()._table_ddl(table)
        if isinstance(table, JsonTable):
            # A field of the JSON text is a column that is computed when it is asked for: the one
            # way to index it that both servers know, free of cost where there is no index.
            virtual = [_virtual(column) for column in table.columns[1:]]
            ddl = f"{ddl[:-1]}, {', '.join(virtual)})"
        return f"{ddl} ENGINE=InnoDB"

    def _index_ddl(self, table: Table, name: str, column: Field) -> str:
        part = quoted(column.name)
        types = _VIRTUAL_TYPES if isinstance(table, JsonTable) else self.types
        if types[column.type] == "LONGTEXT":
            part += f"({_INDEXED_CHARACTERS})"
        return f"CREATE INDEX {quoted(name)} ON {quoted(table.name)} ({part})"

    def _settle(self, connection: Link) -> None:
        names = ", ".join(quoted(table.name) for table in self._tables.values())
        for row in self._query(connection, f"ANALYZE TABLE {names}", ()):
            if str(row[2]).lower() == "error":
                raise EngineError(f"{self.engine_name}: {row[0]} cannot be analyzed: {row[3]}")

    def _schema_name(self) -> str:
        return "DATABASE()"

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


def load_sql(table: Table, columns: Sequence[Field], path: str) -> str:
    """The statement that loads a file of `load_text`, in the session's SQL mode ANSI_QUOTES."""
    places, values = [], []
    for number, column in enumerate(columns):
        if column.type in ("id", "key"):
            places.append(f"@v{number}")
            values.append(f"{quoted(column.name)} = UNHEX(@v{number})")
        else:
            places.append(quoted(column.name))
    assignments = f" SET {', '.join(values)}" if values else ""
    return (
        f"LOAD DATA LOCAL INFILE '{path}' REPLACE INTO TABLE {quoted(table.name)} "
        r"CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' "
        rf"LINES TERMINATED BY '\n' ({', '.join(places)}){assignments}"
    )


def _stored(table: Table) -> Sequence[Field]:
    """The columns that a row of `Table.rows` fills."""
    return (table.columns[0], _JSON_COLUMN) if isinstance(table, JsonTable) else table.columns


_JSON_COLUMN = Field(DOCUMENT_COLUMN, "str", "")
#: Ids are hexadecimal digits in JSON.
_VIRTUAL_TYPES: Mapping[FieldType, str] = {**MysqlClient.types, "id": "LONGTEXT"}


def _virtual(column: Field) -> str:
    value = f"JSON_EXTRACT({quoted(DOCUMENT_COLUMN)}, '$.{json.dumps(column.name)}')"
    text = f"IF(JSON_TYPE({value}) = 'NULL', NULL, JSON_UNQUOTE({value}))"
    return (
        f"{quoted(column.name)} {_VIRTUAL_TYPES[column.type]} GENERATED ALWAYS AS ({text}) VIRTUAL"
    )
