"""Prepared statements of PostgreSQL by libpq's own call, for what is done again and again.

A psycopg cursor drives each query through a generator that waits for the socket by itself, which
takes two thirds of a short query's time. ``PQexecPrepared`` sends and waits within libpq, without
the interpreter's lock: less than half the processor time and half the wall time of a read by key.
See https://www.psycopg.org/psycopg3/docs/api/pq.html.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, cast

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from storewise.engines.support.table import Row

#: Statements that a connection keeps, at most; others go the ordinary way.
MOST = 100
_MARK = re.compile(r"%(.?)", re.DOTALL)
#: A name is used once: a statement of that name may still be there.
_NUMBERS = itertools.count()
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


def numbered(sql: str) -> str | None:
    """A statement with ``%s`` and ``%%`` as the server knows it; None where it has other marks."""
    number = 0

    def replace(mark: re.Match[str]) -> str:
        nonlocal number
        if mark[1] == "%":
            return "%"
        number += 1
        return f"${number}"

    if any(mark[1] not in ("s", "%") for mark in _MARK.finditer(sql)):
        return None
    return _MARK.sub(replace, sql)


class Prepared:
    """Statements of one connection, prepared at their first use; used by one thread at a time.

    `rows` and `change` give None where the ordinary way has to be taken: within a transaction,
    whose failure is not this class's to judge, and beyond MOST statements.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._server = connection.pgconn
        self._adapt = Transformer(connection)
        self._names: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self._readers: dict[bytes, Any] = {}
        """Of each statement what makes values of its columns, looked up once."""
        self._formats: dict[int, list[PyFormat]] = {}

    def rows(self, sql: str, values: Sequence[Any]) -> list[Row] | None:
        """The rows of a query; psycopg.Error where the server refuses it."""
        done = self._run(sql, values)
        if done is None:
            return None
        name, result = done
        # The server refuses a prepared statement whose columns have changed.
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = Transformer(self._connection)
            reader.set_pgresult(result)
        else:
            reader.set_pgresult(result, set_loaders=False)
        return reader.load_rows(0, result.ntuples, tuple)

    def change(self, sql: str, values: Sequence[Any]) -> int | None:
        """The number of rows that a statement changed; psycopg.Error as above."""
        done = self._run(sql, values)
        return None if done is None else done[1].command_tuples or 0

    def _run(self, sql: str, values: Sequence[Any]) -> tuple[bytes, PGresult] | None:
        """The statement's name, and what the server answers."""
        server, adapt = self._server, self._adapt
        if server.transaction_status != TransactionStatus.IDLE:
            return None
        formats = self._formats.get(len(values))
        if formats is None:
            formats = self._formats[len(values)] = [PyFormat.AUTO] * len(values)
        dumped = adapt.dump_sequence(values, formats)
        key = (sql, adapt.types or ())
        name = self._names.get(key)
        if name is None:
            name = self._prepare(key)
            if name is None:
                return None
        # None is NULL there, which its annotation forgets.
        params = cast(Sequence[bytes], dumped)
        result = server.exec_prepared(name, params, adapt.formats, Format.BINARY)
        if result.status in _GOOD:
            return name, result
        error = psycopg.errors.error_from_result(result, "utf-8")
        if isinstance(error, psycopg.errors.InvalidSqlStatementName):
            # psycopg has deallocated all statements of the connection, as it does after some DDL.
            self._names.clear()
            self._readers.clear()
            return None
        raise error

    def _prepare(self, key: tuple[str, tuple[int, ...]]) -> bytes | None:
        sql, types = key
        text = numbered(sql)
        if text is None or len(self._names) >= MOST:
            return None
        name = b"storewise_%d" % next(_NUMBERS)
        result = self._server.prepare(name, text.encode(), types)
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result, "utf-8")
        self._names[key] = name
        return name
