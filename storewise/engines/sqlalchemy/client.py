"""A client of any database that SQLAlchemy knows: statements by its Core, one form for all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find, Histogram, Plan, Query, Scan, Top
from storewise.engines.sqlalchemy.tables import (
    EXPLAIN,
    Explain,
    SqlTables,
    bins_of,
    conditions,
    description,
    keyed,
)
from storewise.engines.support.clients import ProcessState, ThreadClient, retried
from storewise.engines.support.table import Table, describe, described
from storewise.errors import EngineError

#: What drivers raise for values that they cannot bind, besides their own errors.
_FAILURES = (SQLAlchemyError, OverflowError, UnicodeError)
_TRIES = 20
#: Another transaction stood in the way: SQLSTATEs, numbers of MySQL's, SQL Server's and Oracle's
#: errors, and SQLite's words.
_AGAIN_STATES = frozenset({"40001", "40P01"})
_AGAIN_NUMBERS = frozenset({1213, 1205, 1020, 8177, 60})
_AGAIN_WORDS = ("database is locked", "ORA-08177", "ORA-00060")

#: Keys in one statement.
_KEYS = 100

Statement = sa.Select[Any]
_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Table]):
    """What the clients of one process have in common."""

    engine: sa.Engine
    scrub: Callable[[str], str]
    """Takes secrets out of a text."""
    place: str
    """The database in words without secrets."""
    prefix: str
    owner: str | None
    autocommit: bool
    """Reads are statements of their own; else each is a transaction at the level's isolation."""
    known: SqlTables | None = None


