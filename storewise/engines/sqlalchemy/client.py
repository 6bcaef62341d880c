"""A client of any database that SQLAlchemy knows.

Tables are made and filled by SQLAlchemy's Core; queries are the SQL of `sql.reads`, as `text()`,
so that SQLAlchemy gives each driver the parameters in its own form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from storewise.documents import Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find, Plan
from storewise.engines.sql.reads import SqlReads, SqlState
from storewise.engines.sqlalchemy.tables import MYSQL, SqlTables, description
from storewise.engines.support.clients import retried
from storewise.engines.support.table import Row, Table
from storewise.errors import EngineError

#: What drivers raise for values that they cannot bind, besides their own errors.
_FAILURES = (SQLAlchemyError, OverflowError, UnicodeError)
_TRIES = 20
#: Another transaction stood in the way: SQLSTATEs, numbers of MySQL's, SQL Server's and Oracle's
#: errors, and SQLite's words.
_AGAIN_STATES = frozenset({"40001", "40P01"})
_AGAIN_NUMBERS = frozenset({1213, 1205, 1020, 8177, 60})
_AGAIN_WORDS = ("database is locked", "ORA-08177", "ORA-00060")
#: Dialects that know LIMIT; the others have FETCH FIRST, of the SQL standard.
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
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(SqlState):
    """What the clients of one process have in common."""

    engine: sa.Engine
    scrub: Callable[[str], str]
    """Takes secrets out of a text."""
    prefix: str
    autocommit: bool
    """Reads are statements of their own; else each is a transaction at the level's isolation."""
    known: SqlTables | None = None


