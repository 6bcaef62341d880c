"""Connections by PyMySQL: a driver in Python, which runs everywhere."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor

from storewise.engines.contract.server import Credentials
from storewise.engines.mysql.link import OPTIONS, Link, LinkError
from storewise.engines.support.table import Row


class PythonLink(Link):
    """A connection by PyMySQL."""

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
        with _told():
            self._link: Connection[Cursor] = pymysql.connect(
                host=address,
                port=port,
                user=credentials.user,
                password=credentials.password,
                # An UPDATE tells how many rows it found, not how many became different.
                client_flag=CLIENT.FOUND_ROWS,
                ssl_disabled=not encrypted,
                read_timeout=seconds,
                write_timeout=seconds,
                defer_connect=True,
                **OPTIONS,
            )
            self._warnings = 0
            self._link.connect(_greeting(address, port, connect))

    @property
    def open(self) -> bool:
        return bool(self._link.open)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self.described(sql, values)[1]

    def described(self, sql: str, values: Sequence[Any] = ()) -> tuple[list[str], list[Row]]:
        with _told(), self._link.cursor() as cursor:
            cursor.execute(sql, values or None)
            names = [str(column[0]) for column in cursor.description or ()]
            return names, list(cursor.fetchall())

    def change(self, sql: str | bytes, values: Sequence[Any] = ()) -> int:
        with _told(), self._link.cursor() as cursor:
            # Bytes go through, whatever its types say.
            cursor.execute(sql, values or None)  # type: ignore[arg-type]
            self._warnings = cursor.warning_count
            return cursor.rowcount

    def warnings(self) -> int:
        return self._warnings

    def close(self) -> None:
        if not self._link.open:
            return
        try:
            self._link.close()
        except (pymysql.Error, OSError):
            # The farewell did not arrive; the socket is closed all the same.
            return


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except pymysql.Error as error:
        raise LinkError(*error.args) from error
    except RuntimeError as error:
        # The way to sign in needs a package that is not there.
        raise LinkError(0, str(error)) from error


def _greeting(address: str, port: int, seconds: float) -> socket.socket:
    """A socket on which the server has begun to speak.

    The driver bounds the wait for the connection, not for the first words; but kernels connect to
    a server that is not ready, stopped, or of another protocol."""
    connection = socket.create_connection((address, port), seconds)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            connection.recv(1, socket.MSG_PEEK)
        except TimeoutError as error:
            raise TimeoutError(f"the server has not answered for {seconds:.0f} s") from error
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection
