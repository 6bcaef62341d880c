"""A client of any database that SQLAlchemy knows.

Statements are those of the SQL servers that Storewise starts, as `text()`: SQLAlchemy gives each
driver the parameters in its own form (https://docs.sqlalchemy.org/en/20/core/). Tables and indexes
are SQLAlchemy's own. Their names begin with the trial's prefix, and are quoted always.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, oracle
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.types import TypeEngine

from storewise.documents import ID_BYTES, KEY_BYTES, Field, FieldType, Kind
from storewise.engines.contract.queries import Count, Find, Plan
from storewise.engines.sql import sharded
from storewise.engines.sql.sharded import ShardedClient
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

MYSQL = ("mysql", "mariadb")
#: Another transaction stood in the way: a SQLSTATE or MySQL's, Oracle's or SQLite's own words at
#: the beginning of an error.
_UNDONE = re.compile(r"\W*(40001|40P01|1213,|1205,|1020,|ORA-08177|ORA-00060|database is locked)")
#: Dialects that know LIMIT, and how they collect statistics; the others have FETCH FIRST, of the
#: SQL standard.
_ANALYZE = {
    "postgresql": "ANALYZE",
    "sqlite": "ANALYZE",
    **dict.fromkeys(MYSQL, "ANALYZE TABLE"),
}
#: What stands before a statement in dialects whose plans Storewise knows how to ask for.
_EXPLAIN = {
    "postgresql": "EXPLAIN",
    "sqlite": "EXPLAIN QUERY PLAN",
    **dict.fromkeys(MYSQL, "EXPLAIN FORMAT=JSON"),
}
#: SQL of the bytes that tables whose names begin so take with their indexes; of SQLite the file's.
_SIZE = {
    "postgresql": "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
    "WHERE relkind = 'r' AND relname LIKE '{}%'",
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    **dict.fromkeys(
        MYSQL,
        "SELECT sum(data_length + index_length) FROM information_schema.tables "
        "WHERE table_schema = database() AND table_name LIKE '{}%'",
    ),
}
#: Characters of a text in an index of MySQL.
_INDEXED_CHARACTERS = 191


def _bytes(length: int) -> TypeEngine[Any]:
    """The type of a binary column that can be part of a primary key."""
    binary = sa.VARBINARY(length).with_variant(sa.LargeBinary(), "postgresql", "sqlite")
    return binary.with_variant(oracle.RAW(length), "oracle")


#: Types of columns; texts are compared by their bytes.
_TYPES: Mapping[FieldType, TypeEngine[Any]] = {
    "id": _bytes(ID_BYTES),
    "key": _bytes(KEY_BYTES),
    "int": sa.BigInteger(),
    "float": sa.Double(),
    "str": sa.Text()
    .with_variant(sa.Text(collation="C"), "postgresql")
    .with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *MYSQL),
}
_NOTE_COLUMNS = (Field("id", "int", ""), Field("content", "str", ""))


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(sharded.Shared):
    """The shared state of a process."""

    engine: sa.Engine
    scrub: Callable[[str], str]
    """Removes secrets from a text."""
    prefix: str
    """Prefix of the names of tables and indexes."""
    single: sa.Engine
    """Engine for single statements: `engine`, or at level `durable` one whose driver commits each
    statement."""


class _Cursor:
    """Single statements, in the form of a driver's cursor; `connection` is for transactions."""

    def __init__(self, connection: sa.Connection, single: sa.Connection) -> None:
        self.connection = connection
        self._single = single
        self._rows: Sequence[Any] = ()
        self.rowcount = 0

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> None:
        try:
            result = self._single.execute(_text(sql), _named(values or ()))
            self._rows = result.fetchall() if result.returns_rows else ()
            self.rowcount = result.rowcount
        except BaseException:
            self._single.rollback()
            raise
        self._single.commit()

    def fetchall(self) -> list[Row]:
        # Some drivers give bytes as a memoryview.
        return [
            tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in self._rows
        ]

    def close(self) -> None:
        self._single.close()


