"""PostgreSQL: one server, or several that share the documents by a hash of their ids.

Server settings: https://www.postgresql.org/docs/current/runtime-config.html; access:
https://www.postgresql.org/docs/current/auth-pg-hba-conf.html; counters:
https://www.postgresql.org/docs/current/monitoring-stats.html.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import psycopg
from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials, Installation, Launch, Node
from storewise.engines.postgres.client import UNLOGGED, PostgresClient, connect
from storewise.engines.sql.sharded_engine import ShardedEngine, ShardedSettings
from storewise.engines.support.installation import find_installation
from storewise.engines.support.servers import fixed_options, reserved_options
from storewise.errors import EngineError

_HINT = (
    "install PostgreSQL (Debian: postgresql; conda: envs/postgres.yaml), or say where it is with "
    "the setting `home` or STOREWISE_POSTGRES_BIN"
)
#: Versions since this one have what is used here (the counters of pg_stat_wal are the newest).
_OLDEST = 14
_DATA, _CONFIG, _ACCESS, _PASSWORD = "data", "postgresql.conf", "pg_hba.conf", "password"
#: A server that was killed leaves its file, whose seventh line has key and id of the small segment
#: of System V by which it knows that it runs: nobody else would remove that.
_FREE = 'test ! -e "$0" || ipcrm -m "$(sed -n "7s/.* //p" "$0")"'
_ANSWER_SECONDS = 2
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?\Z")

_ISOLATION = "default_transaction_isolation"
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_RELAXED = {"fsync": "on", "synchronous_commit": "off", "full_page_writes": "on"}
_UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_LEVELS: Mapping[str, Mapping[str, str]] = {
    "durable": {**_DURABLE, _ISOLATION: "read committed"},
    "serializable": {**_DURABLE, _ISOLATION: "serializable"},
    "relaxed": {**_RELAXED, _ISOLATION: "read committed"},
    # Its tables are made UNLOGGED by the client.
    UNLOGGED: {**_RELAXED, _ISOLATION: "read committed"},
    "unsafe": {**_UNSAFE, _ISOLATION: "read committed"},
}
#: What a server runs, loads or writes by a setting, and who may come in: no matter of a study.
_DOORS = re.compile(
    r".*_command|.*_(library|file|library_path|control_path|directory|directories|provider)|.*_conninfo|archive_mode|"
    r"unix_socket_.*|(ssl|gss|krb|oauth|bonjour|ident|hba|authentication)_?.*|"
    r"log_(destination|directory|filename|file_mode)|.*_validator_libraries|local_preload_libraries"
)
#: Libraries of the installation by name, which is no path: `pg_stat_statements, auto_explain`.
_LIBRARIES = re.compile(r"\s*\w+\s*(,\s*\w+\s*)*")
#: How a server says that it is there but not ready, or going.
_NOT_YET = ("starting up", "shutting down", "not yet accepting", "in recovery", "too many clients")
_REFUSED = ("authentication failed", "no pg_hba.conf entry", "does not exist", "no password")


class PostgresSettings(ShardedSettings):
    """Settings of PostgreSQL."""

    bulk: Literal["copy", "insert"] = Setting(
        default="copy", description="batches go in by COPY, or as INSERT statements"
    )
    prepare: bool = Setting(
        default=True, description="statements are prepared once for each connection"
    )
    config: Mapping[str, str | int | float | bool] = Setting(
        default_factory=dict, description="more settings of postgresql.conf, by their names there"
    )

    @field_validator("config")
    @classmethod
    def _only_free_names(cls, config: Mapping[str, Any]) -> Mapping[str, Any]:
        levels = {name for level in _LEVELS.values() for name in level}
        for name, value in config.items():
            if not _NAME.match(name):
                raise ValueError(f"{name!r} is no name of a PostgreSQL setting")
            if name.lower() in reserved_options(__package__):
                raise ValueError(f"{name} is set by Storewise and cannot be in `config`")
            if _DOORS.fullmatch(name.lower()):
                raise ValueError(
                    f"{name} runs a program, names files or opens a door: it cannot be in `config`"
                )
            if name.lower().endswith("preload_libraries") and not _LIBRARIES.fullmatch(str(value)):
                raise ValueError(f"{name}: libraries of the installation by name, without a path")
            if name.lower() in levels:
                raise ValueError(f"{name} is a matter of the consistency level, not of `config`")
            if isinstance(value, str) and ("\n" in value or "\0" in value):
                raise ValueError(f"{name}: a value must be one line")
        return config


class PostgresEngine(ShardedEngine):
    """PostgreSQL as a server, sharded by the client where there are several."""

    name = "postgres"
    title = "PostgreSQL"
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
    losing = frozenset({"relaxed", UNLOGGED, "unsafe"})
    vocabulary: ClassVar[Mapping[str, str]] = {"strong": "serializable", "weak": UNLOGGED}
    Settings = PostgresSettings
    packages = ("psycopg",)
    guard = "password (scram-sha-256)"
    client = PostgresClient
    programs = ("postgres", "initdb")
    install_hint = _HINT

    def versions(self) -> dict[str, str]:
        number = psycopg.pq.version()  # 170005 is 17.5
        return {**super().versions(), "libpq": f"{number // 10000}.{number % 10000}"}

    def find(self, settings: Mapping[str, Any]) -> Installation:
        installed = find_installation(
            self.title,
            self.programs,
            settings,
            variable="STOREWISE_POSTGRES_BIN",
            version=("postgres", "--version"),
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
        directory, programs = node.directory, node.installation.programs
        initdb = (
            str(programs["initdb"]),
            f"--pgdata={directory / _DATA}",
            f"--username={node.credentials.user}",
            f"--pwfile={directory / _PASSWORD}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            # Texts are compared by their bytes, as ids are; no host lacks this locale.
            "--locale=C",
            "--no-sync",
        )
        return Launch(
            command=(
                str(programs["postgres"]),
                "-c",
                f"config_file={directory / _CONFIG}",
            ),
            files={
                _PASSWORD: node.credentials.password + "\n",
                _CONFIG: configuration(node),
                _ACCESS: "# Whoever connects gives the session's password.\n"
                "host all all all scram-sha-256\n",
            },
            steps=(initdb,),
            cleanup=(("sh", "-c", _FREE, str(directory / _DATA / "postmaster.pid")),),
            remove_when_ready=(_PASSWORD,),
            # Fast shutdown: ends the clients' sessions, writes a checkpoint. (SIGTERM would wait
            # for the clients to leave.)
            stop_signal=signal.SIGINT,
            stop_seconds=60.0,
            refuses_root=True,
        )

    def answers(self, endpoint: Endpoint, credentials: Credentials) -> bool:
        try:
            with connect(endpoint.address, endpoint.port, credentials, _ANSWER_SECONDS) as link:
                return link.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError as error:
            words = " ".join(str(error).split())
            if any(text in words for text in _REFUSED) and not any(t in words for t in _NOT_YET):
                raise EngineError(f"{self.name}: {endpoint}: {words}") from error
            return False


def configuration(node: Node) -> str:
    """The text of ``postgresql.conf``.

    Sizes follow the node's memory: a quarter for shared buffers, as PostgreSQL's manual advises,
    three quarters as the planner's guess of what is cached in all.
    """
    memory, threads = node.spec.memory_mb, node.spec.threads
    settings = PostgresSettings.model_validate(dict(node.settings))
    values: dict[str, str | int | float | bool] = {
        **fixed_options(__package__),
        "data_directory": str(node.directory / _DATA),
        "hba_file": str(node.directory / _ACCESS),
        "ident_file": str(node.directory / _DATA / "pg_ident.conf"),
        "listen_addresses": node.address,
        "port": node.port,
        "shared_buffers": f"{max(16, memory // 4)}MB",
        "effective_cache_size": f"{max(32, memory * 3 // 4)}MB",
        "work_mem": f"{max(4, memory // 256)}MB",
        "maintenance_work_mem": f"{max(32, memory // 16)}MB",
        "min_dynamic_shared_memory": f"{memory // 8 if threads > 1 else 0}MB",
        "max_wal_size": f"{min(16384, max(1024, memory * 2))}MB",
        # A client thread is one server process; only beyond that do queries get more of them.
        "max_worker_processes": 8 + threads,
        "max_parallel_workers": threads - 1,
        "max_parallel_workers_per_gather": min(4, threads - 1),
        "max_parallel_maintenance_workers": min(4, threads - 1),
        **_LEVELS[node.consistency],
    }
    free = {name.lower(): value for name, value in settings.config.items()}
    return "".join(f"{name} = {_literal(value)}\n" for name, value in (values | free).items())


def _literal(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
