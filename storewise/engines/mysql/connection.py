"""Connections to MariaDB and MySQL: which driver, signing in, and what errors mean.

Drivers: https://mysqlclient.readthedocs.io/user_guide.html and https://pymysql.readthedocs.io/;
both have the interface of Python's DB-API (PEP 249).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.errors import EngineError

DATABASE = "storewise"
#: Quoted names are identifiers, as in standard SQL, and a value that a column cannot hold is an
#: error.
_SQL_MODE = "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
#: mysqlclient is in C; PyMySQL, in Python, runs everywhere.
Driver = Literal["mysqlclient", "pymysql"]

_CONNECT_SECONDS = 20


def driver_of(wanted: Driver | None) -> Any:
    """The module of the driver: mysqlclient if it can be imported, else PyMySQL. EngineError if
    `wanted` cannot be imported."""
    if wanted != "pymysql":
        try:
            return import_module("MySQLdb")
        except ImportError as error:
            if wanted is not None:
                raise EngineError(
                    f"mysqlclient cannot be imported ({error}): pip install mysqlclient-static "
                    "(Linux on x86-64), or pip install mysqlclient with a C compiler and MariaDB's "
                    "headers; without it, leave `driver` out"
                ) from error
    return import_module("pymysql")


def sign_in(
    server: Endpoint,
    credentials: Credentials,
    driver: Driver | None = None,
    seconds: int | None = None,
) -> Any:
    """A connection as the session's user; raises the driver's `Error` or OSError.

    `seconds` bounds the wait for the connection and for each answer (none: 20 s for the
    connection). MySQL's own way to sign in (caching_sha2_password) takes the password itself once
    after each start of the server, over TLS, and a hashed challenge from then on; documents never
    go over TLS, which would be measured with them.
    """
    module = driver_of(driver)

    def connect(encrypted: bool) -> Any:
        if module.__name__ == "pymysql":
            options: dict[str, Any] = {"ssl_disabled": not encrypted}
        else:
            options = {"ssl_mode": "REQUIRED" if encrypted else "DISABLED"}
        if seconds is not None:
            options |= {"read_timeout": seconds, "write_timeout": seconds}
        return module.connect(
            host=server.address,
            port=server.port,
            user=credentials.user,
            password=credentials.password,
            database=DATABASE,
            charset="utf8mb4",
            init_command=_SQL_MODE,
            autocommit=True,
            binary_prefix=True,
            # An UPDATE tells how many rows it found, not how many became different.
            client_flag=import_module(f"{module.__name__}.constants.CLIENT").FOUND_ROWS,
            connect_timeout=seconds or _CONNECT_SECONDS,
            **options,
        )

    try:
        return connect(encrypted=False)
    except module.Error as error:
        if "sha2" not in str(error):
            raise
    connect(encrypted=True).close()
    return connect(encrypted=False)


def error_code(error: Exception) -> int:
    """The number of the server's or the driver's error; 0 where there is none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0
