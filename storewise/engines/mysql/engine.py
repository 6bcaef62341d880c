"""MariaDB and MySQL: servers that share the documents by a hash of their ids.

The nodes know nothing of each other; a client sends each document to the server that its id
belongs to, as the published comparisons did it. What a server is started with is in `server.yaml`
and `my.cnf.j2`, where clients sign in in `connection`, the rest of a client in `client` and
`storewise.engines.sql.sharded`. When a server dies, requests to it fail, and the next ones connect
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pydantic import Field as Setting

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.mysql.client import MysqlClient
from storewise.engines.mysql.connection import Driver, driver_of, error_code, sign_in
from storewise.engines.sql.sharded import ShardedEngine
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec
from storewise.errors import EngineError

_ANSWER_SECONDS = 5
#: The drivers' numbers while a server is not there yet or is going: nobody listens, the greeting
#: does not come, the connection is lost, too many connections, shutdown in progress.
_NOT_YET = frozenset({2002, 2003, 2006, 2013, 1040, 1053})


class MysqlSettings(ConfigSettings):
    """Settings of MariaDB and MySQL."""

    spec = ServerSpec.read(__package__)
    driver: Driver | None = Setting(
        default=None,
        description="how clients speak to the server: by `mysqlclient` (in C) where it can be "
        "imported, else by `pymysql`",
    )


class MysqlEngine(ShardedEngine):
    """MariaDB's or MySQL's server."""

    name = "mariadb"
    language = "sql"
    asks_one_store = True
    in_first_study = True
    encoding = "arrow"
    Settings = MysqlSettings
    client = MysqlClient
    ready_seconds = 90.0

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        driver = driver_of(self.settings_of(settings or {}).driver)
        if driver.__name__ == "pymysql":
            return {"pymysql": version("pymysql")}
        # Its distribution is mysqlclient or mysqlclient-static.
        release = import_module("MySQLdb.release").__version__
        return {"mysqlclient": str(release), "C library": driver.get_client_info()}

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        # The kernel accepts connections as soon as the server listens; the greeting comes when it
        # is ready, so that "not yet" is often a time-out.
        try:
            with closing(sign_in(endpoint, credentials, seconds=_ANSWER_SECONDS)) as connection:
                connection.cursor().execute("SELECT 1")
        except OSError as error:
            return str(error)
        except driver_of(None).Error as error:
            message = str(error.args[-1] if error.args else error)
            if error_code(error) in _NOT_YET:
                return message
            raise EngineError(f"mariadb: {endpoint}: {message}") from error
        return None
