"""Tables as SQLAlchemy makes them in any of its dialects.

https://docs.sqlalchemy.org/en/20/core/; columns and rows are those of `support.table.Table`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, oracle
from sqlalchemy.types import TypeEngine

from storewise.documents import ID_BYTES, KEY_BYTES, Field, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.support.table import Table, make_tables

MYSQL = ("mysql", "mariadb")
#: Characters of an indexed text where a database cannot index long ones.
_INDEXED_CHARACTERS = 255
#: The same in an index of MySQL, which takes the first ones of a long text.
_PREFIX = 191
#: Dialects whose long texts can be neither indexed nor compared.
_SHORT = ("oracle", "mssql", "ibm_db_sa", "db2")


def _bytes(length: int, dialect: str) -> TypeEngine[Any]:
    """Up to `length` bytes, which can be a key and are compared byte by byte."""
    if dialect in ("postgresql", "sqlite"):
        return sa.LargeBinary()
    return oracle.RAW(length) if dialect == "oracle" else sa.VARBINARY(length)


def _type_of(column: Field, indexed: bool, dialect: str) -> TypeEngine[Any]:
    if column.type in ("id", "key"):
        return _bytes(ID_BYTES if column.type == "id" else KEY_BYTES, dialect)
    if column.type == "int":
        return sa.BigInteger()
    if column.type == "float":
        return sa.Double()
    if dialect in MYSQL:
        return mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
    if dialect == "postgresql":
        # Texts are compared by their bytes, as in the other stores.
        return sa.Text(collation="C")
    if indexed and dialect in _SHORT:
        return sa.String(_INDEXED_CHARACTERS)
    return sa.Text()


class SqlTables:
    """The tables of a schema, in a database and under a name."""

    def __init__(self, schema: Schema, dialect: str, prefix: str) -> None:
        self.metadata = sa.MetaData()
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
                    # Always: as in the statements that Storewise writes itself.
                    quote=True,
                )
                for column in form.columns
            ]
            key = sa.PrimaryKeyConstraint(*form.key)
            name = f"{prefix}_{kind.table}"
            self.tables[kind] = sa.Table(name, self.metadata, *columns, key, quote=True)
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


def description(prefix: str) -> sa.Table:
    """The table that says what the others are: one row of JSON."""
    return sa.Table(
        f"{prefix}_schema",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text),
    )