class SqlClient(SqlReads[Shared]):
    """One thread's connections, each opened when it is first needed."""

    engine_name = "sql"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._dialect = shared.engine.dialect.name
        self.explain_statement = _EXPLAIN.get(self._dialect, "")
        self.row_lock = " FOR UPDATE" if self._dialect in _FOR_UPDATE else ""
        self._reader: sa.Connection | None = None
        self._writer: sa.Connection | None = None

    # Connections.

    def _open(self, writes: bool) -> sa.Connection:
        self._check_open()
        if self._shared.autocommit and not writes:
            if self._reader is None:
                connection = self._shared.engine.connect()
                self._reader = connection.execution_options(isolation_level="AUTOCOMMIT")
            return self._reader
        if self._writer is None:
            self._writer = self._shared.engine.connect()
        return self._writer

    def _transaction(
        self, work: Callable[[sa.Connection], _Result], *, refusable: bool = False
    ) -> _Result:
        """Do `work` in a transaction, again where another one stood in its way; within one that
        has begun, as a part of it.

        `refusable`: an IntegrityError is the caller's matter."""
        if self._writer is not None and self._writer.in_transaction():
            return work(self._writer)

        def once() -> _Result:
            connection = self._open(writes=True)
            with connection.begin():
                return work(connection)

        try:
            return retried(once, _again, _TRIES)
        except _FAILURES as error:
            if refusable and isinstance(error, IntegrityError):
                raise
            self._fail(0, error)

    def _exclusive(self, store: int) -> AbstractContextManager[Any]:
        return nullcontext()  # `_update_open_fields` has begun a transaction

    def _rows(self, store: int, sql: str, values: Sequence[Any] = ()) -> Sequence[Row]:
        statement, named = _text(sql), _named(values)
        if self._writes_now() or not self._shared.autocommit:
            rows = self._transaction(lambda c: c.execute(statement, named).fetchall())
        else:
            try:
                rows = self._open(writes=False).execute(statement, named).fetchall()
            except _FAILURES as error:
                self._fail(0, error)
        # Some drivers give bytes as a memoryview.
        return [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows]

    def _writes_now(self) -> bool:
        return self._writer is not None and self._writer.in_transaction()

    def _change(self, store: int, sql: str, values: Sequence[Any]) -> int:
        return self._transaction(lambda c: c.execute(_text(sql), _named(values)).rowcount)

    def _fail(self, store: int, error: Exception) -> NoReturn:
        # What is broken is opened anew by the next question.
        self._disconnect()
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        message = " ".join(self._shared.scrub(str(cause)).split()) or type(cause).__name__
        # Not `from error`: its text may hold what `scrub` takes out.
        raise EngineError(f"sql: {self._stores[store]}: {message}") from None

    def _connect(self) -> None:
        try:
            self._open(writes=False)
            if self._shared.mode == "write":
                self._open(writes=True)
        except _FAILURES as error:
            self._fail(0, error)

    def _disconnect(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                try:
                    connection.close()
                except _FAILURES:
                    connection.invalidate()
        self._reader = self._writer = None

    def server_version(self) -> str:
        """As the server has said it to the driver; empty where it has not."""
        info = getattr(self._shared.engine.dialect, "server_version_info", None) or ()
        return ".".join(map(str, info))

    # Tables.

    def check_connection(self) -> None:
        """Read the tables that `create` has made; none before that."""
        self._learn()

    def _read_note(self) -> str | None:
        shared = self._shared
        about = description(shared.prefix)

        def look(connection: sa.Connection) -> Sequence[Any]:
            if not sa.inspect(connection).has_table(about.name):
                return []
            return connection.execute(sa.select(about.c.content)).fetchall()

        rows = self._transaction(look)
        return str(rows[0][0]) if rows else None

    def _make_tables(self, schema: Schema) -> dict[Kind, Table]:
        shared = self._shared
        shared.known = SqlTables(schema, self._dialect, shared.prefix)
        return shared.known.forms

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        note = self._new_note(schema)
        self._use_schema(schema)
        tables, about = self._sql_tables(), description(shared.prefix)

        def make(connection: sa.Connection) -> None:
            about.create(connection, checkfirst=True)
            tables.metadata.create_all(connection)
            connection.execute(sa.delete(about))
            connection.execute(sa.insert(about), {"id": 1, "content": note})

        self._transaction(make)

    def _sql_tables(self) -> SqlTables:
        assert self._shared.known is not None  # a schema is known
        return self._shared.known

    def _source(self, table: Table, store: int) -> str:
        format_table = self._shared.engine.dialect.identifier_preparer.format_table
        return format_table(self._sql_tables().tables[table.kind])

    def _make_indexes(self, schema: Schema) -> None:
        def make(connection: sa.Connection) -> None:
            for index in self._sql_tables().indexes:
                index.create(connection, checkfirst=True)

        self._transaction(make)

    def finish(self) -> None:
        super().finish()
        if self._dialect in _LIMIT:
            # Without statistics planners guess until the server finds the time.
            analyze = "ANALYZE TABLE" if self._dialect in MYSQL else "ANALYZE"
            for table in self._shared.tables.values():
                self._change(0, f"{analyze} {self._source(table, 0)}", ())

    def drop(self) -> None:
        """Remove all tables of this prefix that this workload can have made."""
        shared = self._shared
        tables = SqlTables(Schema(shared.kinds), self._dialect, shared.prefix)
        about = description(shared.prefix)

        def remove(connection: sa.Connection) -> None:
            tables.metadata.drop_all(connection)
            about.drop(connection, checkfirst=True)

        self._transaction(remove)

    def disk_bytes(self) -> int | None:
        """Bytes of the tables with their indexes; of SQLite, of the whole file."""
        if self._dialect == "sqlite":
            ((pages,),) = self._rows(0, "PRAGMA page_count")
            ((size,),) = self._rows(0, "PRAGMA page_size")
            return int(pages) * int(size)
        if self._dialect not in _SIZE:
            return None
        names = [table.name for table in self._sql_tables().tables.values()]
        return sum(int(self._rows(0, _SIZE[self._dialect], (name,))[0][0]) for name in names)

    # Writing and reading.

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        form = self._table(kind)
        table, key = self._sql_tables().tables[kind], form.key_of_row()
        # Of equal ids the last one counts; in the order of ids two clients that write the same
        # rows cannot each hold what the other one waits for.
        unique = {key(row): row for row in form.rows(documents)}
        rows = [dict(zip(form.names, unique[k], strict=True)) for k in sorted(unique)]
        if not rows:
            return

        def add(connection: sa.Connection) -> None:
            connection.execute(sa.insert(table), rows)

        def replace(connection: sa.Connection) -> None:
            marks = [table.c[name] == sa.bindparam(f"k_{name}") for name in form.key]
            keys = [{f"k_{name}": row[name] for name in form.key} for row in rows]
            connection.execute(sa.delete(table).where(*marks), keys)
            connection.execute(sa.insert(table), rows)

        # Ids are nearly always new, so the cheaper way is tried first; it leaves nothing.
        try:
            self._transaction(add, refusable=True)
        except IntegrityError:
            self._transaction(replace)

    def _update_open_fields(
        self, table: Table, document_id: bytes, changes: Mapping[str, Any]
    ) -> bool:
        change = partial(super()._update_open_fields, table, document_id, changes)
        return self._transaction(lambda connection: change())

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


@lru_cache(maxsize=512)
def _text(sql: str) -> sa.TextClause:
    """A statement whose parameters ``?`` are called p0, p1 and so on."""
    first, *parts = sql.split("?")
    return sa.text(first + "".join(f":p{n}{part}" for n, part in enumerate(parts)))


def _named(values: Sequence[Any]) -> dict[str, Any]:
    return {f"p{n}": value for n, value in enumerate(values)}


def _again(error: Exception) -> bool:
    """Whether the database has undone a transaction for the sake of another one."""
    cause = getattr(error, "orig", None)
    if cause is None:
        return False
    if getattr(cause, "sqlstate", None) in _AGAIN_STATES:
        return True
    number = cause.args[0] if cause.args else None
    if isinstance(number, int) and number in _AGAIN_NUMBERS:
        return True
    return any(word in str(cause) for word in _AGAIN_WORDS)
