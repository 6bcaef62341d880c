"""How a node of PostgreSQL is started: command lines and ``postgresql.conf``.

Server settings: https://www.postgresql.org/docs/current/runtime-config.html; access:
https://www.postgresql.org/docs/current/auth-pg-hba-conf.html.
"""

from __future__ import annotations

import signal

from storewise.engines.contract.server import Launch, Node
from storewise.engines.postgres.settings import LEVELS, PostgresSettings
from storewise.engines.support.servers import fixed_options

_DATA, _CONFIG, _ACCESS, _PASSWORD = "data", "postgresql.conf", "pg_hba.conf", "password"
#: A server that was killed leaves its file, whose seventh line has key and id of the small segment
#: of System V by which it knows that it runs: nobody else would remove that.
_FREE = 'test ! -e "$0" || ipcrm -m "$(sed -n "7s/.* //p" "$0")"'


def launch_of(node: Node) -> Launch:
    """How to start a node. Pure."""
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
        **LEVELS[node.consistency],
    }
    free = {name.lower(): value for name, value in settings.config.items()}
    return "".join(f"{name} = {_literal(value)}\n" for name, value in (values | free).items())


def _literal(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return str(value)
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
