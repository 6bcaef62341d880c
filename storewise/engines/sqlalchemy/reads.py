"""The reading verbs as statements of SQLAlchemy's Core."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from storewise.documents import Document, Kind
from storewise.engines.contract.queries import Count, Find, Get, Histogram, Query, Scan, Top
from storewise.engines.sql.histogram import added_classes, checked_classes
from storewise.engines.sqlalchemy.tables import (
    Explain,
    class_of,
    compared,
    conditions,
    explains,
    keyed,
    plan_text,
)
from storewise.engines.support.table import Table
from storewise.engines.support.thread_client import State, ThreadClient
from storewise.errors import EngineError

#: Keys in one statement.
_KEYS = 100

Statement = sa.Select[Any]


class CoreReads(ThreadClient[State]):
    """What a client asks; a subclass says how a statement reaches the database."""

    def __init__(self, shared: State) -> None:
        super().__init__(shared)
        self._gets: dict[Kind, tuple[Statement, Table, Any]] = {}

    @abstractmethod
    def _rows(self, statement: Any, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """All rows of a statement; EngineError for a failure of the database."""

    @abstractmethod
    def _table(self, kind: Kind) -> tuple[Table, sa.Table]:
        """The form of a kind's documents, and its table; EngineError where it was not created."""

    @abstractmethod
    def _dialect(self) -> str:
        """SQLAlchemy's name of the database."""

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        if kind not in self._gets:
            form, table = self._table(kind)
            marks = [table.c[name] == sa.bindparam(f"k_{name}") for name in form.key]
            self._gets[kind] = (sa.select(table).where(*marks), form, form.decoder())
        statement, form, decode = self._gets[kind]
        values = form.key_values(document_id)
        if values is None:
            return None
        named = {f"k_{name}": value for name, value in zip(form.key, values, strict=True)}
        rows = self._rows(statement, named)
        return decode(tuple(rows[0])) if rows else None

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        form, table = self._table(kind)
        found: dict[bytes, Document] = {}
        ids = list(dict.fromkeys(document_ids))
        for at in range(0, len(ids), _KEYS):
            wheres = [w for i in ids[at : at + _KEYS] if (w := keyed(form, table, i)) is not None]
            if wheres:
                statement = sa.select(table).where(sa.or_(*(sa.and_(*w) for w in wheres)))
                found |= {d["_id"]: d for d in self._documents(kind, statement)}
        return [found.get(document_id) for document_id in document_ids]

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
        return added_classes(self._table(query.kind)[0], query, map(tuple, rows))

    def explain(self, query: Query) -> str:
        dialect = self._dialect()
        if not explains(dialect):
            return f"no plan: Storewise does not know how {dialect} explains a statement"
        return plan_text(self._rows(Explain(self._statement(query))))

    def _documents(self, kind: Kind, statement: Statement) -> list[Document]:
        decode = self._table(kind)[0].decoder()
        return [decode(tuple(row)) for row in self._rows(statement)]

    def _statement(self, query: Query) -> Statement:
        """The statement that answers a query."""
        form, table = self._table(query.kind)
        match query:
            case Get():
                where = keyed(form, table, query.document_id)
                if where is None:
                    raise EngineError(
                        f"{form.name}: no document can have the id {query.document_id!r}"
                    )
                return sa.select(table).where(*where)
            case Scan():
                order = [table.c[name] for name in form.key]
                start = compared(form, table, ">=", query.start)
                return sa.select(table).where(start).order_by(*order).limit(query.limit)
            case Top():
                column = table.c[form.column(query.field).name]
                number = sa.func.count().label("n")
                chosen = sa.select(column, number).where(column.is_not(None)).group_by(column)
                return chosen.order_by(number.desc(), column).limit(query.limit)
        where = conditions(form, table, query.where, self._dialect())
        match query:
            case Find():
                statement = _ordered(form, table, query, sa.select(table).where(*where))
                return statement if query.limit is None else statement.limit(query.limit)
            case Count():
                return sa.select(sa.func.count()).select_from(table).where(*where)
            case Histogram():
                classes = class_of(checked_classes(form, query), table, query.width, where)
                return sa.select(classes.c.c, sa.func.count()).group_by(classes.c.c)


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
