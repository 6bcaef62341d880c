"""PostgreSQL: one server, or several that share the documents by a hash of their ids.

Its counters: https://www.postgresql.org/docs/current/monitoring-stats.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import psycopg

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials, Installation, Launch, Node
from storewise.engines.postgres.client import UNLOGGED, PostgresClient, connect
from storewise.engines.postgres.launch import launch_of
from storewise.engines.postgres.settings import PostgresSettings
from storewise.engines.sql.sharded_engine import ShardedEngine
from storewise.engines.support.installation import find_installation
from storewise.errors import EngineError

_HINT = (
    "`storewise install postgres` fetches it; or install PostgreSQL (Debian: postgresql; conda: "
    "envs/postgres.yaml), or say where it is with the setting `home` or STOREWISE_POSTGRES_BIN"
)
#: Versions since this one have what is used here.
_OLDEST = 14
_ANSWER_SECONDS = 2
#: How a server says that it is there but not ready, or going.
_NOT_YET = ("starting up", "shutting down", "not yet accepting", "in recovery", "too many clients")
_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password")


class PostgresEngine(ShardedEngine):
    """PostgreSQL as a server, sharded by the client where there are several."""

    name = "postgres"
    title = "PostgreSQL"
    in_first_study = True
    encoding = "arrow"
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "synchronous_commit=on: a batch is a transaction, on disk (fsync) when "
        "acknowledged",
        "relaxed": "synchronous_commit=off: a batch is a transaction; a crash of the server may "
        "lose the last ones (under a second), and damages nothing",
        "serializable": "as durable, and every transaction is SERIALIZABLE: what clients do at the "
        "same time is as if they did it one after the other; without that it is READ COMMITTED",
        UNLOGGED: "as relaxed, and the tables are UNLOGGED: nothing of them is in the write-ahead "
        "log, and a crash of the server empties them",
        "unsafe": "fsync=off, full_page_writes=off, synchronous_commit=off: as relaxed, and a "
        "crash of the machine may leave the database damaged",
    }
    lossy_levels = frozenset({"relaxed", UNLOGGED, "unsafe"})
    consistency_aliases: ClassVar[Mapping[str, str]] = {"strong": "serializable", "weak": UNLOGGED}
    Settings = PostgresSettings
    packages = ("psycopg",)
    guard = "password (scram-sha-256)"
    client = PostgresClient
    programs = ("postgres", "initdb")
    install_hint = _HINT

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        number = psycopg.pq.version()  # 170005 is 17.5
        return {**super().versions(settings), "libpq": f"{number // 10000}.{number % 10000}"}

    def find(self, settings: Mapping[str, Any]) -> Installation:
        installed = find_installation(
            self.title,
            self.programs,
            settings,
            variable="STOREWISE_POSTGRES_BIN",
            version=("postgres", "--version"),
            own=self.name,
            usual=("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"),
            hint=_HINT,
        )
        number = re.search(r"\d+", installed.version)
        if number is None or int(number[0]) < _OLDEST:
            raise EngineError(
                f"{self.title}: {installed.programs['postgres']} says {installed.version!r}; "
                f"version {_OLDEST} or newer is needed; {_HINT}"
            )
        return installed

    def launch(self, node: Node) -> Launch:
        return launch_of(node)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        try:
            with connect(endpoint.address, endpoint.port, credentials, _ANSWER_SECONDS) as link:
                link.execute("SELECT 1")
        except psycopg.OperationalError as error:
            words = " ".join(str(error).split())
            if any(text in words for text in _REFUSED) and not any(t in words for t in _NOT_YET):
                raise EngineError(f"{self.name}: {endpoint}: {words}") from error
            return words
        return None
