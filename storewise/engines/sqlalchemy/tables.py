"""Tables, conditions and plans as SQLAlchemy says them, for any of its dialects.

https://docs.sqlalchemy.org/en/20/core/; columns and rows are those of
`support.table.Table`.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import float_info
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, oracle
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from storewise.documents import ID_BYTES, KEY_BYTES, Field, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import OPERATORS, Where
from storewise.engines.support.table import Table, make_tables

#: Characters of an indexed text where a database cannot index long ones.
INDEXED_CHARACTERS = 255
#: The same in an index of MySQL, which takes the first ones of a long text.
_PREFIX = 191
_MYSQL = ("mysql", "mariadb")
#: Dialects whose long texts can be neither indexed nor compared.
_SHORT = ("oracle", "mssql", "ibm_db_sa", "db2")

Element = sa.ColumnElement[bool]


class Bytes(TypeDecorator[bytes]):
    """Up to `length` bytes, which can be a key and are compared byte by byte.

    Databases without such a type get hexadecimal digits, which sort as the bytes do.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def __init__(self, length: int, fixed: bool) -> None:
        super().__init__(length)
        self.length, self.fixed = length, fixed

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in _MYSQL:
            kind = mysql.BINARY if self.fixed else mysql.VARBINARY
            return dialect.type_descriptor(kind(self.length))
        if dialect.name == "oracle":
            return dialect.type_descriptor(oracle.RAW(self.length))
        if dialect.name == "mssql":
            return dialect.type_descriptor(sa.VARBINARY(self.length))
        if dialect.name in ("postgresql", "sqlite"):
            return dialect.type_descriptor(sa.LargeBinary())
        return dialect.type_descriptor(sa.String(2 * self.length))

    def _as_text(self, dialect: Dialect) -> bool:
        return dialect.name not in (*_MYSQL, "oracle", "mssql", "postgresql", "sqlite")

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> Any:
        return value.hex() if value is not None and self._as_text(dialect) else value

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        if value is None:
            return None
        return bytes.fromhex(value) if isinstance(value, str) else bytes(value)


def _type_of(column: Field, indexed: bool, dialect: str) -> TypeEngine[Any]:
    if column.type == "id":
        return Bytes(ID_BYTES, fixed=True)
    if column.type == "key":
        return Bytes(KEY_BYTES, fixed=False)
    if column.type == "int":
        return sa.BigInteger()
    if column.type == "float":
        return sa.Double()
    if dialect in _MYSQL:
        return mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    if dialect == "postgresql":
        # Texts are compared by their bytes, as in the other stores.
        return sa.Text(collation="C")
    if indexed and dialect in _SHORT:
        return sa.String(INDEXED_CHARACTERS)
    return sa.Text()


class SqlTables:
    """The tables of a schema, in a database and under a name."""

    def __init__(self, schema: Schema, dialect: str, prefix: str, owner: str | None) -> None:
        self.schema = schema
        self.metadata = sa.MetaData(schema=owner)
        self.forms: dict[Kind, Table] = make_tables(schema, composite=True)
        self.tables: dict[Kind, sa.Table] = {}
        indexed = set(schema.indexes)
        for kind, form in self.forms.items():
            columns = [
                sa.Column(
                    column.name,
                    _type_of(column, (kind, column.name) in indexed, dialect),
                    primary_key=column.name in form.key,
                    autoincrement=False,
                    nullable=column.name not in form.key,
                )
                for column in form.columns
            ]
            key = sa.PrimaryKeyConstraint(*form.key)
            self.tables[kind] = sa.Table(f"{prefix}_{kind.table}", self.metadata, *columns, key)
        self.indexes = []
        for kind, name in schema.indexes:
            length = {name: _PREFIX} if self.forms[kind].column(name).type == "str" else None
            self.indexes.append(
                sa.Index(
                    f"{prefix}_{kind.table}_{name}",
                    self.tables[kind].c[name],
                    mysql_length=length,
                    mariadb_length=length,
                )
            )
        if schema.index_time != "before":
            for index in self.indexes:
                assert index.table is not None
                index.table.indexes.discard(index)


def description(prefix: str, owner: str | None) -> sa.Table:
    """The table that says what the others are: one row of JSON."""
    return sa.Table(
        f"{prefix}_schema",
        sa.MetaData(schema=owner),
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text),
    )


def keyed(form: Table, table: sa.Table, document_id: bytes) -> list[Element]:
    """The condition of one row."""
    values = form.key_values(document_id)
    return [table.c[name] == value for name, value in zip(form.key, values, strict=True)]


def conditions(form: Table, table: sa.Table, where: Sequence[Where]) -> list[Element]:
    """Conditions on fields; EngineError for fields that the table lacks."""
    return [_condition(form, table, one) for one in where]


def _condition(form: Table, table: sa.Table, where: Where) -> Element:
    compare = OPERATORS[where.op]
    if form.composite is None or where.field != "_id":
        comparison: Element = compare(table.c[form.column(where.field).name], where.value)
        return comparison
    assert isinstance(where.value, bytes)
    numbers = form.composite.checked(where.value)
    columns = [table.c[name] for name in form.key]
    if where.op == "=":
        return sa.and_(*(c == n for c, n in zip(columns, numbers, strict=True)))
    strict = OPERATORS[where.op[0]]
    clause: Element = compare(columns[-1], numbers[-1])
    for column, number in zip(columns[-2::-1], numbers[-2::-1], strict=True):
        clause = sa.or_(strict(column, number), sa.and_(column == number, clause))
    return clause


def bins_of(x: sa.ColumnElement[Any], width: float, where: list[Element]) -> Any:
    """Subquery of ``n``: the bin of each value of a column, as `Histogram` defines it."""
    quotient = sa.cast(x, sa.Double) / sa.cast(sa.literal(float(width), sa.Double), sa.Double)
    finite = sa.func.abs(x) <= float_info.max
    return sa.select(sa.func.floor(quotient).label("n")).where(finite, *where).subquery()


class Explain(Executable, ClauseElement):
    """A statement's plan, in the words of the dialect."""

    inherit_cache = False

    def __init__(self, statement: sa.Select[Any]) -> None:
        self.statement = statement


#: What stands before a statement in dialects whose plans Storewise knows how to ask for.
EXPLAIN = {
    "postgresql": "EXPLAIN ",
    "mysql": "EXPLAIN FORMAT=JSON ",
    "mariadb": "EXPLAIN FORMAT=JSON ",
    "sqlite": "EXPLAIN QUERY PLAN ",
}


@compiles(Explain)
def _compile_explain(element: Explain, compiler: Any, **named: Any) -> str:
    return EXPLAIN[compiler.dialect.name] + str(compiler.process(element.statement, **named))