class SqlClient(ThreadClient[Shared, Any]):
    """One thread's connections, each opened when it is first needed."""

    engine_name = "sql"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._reader: sa.Connection | None = None
        self._writer: sa.Connection | None = None
        self._gets: dict[Kind, tuple[Statement, Table, Any]] = {}

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
        """Do `work` in a transaction, again where another one stood in its way.

        `refusable`: an IntegrityError is the caller's matter."""

        def once() -> _Result:
            connection = self._open(writes=True)
            with connection.begin():
                return work(connection)

        try:
            return retried(once, _again, _TRIES)
        except _FAILURES as error:
            if refusable and isinstance(error, IntegrityError):
                raise
            self._fail(error)

    def _rows(self, statement: Any, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        if not self._shared.autocommit:
            return self._transaction(lambda c: c.execute(statement, values).fetchall())
        try:
            return self._open(writes=False).execute(statement, values).fetchall()
        except _FAILURES as error:
            self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        # What is broken is opened anew by the next question.
        self._disconnect()
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        words = " ".join(self._shared.scrub(str(cause)).split()) or type(cause).__name__
        # Not `from error`: its text may hold what `scrub` takes out.
        raise EngineError(f"sql: {self._shared.place}: {words}") from None

    def _connect(self) -> None:
        try:
            self._open(writes=False)
            if self._shared.mode == "write":
                self._open(writes=True)
        except _FAILURES as error:
            self._fail(error)

    def _disconnect(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                try:
                    connection.close()
                except _FAILURES:
                    connection.invalidate()
        self._reader = self._writer = None

    def check_connection(self) -> None:
        self._rows(sa.select(sa.literal(1)))

    def server_version(self) -> str:
        """As the server has said it to the driver; empty where it has not."""
        info = getattr(self._shared.engine.dialect, "server_version_info", None) or ()
        return ".".join(map(str, info))

    # Tables.

    def create(self, schema: Schema) -> None:
        self._writing("create")
        shared = self._shared
        created, about = self._named(schema), description(shared.prefix, shared.owner)
        text = describe(schema, "columns")

        def make(connection: sa.Connection) -> None:
            about.create(connection, checkfirst=True)
            created.metadata.create_all(connection)
            rows = connection.execute(sa.select(about.c.content)).fetchall()
            if rows and json.loads(rows[0][0]) != json.loads(text):
                raise EngineError(
                    f"sql: {shared.place} has tables {shared.prefix}_* of another schema: "
                    f"{rows[0][0]}; this one is {text}"
                )
            if not rows:
                connection.execute(sa.insert(about), {"id": 1, "content": text})

        self._transaction(make)
        with shared.lock:
            shared.known = created

    def _named(self, schema: Schema) -> SqlTables:
        shared = self._shared
        return SqlTables(schema, shared.engine.dialect.name, shared.prefix, shared.owner)

    def _known(self) -> SqlTables:
        """The tables; those that another process has made are looked up once."""
        shared = self._shared
        if shared.known is None:
            about = description(shared.prefix, shared.owner)
            rows = self._transaction(
                lambda c: (
                    c.execute(sa.select(about.c.content)).fetchall()
                    if sa.inspect(c).has_table(about.name, schema=shared.owner)
                    else []
                )
            )
            if not rows:
                raise EngineError(
                    f"sql: {shared.place}: the tables {shared.prefix}_* were never created"
                )
            schema, _ = described(str(rows[0][0]), shared.kinds)
            shared.known = self._named(schema)
        return shared.known

    def _table(self, kind: Kind) -> tuple[Table, sa.Table]:
        known = self._known()
        if kind not in known.tables:
            raise EngineError(f"sql: {self._shared.place}: {kind.table} was never created")
        return known.forms[kind], known.tables[kind]

    def finish(self) -> None:
        self._writing("finish")
        known = self._known()
        dialect = self._shared.engine.dialect

        def end(connection: sa.Connection) -> None:
            if known.schema.index_time == "after":
                there = sa.inspect(connection)
                for index in known.indexes:
                    assert index.table is not None
                    names = there.get_indexes(index.table.name, schema=self._shared.owner)
                    if index.name not in {index_there["name"] for index_there in names}:
                        connection.execute(CreateIndex(index))
            words = {"postgresql": "ANALYZE", "sqlite": "ANALYZE"}.get(dialect.name)
            if dialect.name in ("mysql", "mariadb"):
                words = "ANALYZE TABLE"
            if words is not None:
                # Without statistics planners guess until the server finds the time.
                for table in known.tables.values():
                    name = dialect.identifier_preparer.format_table(table)
                    connection.exec_driver_sql(f"{words} {name}").close()

        self._transaction(end)

    def drop(self) -> None:
        """Remove all tables of this prefix that this workload can have made."""
        shared = self._shared
        tables = self._named(Schema(kinds=shared.kinds))
        about = description(shared.prefix, shared.owner)

        def remove(connection: sa.Connection) -> None:
            tables.metadata.drop_all(connection)
            about.drop(connection, checkfirst=True)

        self._transaction(remove)

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        self._writing("insert")
        form, table = self._table(kind)
        key = form.key_of_row()
        # Of equal ids the last one counts; in the order of ids two clients that write the same
        # rows cannot each hold what the other one waits for.
        unique = {key(row): row for row in form.rows(documents)}
        names = form.names
        rows = [dict(zip(names, unique[k], strict=True)) for k in sorted(unique)]
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

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        form, table = self._table(kind)
        form.check_changes(changes)
        where = keyed(form, table, document_id)

        def change(connection: sa.Connection) -> bool:
            values = dict(changes)
            if form.has_params:
                # Fields may lie in the column of open fields: the row is read first and locked.
                chosen = sa.select(table).where(*where).with_for_update()
                row = connection.execute(chosen).fetchone()
                if row is None:
                    return False
                (new,) = form.rows([{**form.document(tuple(row)), **changes}])
                values = dict(zip(form.names, new, strict=True))
            return connection.execute(sa.update(table).where(*where).values(values)).rowcount > 0

        return self._transaction(change)

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        form, table = self._table(kind)
        where = keyed(form, table, document_id)
        statement = sa.delete(table).where(*where)
        return self._transaction(lambda c: c.execute(statement).rowcount) > 0

    def disk_bytes(self) -> int | None:
        """Bytes of the tables with their indexes; of SQLite, of the whole file."""
        names = [table.name for table in self._known().tables.values()]
        dialect = self._shared.engine.dialect.name
        if dialect == "sqlite":
            pages = self._rows(sa.text("PRAGMA page_count"))[0][0]
            return int(pages) * int(self._rows(sa.text("PRAGMA page_size"))[0][0])
        if dialect == "postgresql":
            sql = (
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname IN :names "
                "AND n.nspname = coalesce(:owner, current_schema())"
            )
        elif dialect in ("mysql", "mariadb"):
            sql = (
                "SELECT coalesce(sum(data_length + index_length), 0) FROM "
                "information_schema.tables WHERE table_name IN :names "
                "AND table_schema = coalesce(:owner, database())"
            )
        else:
            return None
        statement = sa.text(sql).bindparams(sa.bindparam("names", expanding=True))
        rows = self._rows(statement, {"names": names, "owner": self._shared.owner})
        return int(rows[0][0])

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        if kind not in self._gets:
            form, table = self._table(kind)
            marks = [table.c[name] == sa.bindparam(f"k_{name}") for name in form.key]
            self._gets[kind] = (sa.select(table).where(*marks), form, form.decoder())
        statement, form, decode = self._gets[kind]
        values = form.key_values(document_id)
        named = {f"k_{name}": value for name, value in zip(form.key, values, strict=True)}
        rows = self._rows(statement, named)
        return decode(tuple(rows[0])) if rows else None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        form, table = self._table(kind)
        documents: dict[bytes, Document] = {}
        ids = list(dict.fromkeys(document_ids))
        for at in range(0, len(ids), _KEYS):
            wheres = [sa.and_(*keyed(form, table, i)) for i in ids[at : at + _KEYS]]
            statement = sa.select(table).where(sa.or_(*wheres))
            documents |= {d["_id"]: d for d in self._documents(kind, statement)}
        return [documents.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        return self._documents(query.kind, self._statement(query))

    def find(self, query: Find) -> list[Document]:
        return self._documents(query.kind, self._statement(query))

    def count(self, query: Count) -> int:
        return int(self._rows(self._statement(query))[0][0])

    def top(self, query: Top) -> list[tuple[Any, int]]:
        return [(value, int(number)) for value, number in self._rows(self._statement(query))]

    def histogram(self, query: Histogram) -> dict[int, int]:
        rows = self._rows(self._statement(query))
        return {int(number): int(documents) for number, documents in rows}

    def explain(self, query: Find | Count) -> Plan:
        dialect = self._shared.engine.dialect.name
        if dialect not in EXPLAIN:
            words = f"no plan: Storewise does not know how {dialect} explains a statement"
            return Plan(words, None)
        rows = self._rows(Explain(self._statement(query)))
        text = "\n".join(str(row[-1]) for row in rows)
        names = [f"{query.kind.table}_{condition.field}" for condition in query.where]
        # MySQL names those that it could have taken, too.
        taken = r'"key": "\w+' if dialect in ("mysql", "mariadb") else ""
        return Plan(text, any(re.search(taken + name, text) for name in names))

    def _documents(self, kind: Kind, statement: Statement) -> list[Document]:
        decode = self._table(kind)[0].decoder()
        return [decode(tuple(row)) for row in self._rows(statement)]

    def _statement(self, query: Query) -> Statement:
        """The statement that answers a query."""
        form, table = self._table(query.kind)
        match query:
            case Scan():
                order = [table.c[name] for name in form.key]
                where = conditions(form, table, query.where)
                return sa.select(table).where(*where).order_by(*order).limit(query.limit)
            case Top():
                column = table.c[form.column(query.field).name]
                number = sa.func.count().label("n")
                chosen = sa.select(column, number).where(column.is_not(None)).group_by(column)
                return chosen.order_by(number.desc(), column).limit(query.limit)
        where = conditions(form, table, query.where)
        match query:
            case Find():
                statement = _ordered(form, table, query, sa.select(table).where(*where))
                return statement if query.limit is None else statement.limit(query.limit)
            case Count():
                return sa.select(sa.func.count()).select_from(table).where(*where)
            case Histogram():
                bins = bins_of(table.c[form.column(query.field).name], query.width, where)
                return sa.select(bins.c.n, sa.func.count()).group_by(bins.c.n)


def _ordered(form: Table, table: sa.Table, query: Find, statement: Statement) -> Statement:
    """A statement in the order of a query, nulls left out and ties by id."""
    if query.order_by is None:
        return statement
    keys = [table.c[name] for name in form.key]
    by = keys if query.order_by == "_id" else [table.c[form.column(query.order_by).name]]
    return statement.order_by(
        *(column.desc() if query.descending else column.asc() for column in by),
        *(() if query.order_by == "_id" else keys),
    ).where(*(column.is_not(None) for column in by))


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
