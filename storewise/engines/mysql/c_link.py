"""Connections by mysqlclient: MariaDB's own library in C, or MySQL's, and a module on top of it.

https://mysqlclient.readthedocs.io/user_guide.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import MySQLdb
from MySQLdb.constants import CLIENT
from MySQLdb.release import __version__

from storewise.engines.contract.server import Credentials
from storewise.engines.mysql.link import OPTIONS, Link, LinkError
from storewise.engines.support.table import Row

#: Numbers of the library's own errors: the connection is lost, or no longer in step.
_LOST = range(2000, 3000)
_LIMITS = ("read_timeout", "write_timeout")


def versions() -> dict[str, str]:
    """Versions of the module, and of the library in C within it."""
    return {"mysqlclient": str(__version__), "C library": MySQLdb.get_client_info()}


class CLink(Link):
    """A connection by mysqlclient."""

    def __init__(
        self,
        address: str,
        port: int,
        credentials: Credentials,
        connect: float,
        seconds: float | None,
        *,
        encrypted: bool,
    ) -> None:
        self._link: Any = None
        limits = {} if seconds is None else dict.fromkeys(_LIMITS, math.ceil(seconds))
        try:
            self._link = MySQLdb.connect(
                host=address,
                port=port,
                user=credentials.user,
                password=credentials.password,
                # An UPDATE tells how many rows it found, not how many became different.
                client_flag=CLIENT.FOUND_ROWS,
                # One statement a call.
                multi_statements=False,
                ssl_mode="REQUIRED" if encrypted else "DISABLED",
                # It bounds the wait for the server's first words, too.
                connect_timeout=math.ceil(connect),
                **OPTIONS,
                **limits,
            )
        except MySQLdb.Error as error:
            raise LinkError(*error.args) from error
        self._cursor = self._link.cursor()

    @property
    def open(self) -> bool:
        return self._link is not None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        try:
            self._cursor.execute(sql, values or None)
            return list(self._cursor.fetchall())
        except MySQLdb.Error as error:
            raise self._failed(error) from error

    def described(self, sql: str, values: Sequence[Any] = ()) -> tuple[list[str], list[Row]]:
        try:
            self._cursor.execute(sql, values or None)
            names = [column[0] for column in self._cursor.description]
            return names, list(self._cursor.fetchall())
        except MySQLdb.Error as error:
            raise self._failed(error) from error

    def change(self, sql: str | bytes, values: Sequence[Any] = ()) -> int:
        try:
            matched: int = self._cursor.execute(sql, values or None)
            return matched
        except MySQLdb.Error as error:
            raise self._failed(error) from error

    def warnings(self) -> int:
        return int(self._link.warning_count())

    def close(self) -> None:
        if self._link is not None:
            with suppress(MySQLdb.Error):
                self._cursor.close()  # further statements are told that it is closed
            self._link.close()
            self._link = None

    def _failed(self, error: MySQLdb.Error) -> LinkError:
        told = LinkError(*error.args)
        if told.code in _LOST:
            self.close()
        return told