class SqlClient(ShardedClient):
    """One thread's connections to the database: one for single statements and, of a writer, one
    for transactions."""

    engine_name = "sql"
    mark = "?"
    failures = (SQLAlchemyError, OverflowError, UnicodeError)
    _shared: Shared

    def __init__(self, shared: Shared) -> None:
        self._engine = shared.engine
        self._dialect = shared.engine.dialect.name
        self.explain_statement = _EXPLAIN.get(self._dialect, "")
        self.analyze_statement = _ANALYZE.get(self._dialect, "")
        self.note_table = f"{shared.prefix}_schema"
        super().__init__(shared)

    def _open(self, server: Any) -> _Cursor:
        shared = self._shared
        single = shared.single.connect()
        if shared.mode == "read" or shared.single is shared.engine:
            return _Cursor(single, single)
        return _Cursor(shared.engine.connect(), single)

    def _close_cursor(self, store: int) -> None:
        cursor = self._cursors[store]
        super()._close_cursor(store)
        cursor.close()

    def _lost(self, cursor: _Cursor, error: Exception) -> bool:
        return isinstance(error, DBAPIError) and error.connection_invalidated

    def _undone(self, error: Exception) -> bool:
        cause = getattr(error, "orig", None)
        return _UNDONE.match(f"{getattr(cause, 'sqlstate', '')} {cause}") is not None

    def _error_message(self, error: Exception) -> str:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        return " ".join(self._shared.scrub(str(cause)).split()) or type(cause).__name__

    def _fail(self, store: int, error: Exception) -> NoReturn:
        try:
            super()._fail(store, error)
        except EngineError as scrubbed:
            raise scrubbed from None  # the driver's own text may hold what `scrub` takes out

    def server(self) -> str:
        """The database's name and, where it has said it to the driver, its version."""
        version = getattr(self._engine.dialect, "server_version_info", None) or ()
        return f"{self._engine.url.get_backend_name()} {'.'.join(map(str, version))}".strip()

    # Tables.

    def _name(self, table: Table) -> str:
        return f"{self._shared.prefix}_{table.name}"

    def _source(self, table: Table, store: int) -> str:
        return quoted(self._name(table))

    def _create_tables(self, store: int) -> None:
        tables = self._shared.tables.values()
        for table in tables:
            _table_of(self._name(table), table.columns, table.key).create(self._engine, True)
        _table_of(self.note_table, _NOTE_COLUMNS, ("id",)).create(self._engine, True)

    def _make_index(self, store: int, name: str, table: Table, column: Field) -> None:
        there = _table_of(self._name(table), table.columns, table.key)
        length = _INDEXED_CHARACTERS if column.type == "str" else None
        index = sa.Index(
            sa.quoted_name(f"{self._shared.prefix}_{name}", True),
            there.c[column.name],
            mysql_length=length,
            mariadb_length=length,
        )
        index.create(self._engine, True)

    def _has_note(self, store: int) -> bool:
        return sa.inspect(self._engine).has_table(sa.quoted_name(self.note_table, True))

    def drop(self) -> None:
        """Remove all tables of this prefix that this workload can have made."""

        def drop(store: int) -> None:
            kinds = [f"{self._shared.prefix}_{kind.table}" for kind in self._shared.kinds]
            for name in (*kinds, self.note_table):
                _table_of(name, (), ()).drop(self._engine, True)

        self._on_all(drop)

    def disk_bytes(self) -> int | None:
        """Bytes of the tables with their indexes; of SQLite, of the whole file."""
        if self._dialect not in _SIZE:
            return None
        sql = _SIZE[self._dialect].format(f"{self._shared.prefix}_")
        return int(self._rows(0, sql)[0][0] or 0)

    def owner(self, kind: Kind, document_id: bytes) -> None:
        """Storewise does not know how the database spreads its rows."""

    # Writing and reading.

    def _load(self, cursor: _Cursor, table: Table, documents: list[Row]) -> None:
        source, marks = self._source(table, 0), ", ".join("?" * len(table.columns))
        insert = _text(f"INSERT INTO {source} ({table.select}) VALUES ({marks})")
        key_of = table.key_of_row()
        newest = {key_of(row): row for row in documents}
        rows = [_named(row) for row in newest.values()]
        # Ids are nearly always new, so the cheaper way is tried first; it leaves nothing.
        try:
            with cursor.connection.begin():
                cursor.connection.execute(insert, rows)
        except IntegrityError:
            delete = _text(f"DELETE FROM {source} WHERE {table.key_clause()}")
            keys = [_named(key if table.composite else (key,)) for key in newest]
            with cursor.connection.begin():
                cursor.connection.execute(delete, keys)
                cursor.connection.execute(insert, rows)

    def _first_rows(self, limit: int, order: str) -> str:
        if self._dialect in _ANALYZE:
            return super()._first_rows(limit, order)
        return f"{order or ' ORDER BY 1'} OFFSET 0 ROWS FETCH NEXT {limit} ROWS ONLY"

    def explain(self, query: Find | Count) -> Plan:
        if not self.explain_statement:
            known = f"no plan: Storewise does not know how {self._dialect} explains a statement"
            return Plan(known, None)
        return super().explain(query)


def _table_of(name: str, columns: Iterable[Field], key: Sequence[str]) -> sa.Table:
    """The `sqlalchemy.Table` for these columns and primary key."""
    return sa.Table(
        sa.quoted_name(name, True),
        sa.MetaData(),
        *(
            sa.Column(
                sa.quoted_name(c.name, True),
                _TYPES[c.type],
                primary_key=c.name in key,
                autoincrement=False,
            )
            for c in columns
        ),
    )


@lru_cache(maxsize=512)
def _text(sql: str) -> sa.TextClause:
    """A statement whose parameters ``?`` are called p0, p1 and so on."""
    first, *parts = sql.split("?")
    return sa.text(first + "".join(f":p{n}{part}" for n, part in enumerate(parts)))


def _named(values: Sequence[Any]) -> dict[str, Any]:
    return {f"p{n}": value for n, value in enumerate(values)}
