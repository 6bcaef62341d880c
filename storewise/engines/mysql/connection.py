"""Connections to MariaDB and MySQL: which driver, signing in, and what errors mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Literal, TypeVar

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.mysql.link import Link, LinkError
from storewise.engines.support.clients import retried
from storewise.errors import EngineError

Driver = Literal["mysqlclient", "pymysql"]
#: What a connection raises, for values that it cannot send as well.
FAILURES = (LinkError, UnicodeError, OverflowError, OSError)

#: The drivers' numbers while a server is not there yet or is going: nobody listens, the greeting
#: does not come, the connection is lost, too many connections, shutdown in progress.
_NOT_YET = frozenset({2002, 2003, 2006, 2013, 1040, 1053})
#: The server has undone a transaction because others stood in its way: a deadlock, a lock that was
#: not given in time, and MariaDB's "record has changed since last read".
_AGAIN = frozenset({1213, 1205, 1020})
_TRIES = 10
_CONNECT_SECONDS = 20
_ANSWER_SECONDS = 5

_T = TypeVar("_T")


@cache
def _why_not() -> str:
    """Why mysqlclient cannot be used; empty where it can."""
    try:
        import storewise.engines.mysql.c_link  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


def driver_of(wanted: Driver | None) -> Driver:
    """The driver that connections use where a study wants this one: mysqlclient where it can be
    imported, else PyMySQL. ImportError for a wish that cannot be met, in words for a user."""
    if wanted == "mysqlclient" and _why_not():
        raise ImportError(
            f"mysqlclient cannot be imported ({_why_not()}): pip install mysqlclient-static (Linux "
            "on x86-64), or pip install mysqlclient with a C compiler and MariaDB's headers; "
            "without it, leave `driver` out"
        )
    return wanted or ("pymysql" if _why_not() else "mysqlclient")


def driver_versions(wanted: Driver | None) -> dict[str, str]:
    """Versions of the driver that is used."""
    if driver_of(wanted) == "pymysql":
        return {"pymysql": version("pymysql")}
    from storewise.engines.mysql import c_link

    return c_link.versions()


def sign_in(
    address: str,
    port: int,
    credentials: Credentials,
    *,
    seconds: float | None = None,
    driver: Driver | None = None,
) -> Link:
    """A connection as the session's user; raises one of FAILURES.

    `seconds` bounds the wait for the connection and for each answer (none: 20 s for the
    connection). MySQL's own way to sign in (caching_sha2_password) takes the password itself once
    after each start of the server, over TLS, and a hashed challenge from then on; documents never
    go over TLS, which would be measured with them.
    """
    make = _maker(driver_of(driver))

    def connect(encrypted: bool) -> Link:
        limit = seconds or _CONNECT_SECONDS
        return make(address, port, credentials, limit, seconds, encrypted=encrypted)

    try:
        return connect(encrypted=False)
    except LinkError as error:
        if "sha2" not in str(error):
            raise
    connect(encrypted=True).close()
    return connect(encrypted=False)


def _maker(driver: Driver) -> Callable[..., Link]:
    """The class of connections; only its driver is imported."""
    if driver == "mysqlclient":
        from storewise.engines.mysql.c_link import CLink

        return CLink
    from storewise.engines.mysql.python_link import PythonLink

    return PythonLink


def not_ready_reason(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """Why the server does not answer a query yet; None if it does. EngineError if waiting will not
    help."""
    # The kernel accepts connections as soon as the server listens; the greeting comes when it is
    # ready, so that "not yet" is often a time-out.
    try:
        link = sign_in(endpoint.address, endpoint.port, credentials, seconds=_ANSWER_SECONDS)
        try:
            link.rows("SELECT 1")
        finally:
            link.close()
    except OSError as error:
        return str(error)
    except LinkError as error:
        if error.code in _NOT_YET:
            return error.words
        raise EngineError(f"mariadb: {endpoint}: {error.words}") from error
    return None


def again(do: Callable[[], _T]) -> _T:
    """Do a transaction, once more where the server has undone it for the sake of another one."""
    return retried(do, undone, _TRIES)


def undone(error: Exception) -> bool:
    """Whether an error says that the server rolled the transaction back (deadlock or conflict)."""
    cause = error.__cause__ if isinstance(error, EngineError) else error
    return isinstance(cause, LinkError) and cause.code in _AGAIN
