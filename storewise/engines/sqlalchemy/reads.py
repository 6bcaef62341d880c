"""The reading verbs as statements of SQLAlchemy's Core."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Verb, Where
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
from storewise.engines.support.checks import check_limit
from storewise.engines.support.table import Table
from storewise.errors import EngineError

#: Keys in one statement.
_KEYS = 100

Statement = sa.Select[Any]


class CoreReads(Client):
    """What a client asks; a subclass says how a statement reaches the database."""

    def __init__(self) -> None:
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

    def scan(self, kind: Kind, start: bytes, limit: int) -> list[Document]:
        return self._documents(kind, self._scan(kind, start, limit))

    def range(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        return self._documents(kind, self._range(kind, field_name, low, high, limit))

    def find(
        self,
        kind: Kind,
        where: Sequence[Where] = (),
        order_by: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> list[Document]:
        return self._documents(kind, self._find(kind, where, order_by, descending, limit))

    def count_where(self, kind: Kind, where: Sequence[Where]) -> int:
        return int(self._rows(self._count_where(kind, where))[0][0])

    def count(self, kind: Kind) -> int:
        return self.count_where(kind, ())

    def aggregate(self, kind: Kind, field_name: str, limit: int) -> list[tuple[Any, int]]:
        rows = self._rows(self._aggregate(kind, field_name, limit))
        return [(value, int(number)) for value, number in rows]

    def histogram(
        self, kind: Kind, field_name: str, width: float, where: Sequence[Where] = ()
    ) -> dict[int, int]:
        rows = self._rows(self._histogram(kind, field_name, width, where))
        return added_classes(self._table(kind)[0], field_name, width, map(tuple, rows))

    def explain(self, verb: Verb, kind: Kind, *arguments: Any, **named: Any) -> str:
        dialect = self._dialect()
        if not explains(dialect):
            return f"no plan: Storewise does not know how {dialect} explains a statement"
        return plan_text(self._rows(Explain(self._statement(verb)(kind, *arguments, **named))))

    def _documents(self, kind: Kind, statement: Statement) -> list[Document]:
        decode = self._table(kind)[0].decoder()
        return [decode(tuple(row)) for row in self._rows(statement)]

    # Statements.

    def _statement(self, verb: Verb) -> Callable[..., Statement]:
        known: dict[str, Callable[..., Statement]] = {
            "get": self._get,
            "scan": self._scan,
            "range": self._range,
            "find": self._find,
            "count_where": self._count_where,
            "aggregate": self._aggregate,
            "histogram": self._histogram,
        }
        if verb not in known:
            raise EngineError(f"sql: {verb!r} is no verb that reads; known: {', '.join(known)}")
        return known[verb]

    def _get(self, kind: Kind, document_id: bytes) -> Statement:
        form, table = self._table(kind)
        where = keyed(form, table, document_id)
        if where is None:
            raise EngineError(f"{kind.table}: no document can have the id {document_id!r}")
        return sa.select(table).where(*where)

    def _scan(self, kind: Kind, start: bytes, limit: int) -> Statement:
        check_limit(limit)
        form, table = self._table(kind)
        order = [table.c[name] for name in form.key]
        where = compared(form, table, ">=", start)
        return sa.select(table).where(where).order_by(*order).limit(limit)

    def _range(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> Statement:
        form, table = self._table(kind)
        column = form.column(field_name)
        ends = [Where(field_name, ">=", low)] if low is not None else []
        ends += [Where(field_name, "<=", high)] if high is not None else []
        given = table.c[column.name].is_not(None)
        return self._find(kind, ends, None, False, limit).where(given)

    def _find(
        self,
        kind: Kind,
        where: Sequence[Where] = (),
        order_by: str | None = None,
        descending: bool = False,
        limit: int | None = None,
    ) -> Statement:
        check_limit(limit)
        form, table = self._table(kind)
        statement = sa.select(table).where(*conditions(form, table, where, self._dialect()))
        if order_by is not None:
            keys = [table.c[name] for name in form.key]
            by = keys if order_by == "_id" else [table.c[form.column(order_by).name]]
            statement = statement.order_by(
                *(column.desc() if descending else column.asc() for column in by),
                *(() if order_by == "_id" else keys),
            ).where(*(column.is_not(None) for column in by))
        return statement if limit is None else statement.limit(limit)

    def _count_where(self, kind: Kind, where: Sequence[Where]) -> Statement:
        form, table = self._table(kind)
        chosen = conditions(form, table, where, self._dialect())
        return sa.select(sa.func.count()).select_from(table).where(*chosen)

    def _aggregate(self, kind: Kind, field_name: str, limit: int) -> Statement:
        check_limit(limit)
        form, table = self._table(kind)
        column = table.c[form.column(field_name).name]
        number = sa.func.count().label("n")
        chosen = sa.select(column, number).where(column.is_not(None)).group_by(column)
        return chosen.order_by(number.desc(), column).limit(limit)

    def _histogram(
        self, kind: Kind, field_name: str, width: float, where: Sequence[Where] = ()
    ) -> Statement:
        form, table = self._table(kind)
        column = checked_classes(form, field_name, width)
        chosen = conditions(form, table, where, self._dialect())
        classes = class_of(column, table, width, chosen)
        return sa.select(classes.c.c, sa.func.count()).group_by(classes.c.c)
