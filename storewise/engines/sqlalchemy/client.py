"""A client of any database that SQLAlchemy knows.

Statements are those of the SQL servers that Storewise starts, as `text()`: SQLAlchemy gives each
driver the parameters in its own form (https://docs.sqlalchemy.org/en/20/core/).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, oracle
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.types import TypeEngine

from storewise.documents import ID_BYTES, KEY_BYTES, Field, FieldType, Kind
from storewise.engines.contract.queries import Count, Find, Plan
from storewise.engines.sql import sharded_client
from storewise.engines.sql.sharded_client import Session, ShardedClient
from storewise.engines.support.table import Row, Table, quoted
from storewise.errors import EngineError

MYSQL = ("mysql", "mariadb")
#: Another transaction stood in the way: SQLSTATEs, numbers of MySQL's, SQL Server's and Oracle's
#: errors, and SQLite's words.
_UNDONE_STATES = frozenset({"40001", "40P01"})
_UNDONE_NUMBERS = frozenset({1213, 1205, 1020, 8177, 60})
_UNDONE_WORDS = ("database is locked", "ORA-08177", "ORA-00060")
#: Dialects that know LIMIT and ANALYZE; the others have FETCH FIRST, of the SQL standard.
_LIMIT = ("postgresql", "sqlite", *MYSQL)
#: Dialects whose SELECT can lock a row; SQLite locks the whole file.
_FOR_UPDATE = ("postgresql", "oracle", *MYSQL)
#: What stands before a statement in dialects whose plans Storewise knows how to ask for.
_EXPLAIN = {
    "postgresql": "EXPLAIN",
    "mysql": "EXPLAIN FORMAT=JSON",
    "mariadb": "EXPLAIN FORMAT=JSON",
    "sqlite": "EXPLAIN QUERY PLAN",
}
#: SQL of the bytes that a table and its indexes take.
_SIZE = {
    "postgresql": "SELECT pg_total_relation_size(CAST(? AS regclass))",
    **dict.fromkeys(
        MYSQL,
        "SELECT data_length + index_length FROM information_schema.tables "
        "WHERE table_name = ? AND table_schema = database()",
    ),
}
#: Characters of a text in an index of MySQL.
_INDEXED_CHARACTERS = 191


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(sharded_client.Shared):
    """What the clients of one process have in common."""

    engine: sa.Engine
    scrub: Callable[[str], str]
    """Takes secrets out of a text."""
    prefix: str
    """Of the names of tables and indexes."""
    autocommit: bool
    """Single statements are committed by the driver; else each is a transaction at the level's
    isolation."""


class _Cursor:
    """Statements on a connection, in the form of a driver's cursor."""

    def __init__(self, connection: sa.Connection, *, commits: bool) -> None:
        self._connection = connection
        self._commits = commits
        self._rows: Sequence[Any] = ()
        self.rowcount = 0

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> None:
        try:
            result = self._connection.execute(_text(sql), _named(values or ()))
            self._rows = result.fetchall() if result.returns_rows else ()
            self.rowcount = result.rowcount
        except BaseException:
            if self._commits:
                self._connection.rollback()
            raise
        if self._commits:
            self._connection.commit()

    def fetchall(self) -> list[Row]:
        # Some drivers give bytes as a memoryview.
        return [
            tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in self._rows
        ]

    def close(self) -> None:
        self._connection.close()


