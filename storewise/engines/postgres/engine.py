"""PostgreSQL: one server, or several that share the documents by a hash of their ids.

What a server is started with is in `server.yaml` and `postgresql.conf.j2`, where clients sign in
and load in `client`, the rest of a client in `storewise.engines.sql.sharded`. When a server dies,
requests to it fail, and the next ones connect again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import psycopg
from pydantic import Field as Setting

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.postgres.client import PostgresClient, connect
from storewise.engines.sql.sharded import ShardedEngine
from storewise.engines.support.server_spec import ConfigSettings, ServerSpec
from storewise.errors import EngineError

_ANSWER_SECONDS = 2
#: Messages of a server that lets this client never in; psycopg tells no code here.
_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password")


class PostgresSettings(ConfigSettings):
    """Settings of PostgreSQL."""

    spec = ServerSpec.read(__package__)
    bulk: Literal["copy", "insert"] = Setting(
        default="copy", description="batches go in by COPY, or as INSERT statements"
    )


class PostgresEngine(ShardedEngine):
    """PostgreSQL as a server, sharded by the client where there are several."""

    name = "postgres"
    language = "sql"
    asks_one_store = True
    in_first_study = True
    encoding = "arrow"
    Settings = PostgresSettings
    packages = ("psycopg",)
    client = PostgresClient

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        number = psycopg.pq.version()  # 170005 is 17.5
        return {**super().versions(settings), "libpq": f"{number // 10000}.{number % 10000}"}

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        try:
            with connect(endpoint, credentials, _ANSWER_SECONDS) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            message = " ".join(str(error).split())
            if any(text in message for text in _REFUSED):
                raise EngineError(f"{self.name}: {endpoint}: {message}") from error
            return message
        return None
