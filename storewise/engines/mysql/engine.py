"""MariaDB and MySQL: servers that share the documents by a hash of their ids.

The nodes know nothing of each other; a client sends each document to the server that its id
belongs to, as the published comparisons did it. What a server is started with is in `server.yaml`
and `my.cnf.j2`, where clients sign in in `connection`, the rest of a client in `client` and
`storewise.engines.sql.sharded_client`. When a server dies, requests to it fail, and the next ones
connect again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field as Setting

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials, NodeSpec, Topology
from storewise.engines.mysql.client import MysqlClient
from storewise.engines.mysql.connection import Driver, driver_versions, not_ready_reason
from storewise.engines.sql.sharded_engine import ShardedEngine, ShardedSettings
from storewise.engines.support.server_spec import ServerSpec
from storewise.errors import EngineError

_MIN_MEMORY_MB = 256


class MysqlSettings(ShardedSettings):
    """What a study may say of MariaDB and MySQL."""

    spec = ServerSpec.read(__package__)
    driver: Driver | None = Setting(
        default=None,
        description="how clients speak to the server: by `mysqlclient` (in C) where it can be "
        "imported, else by `pymysql`",
    )


class MysqlEngine(ShardedEngine):
    """MariaDB's or MySQL's server."""

    name = "mariadb"
    in_first_study = True
    encoding = "arrow"
    Settings = MysqlSettings
    client = MysqlClient
    ready_seconds = 90.0

    def versions(self, settings: Mapping[str, Any] | None = None) -> dict[str, str]:
        return driver_versions(self.settings_of(settings or {}).driver)

    def roles(self, topology: Topology, settings: Mapping[str, Any]) -> tuple[NodeSpec, ...]:
        specs = super().roles(topology, settings)
        if topology.memory_mb < _MIN_MEMORY_MB:
            raise EngineError(
                f"mariadb: node_memory_mb = {topology.memory_mb}: a server needs at least "
                f"{_MIN_MEMORY_MB}"
            )
        return specs

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return not_ready_reason(endpoint, credentials)