class SqlClient(ShardedClient):
    """One thread's connections to the database: one for single statements and, of a writer, one
    for transactions."""

    engine_name = "sql"
    mark = "?"
    failures = (SQLAlchemyError, OverflowError, UnicodeError)
    _shared: Shared

    def __init__(self, shared: Shared) -> None:
        dialect = shared.engine.dialect
        self._dialect = dialect.name
        self.types = _types(dialect)
        self.row_lock = " FOR UPDATE" if self._dialect in _FOR_UPDATE else ""
        self.explain_statement = _EXPLAIN.get(self._dialect, "")
        self.note_table = f"{shared.prefix}_schema"
        super().__init__(shared)

    def _open(self, server: Any) -> Session:
        shared = self._shared
        connection = shared.engine.connect()
        alone = connection
        if shared.autocommit:
            if shared.mode == "write":
                alone = shared.engine.connect()
            alone = alone.execution_options(isolation_level="AUTOCOMMIT")
        return Session(connection, _Cursor(alone, commits=True))

    def _close_session(self, store: int) -> None:
        session = self._sessions[store]
        super()._close_session(store)
        session.cursor.close()

    def _lost(self, session: Session, error: Exception) -> bool:
        return isinstance(error, DBAPIError) and error.connection_invalidated

    def _undone(self, error: Exception) -> bool:
        cause = getattr(error, "orig", None)
        if cause is None:
            return False
        if getattr(cause, "sqlstate", None) in _UNDONE_STATES:
            return True
        number = cause.args[0] if cause.args else None
        if isinstance(number, int) and number in _UNDONE_NUMBERS:
            return True
        return any(word in str(cause) for word in _UNDONE_WORDS)

    @contextmanager
    def _transaction(self, session: Session) -> Iterator[None]:
        alone = session.cursor
        with session.connection.begin():
            session.cursor = _Cursor(session.connection, commits=False)
            try:
                yield
            finally:
                session.cursor = alone

    def _error_message(self, error: Exception) -> str:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        return " ".join(self._shared.scrub(str(cause)).split()) or type(cause).__name__

    def _fail(self, store: int, error: Exception) -> NoReturn:
        try:
            super()._fail(store, error)
        except EngineError as scrubbed:
            raise scrubbed from None  # the driver's own text may hold what `scrub` takes out

    def server_version(self) -> str:
        """As the server has said it to the driver; empty where it has not."""
        info = getattr(self._shared.engine.dialect, "server_version_info", None) or ()
        return ".".join(map(str, info))

    # Tables, under names that begin with the prefix.

    def _name(self, table: Table) -> str:
        return f"{self._shared.prefix}_{table.name}"

    def _source(self, table: Table, store: int) -> str:
        return quoted(self._name(table))

    def _has_table(self, name: str) -> bool:
        with self._shared.engine.connect() as connection:
            return sa.inspect(connection).has_table(name)

    def _create_table(self, store: int, name: str, ddl: str) -> None:
        if not self._has_table(name):  # not every database knows IF NOT EXISTS
            self._run(store, ddl.replace(" IF NOT EXISTS", "", 1))

    def _make_index(self, store: int, name: str, table: Table, column: Field) -> None:
        name = f"{self._shared.prefix}_{name}"
        with self._shared.engine.connect() as connection:
            there = sa.inspect(connection).get_indexes(self._name(table))
        if name not in {index["name"] for index in there}:
            prefix = self._dialect in MYSQL and column.type == "str"
            length = f"({_INDEXED_CHARACTERS})" if prefix else ""
            on = f"{self._source(table, store)} ({quoted(column.name)}{length})"
            self._run(store, f"CREATE INDEX {quoted(name)} ON {on}")

    def _has_note(self, store: int) -> bool:
        return self._has_table(self.note_table)

    def _analyze(self, store: int) -> None:
        # Without statistics planners guess until the server finds the time.
        if self._dialect in _LIMIT:
            analyze = "ANALYZE TABLE" if self._dialect in MYSQL else "ANALYZE"
            for table in self._shared.tables.values():
                self._run(store, f"{analyze} {self._source(table, store)}")

    def drop(self) -> None:
        """Remove all tables of this prefix that this workload can have made."""
        kinds = [f"{self._shared.prefix}_{kind.table}" for kind in self._shared.kinds]
        for name in (*kinds, self.note_table):
            if self._has_table(name):
                self._run(0, f"DROP TABLE {quoted(name)}")

    def disk_bytes(self) -> int | None:
        """Bytes of the tables with their indexes; of SQLite, of the whole file."""
        if self._dialect == "sqlite":
            ((pages,),) = self._rows(0, "PRAGMA page_count")
            ((size,),) = self._rows(0, "PRAGMA page_size")
            return int(pages) * int(size)
        if self._dialect not in _SIZE:
            return None
        names = map(self._name, self._shared.tables.values())
        return sum(int(self._rows(0, _SIZE[self._dialect], (name,))[0][0]) for name in names)

    def owner(self, kind: Kind, document_id: bytes) -> None:
        """Storewise does not know how the database spreads its rows."""

    # Writing and reading.

    def _load(self, session: Session, table: Table, documents: list[Row]) -> None:
        source, marks = self._source(table, 0), ", ".join("?" * len(table.columns))
        insert = _text(f"INSERT INTO {source} ({table.select}) VALUES ({marks})")
        key_of = table.key_of_row()
        newest = {key_of(row): row for row in documents}
        rows = [_named(row) for row in newest.values()]
        # Ids are nearly always new, so the cheaper way is tried first; it leaves nothing.
        try:
            with session.connection.begin():
                session.connection.execute(insert, rows)
        except IntegrityError:
            delete = _text(f"DELETE FROM {source} WHERE {table.key_clause()}")
            keys = [_named(key if table.composite else (key,)) for key in newest]
            with session.connection.begin():
                session.connection.execute(delete, keys)
                session.connection.execute(insert, rows)

    def _first_rows(self, limit: int, order: str) -> str:
        if self._dialect in _LIMIT:
            return super()._first_rows(limit, order)
        return f"{order or ' ORDER BY 1'} OFFSET 0 ROWS FETCH NEXT {limit} ROWS ONLY"

    def explain(self, query: Find | Count) -> Plan:
        if self._dialect not in _EXPLAIN:
            known = f"no plan: Storewise does not know how {self._dialect} explains a statement"
            return Plan(known, None)
        return super().explain(query)

    def _uses_index(self, plan: str, query: Find | Count) -> bool:
        names = [f"{query.kind.table}_{condition.field}" for condition in query.where]
        # MySQL names those that it could have taken, too.
        taken = r'"key": "\w+' if self._dialect in MYSQL else ""
        return any(re.search(taken + name, plan) for name in names)


def _types(dialect: Dialect) -> Mapping[FieldType, str]:
    """SQL types of columns. Bytes can be a key, and texts are compared by their bytes."""
    name = dialect.name

    def of_bytes(length: int) -> TypeEngine[Any]:
        if name in ("postgresql", "sqlite"):
            return sa.LargeBinary()
        return oracle.RAW(length) if name == "oracle" else sa.VARBINARY(length)

    text: TypeEngine[Any] = sa.Text(collation="C" if name == "postgresql" else None)
    if name in MYSQL:
        text = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    types: dict[FieldType, TypeEngine[Any]] = {
        "id": of_bytes(ID_BYTES),
        "key": of_bytes(KEY_BYTES),
        "int": sa.BigInteger(),
        "float": sa.Double(),
        "str": text,
    }
    return {field: type_.compile(dialect=dialect) for field, type_ in types.items()}


@lru_cache(maxsize=512)
def _text(sql: str) -> sa.TextClause:
    """A statement whose parameters ``?`` are called p0, p1 and so on."""
    first, *parts = sql.split("?")
    return sa.text(first + "".join(f":p{n}{part}" for n, part in enumerate(parts)))


def _named(values: Sequence[Any]) -> dict[str, Any]:
    return {f"p{n}": value for n, value in enumerate(values)}
