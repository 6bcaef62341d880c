"""Connections to MariaDB and MySQL: signing in, and what their errors mean."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import pymysql
from pymysql.constants import CLIENT

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.support.clients import retried
from storewise.errors import EngineError

DATABASE = "storewise"
#: Quoted: only the type stubs make it generic.
Link: TypeAlias = "pymysql.connections.Connection[pymysql.cursors.Cursor]"
#: What PyMySQL and the encoding of a text raise.
FAILURES = (pymysql.Error, UnicodeError, OverflowError, OSError)

#: PyMySQL's words while a server is not there yet or is going: nobody listens, the greeting does
#: not come, the connection is lost, too many connections, shutdown in progress.
_NOT_YET = frozenset({2002, 2003, 2006, 2013, 1040, 1053})
#: The server has undone a transaction because others stood in its way: a deadlock, a lock that was
#: not given in time, and MariaDB's "record has changed since last read".
_AGAIN = frozenset({1213, 1205, 1020})
_TRIES = 10
#: Quoted names are identifiers, as in standard SQL, and a value that a column cannot hold is an
#: error in a statement (in LOAD DATA LOCAL it stays a warning).
_MODE = "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
_CONNECT_SECONDS = 20

_T = TypeVar("_T")


def sign_in(
    address: str, port: int, credentials: Credentials, *, seconds: float | None = None
) -> Link:
    """A connection as the session's user, with autocommit; raises pymysql.Error or OSError.

    `seconds` bounds the wait for the connection and for each answer (none: 20 s for the
    connection). MySQL's own way to sign in (caching_sha2_password) takes the password itself once
    after each start of the server, over TLS, and a hashed challenge from then on; documents never
    go over TLS, which would be measured with them.
    """
    try:
        return _connect(address, port, credentials, seconds, encrypted=False)
    except RuntimeError as error:
        if "sha2" not in str(error):
            raise
    _connect(address, port, credentials, seconds, encrypted=True).close()
    return _connect(address, port, credentials, seconds, encrypted=False)


def _connect(
    address: str, port: int, credentials: Credentials, seconds: float | None, *, encrypted: bool
) -> Link:
    link = pymysql.connect(
        host=address,
        port=port,
        user=credentials.user,
        password=credentials.password,
        database=DATABASE,
        charset="utf8mb4",
        init_command=_MODE,
        autocommit=True,
        binary_prefix=True,
        local_infile=True,
        # An UPDATE tells how many rows it found, not how many became different.
        client_flag=CLIENT.FOUND_ROWS,
        ssl_disabled=not encrypted,
        read_timeout=seconds,
        write_timeout=seconds,
        defer_connect=True,
    )
    link.connect(_greeting(address, port, seconds or _CONNECT_SECONDS))
    return link


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


def answers(endpoint: Endpoint, credentials: Credentials) -> bool:
    """Whether the server gives an answer to a query; EngineError where waiting will not help."""
    # The kernel accepts connections as soon as the server listens; the greeting comes when it is
    # ready, so that "not yet" is often a time-out.
    try:
        with (
            sign_in(endpoint.address, endpoint.port, credentials, seconds=5) as link,
            link.cursor() as cursor,
        ):
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    except OSError:
        return False
    except pymysql.Error as error:
        if isinstance(error, pymysql.OperationalError) and error.args[0] in _NOT_YET:
            return False
        words = error.args[1] if len(error.args) > 1 else error
        raise EngineError(f"mariadb: {endpoint}: {words}") from error


def again(do: Callable[[], _T]) -> _T:
    """Do a transaction, once more where the server has undone it for the sake of another one."""

    def undone(error: Exception) -> bool:
        words = error.__cause__ if isinstance(error, EngineError) else error
        return isinstance(words, pymysql.Error) and bool(_AGAIN.intersection(words.args[:1]))

    return retried(do, undone, _TRIES)
