"""MariaDB and MySQL: servers that share the documents by a hash of their ids.

The nodes know nothing of each other; a client sends each document to the server that its id
belongs to (`sharded`), as the published comparisons did it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import (
    Credentials,
    Installation,
    Launch,
    Node,
    NodeSpec,
    Topology,
)
from storewise.engines.mysql.client import MysqlClient
from storewise.engines.mysql.connection import driver_versions, not_ready_reason
from storewise.engines.mysql.launch import launch_of, server_version
from storewise.engines.mysql.settings import MysqlSettings
from storewise.engines.sql.sharded_engine import ShardedEngine
from storewise.engines.support.installation import find_installation
from storewise.errors import EngineError

VARIABLE = "STOREWISE_MARIADB_BIN"
_HINT = (
    "`storewise install mariadb` fetches it; or install MariaDB (Debian: mariadb-server; conda: "
    "envs/mariadb.yaml) or MySQL's server, or say where it is with the setting `home` or "
    f"${VARIABLE}"
)
_USUAL = (
    "/usr/sbin",
    "/usr/libexec",
    "/usr/lib/mysql/bin",
    "/usr/local/sbin",
    "/usr/local/libexec",
    "/usr/local/mysql/bin",
    "/opt/mysql*/bin",
    "/opt/mariadb*/bin",
)
#: MariaDB 10.4 brought the table of accounts that `launch` cleans and the installer's options;
#: MySQL 8.0.17 the collation without padding.
_OLDEST = {"MariaDB": (10, 4), "MySQL": (8, 0, 17)}
_MIN_MEMORY_MB = 256


class MysqlEngine(ShardedEngine):
    """MariaDB's or MySQL's server."""

    name = "mariadb"
    title = "MariaDB"
    in_first_study = True
    titles = ("MariaDB", "MySQL")
    encoding = "arrow"
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": (
            "innodb_flush_log_at_trx_commit=1: a batch is a transaction, on disk (fsync) when "
            "acknowledged"
        ),
        "relaxed": (
            "innodb_flush_log_at_trx_commit=2: a batch is a transaction that the operating system "
            "has when acknowledged, and is on disk a second later; it survives the death of the "
            "server, not that of the machine"
        ),
        "serializable": (
            "as durable, and every transaction is SERIALIZABLE: what clients do at the same time "
            "is as if they did it one after the other; without that it is READ COMMITTED"
        ),
        "uncommitted": (
            "innodb_flush_log_at_trx_commit=0 and READ UNCOMMITTED: the server keeps up to a "
            "second of transactions in its memory, a crash of the server loses them and damages "
            "nothing; a reader may see what is never committed"
        ),
        "unsafe": (
            "innodb_flush_log_at_trx_commit=0 and innodb_doublewrite=OFF: the server keeps up to "
            "a second of transactions in its memory, and a crash of the machine may damage pages"
        ),
    }
    lossy_levels = frozenset({"relaxed", "uncommitted", "unsafe"})
    consistency_aliases: ClassVar[Mapping[str, str]] = {
        "strong": "serializable",
        "weak": "uncommitted",
    }
    Settings = MysqlSettings
    guard = "password (hashed challenge)"
    client = MysqlClient
    ready_seconds = 90.0
    programs = ("mariadbd", "mariadb-install-db")
    install_hint = _HINT

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

    def find(self, settings: Mapping[str, Any]) -> Installation:
        server = self._programs([("mariadbd", "mysqld")], settings)
        flavour, version = server_version(server.version)
        if version < _OLDEST[flavour]:
            oldest = ".".join(map(str, _OLDEST[flavour]))
            raise EngineError(
                f"mariadb: {server.programs['mariadbd']} is {server.version}; {flavour} {oldest} "
                f"or newer is needed; {_HINT}"
            )
        programs = dict(server.programs)
        if flavour == "MariaDB":
            # The server's own tables are made by a script that stands in another directory.
            script = ("mariadb-install-db", "mysql_install_db")
            programs |= self._programs([("mariadbd", "mysqld"), script], settings).programs
        text = f"{flavour} {'.'.join(map(str, version))}"
        return replace(server, programs=programs, version=text)

    def _programs(
        self, programs: list[str | tuple[str, ...]], settings: Mapping[str, Any]
    ) -> Installation:
        return find_installation(
            self.title,
            programs,
            settings,
            variable=VARIABLE,
            # --no-defaults: an option file of this host must neither count nor do harm.
            version=("mariadbd", "--no-defaults", "--version"),
            own=self.name,
            usual=_USUAL,
            hint=_HINT,
        )

    def launch(self, node: Node) -> Launch:
        return launch_of(node)

    def not_ready_reason(self, endpoint: Endpoint, credentials: Credentials) -> str | None:
        return not_ready_reason(endpoint, credentials)
