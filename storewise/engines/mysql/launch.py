"""How a node of MariaDB or MySQL is started: command lines, option file, accounts.

MariaDB: https://mariadb.com/docs/server/server-management/variables-and-modes/server-system-variables
and https://mariadb.com/docs/server/server-usage/storage-engines/innodb/innodb-system-variables,
MySQL: https://dev.mysql.com/doc/refman/8.4/en/server-system-variables.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from storewise.engines.contract.server import Credentials, Launch, Node
from storewise.engines.mysql.connection import DATABASE
from storewise.engines.mysql.settings import MysqlSettings
from storewise.engines.support.servers import fixed_options
from storewise.errors import EngineError

#: Share of a node's memory for InnoDB's pages; the rest is connections, dictionary and process.
_POOL_SHARE = 0.55
_CONFIG = "my.cnf"
_FIRST_CONFIG = "init.cnf"
#: Beginnings of the options that the first step must know too, because they shape files.
_SHAPING = ("innodb-page-size", "innodb-data-", "innodb-undo-", "innodb-log-file")
_SECRETS = "init.sql"
_DATA = "data"
_TMP = "tmp"
#: innodb_flush_log_at_trx_commit and transaction_isolation of each consistency level. Without
#: READ COMMITTED several clients that replace rows of one region wait for each other's gaps.
_LEVELS: Mapping[str, tuple[int, str]] = {
    "durable": (1, "READ-COMMITTED"),
    "serializable": (1, "SERIALIZABLE"),
    "relaxed": (2, "READ-COMMITTED"),
    "uncommitted": (0, "READ-UNCOMMITTED"),
    "unsafe": (0, "READ-COMMITTED"),
}
#: Compares strings code point by code point, blanks at the end included.
COLLATIONS = {"MariaDB": "utf8mb4_nopad_bin", "MySQL": "utf8mb4_0900_bin"}
_SAYS = re.compile(r"(?:Ver\s+|MariaDB |MySQL )(\d+(?:\.\d+)+)(-MariaDB)?")


def launch_of(node: Node) -> Launch:
    """How to start a node. Pure."""
    flavour, _ = server_version(node.installation.version)
    server = str(node.installation.programs["mariadbd"])
    # MariaDB's script splits words at blanks: names relative to the node's directory, where
    # everything is started, have none. The servers want this one path whole.
    datadir = f"--datadir={node.directory / _DATA}"
    first = (f"--defaults-file={_FIRST_CONFIG}", datadir)
    # The accounts are made in the first step, before anything listens: whoever reaches the
    # port needs the password, and the server can be started again without the secrets' file.
    step: tuple[str, ...]
    if flavour == "MariaDB":
        step = (
            str(node.installation.programs["mariadb-install-db"]),
            *first,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
            f"--extra-file={_SECRETS}",
        )
    else:
        step = (
            server,
            *first,
            "--initialize-insecure",
            f"--init-file={node.directory / _SECRETS}",
        )
    return Launch(
        command=(server, f"--defaults-file={_CONFIG}", datadir),
        files={
            _CONFIG: option_file(node),
            _FIRST_CONFIG: option_file(node, first=True),
            _SECRETS: accounts(flavour, node.credentials),
        },
        directories=(_DATA, _TMP),
        steps=(step,),
        environment={"TMPDIR": str(node.directory / _TMP)},
        remove_when_ready=(_SECRETS,),
        stop_seconds=60.0,
        refuses_root=True,
    )


def server_version(text: str) -> tuple[str, tuple[int, ...]]:
    """Which server it is and its version, from what it prints or from `Installation.version`.

    ``mariadbd  Ver 10.11.19-MariaDB-...`` gives ("MariaDB", (10, 11, 19)), ``mysqld  Ver 8.4.6 for
    Linux ...`` ("MySQL", (8, 4, 6)). EngineError for other words.
    """
    version = _SAYS.search(text)
    if version is None:
        raise EngineError(f"mariadb: {text!r} is no version of MariaDB's or MySQL's server")
    maria = version[2] is not None or text.startswith("MariaDB ")
    return ("MariaDB" if maria else "MySQL"), tuple(map(int, version[1].split(".")))


def pool_mb(memory_mb: int) -> int:
    """InnoDB's buffer pool for a node's memory, MiB.

    From 1 GiB on MySQL cuts it into 8 parts of whole chunks and rounds up, so that only multiples
    of 8 chunks (of 16 MiB here) are what they say.
    """
    pool = int(memory_mb * _POOL_SHARE)
    return pool // 128 * 128 if pool >= 1024 else pool // 16 * 16


def option_file(node: Node, *, first: bool = False) -> str:
    """The server's option file; nothing else is read.

    For the first step without those of the study's options that do not matter there: MariaDB's
    script hides what it is told of a wrong one, the server names it.
    """
    flavour, _ = server_version(node.installation.version)
    pool = pool_mb(node.spec.memory_mb)
    log = min(max(pool // 2, 64), 1024)
    flush, isolation = _LEVELS[node.consistency]
    fixed = fixed_options(__package__)
    log_size = (
        {"innodb-log-file-size": f"{log}M"}
        if flavour == "MariaDB"
        else {"loose-innodb-redo-log-capacity": f"{2 * log}M"}
    )
    options: dict[str, str | int] = {
        **fixed["both"],
        **fixed[flavour],
        **log_size,
        "bind-address": node.address,
        "port": node.port,
        "transaction-isolation": isolation,
        "innodb-buffer-pool-size": f"{pool}M",
        "innodb-flush-log-at-trx-commit": flush,
        "innodb-doublewrite": "OFF" if node.consistency == "unsafe" else "ON",
    }
    config = MysqlSettings.model_validate(dict(node.settings)).config
    for name, value in config.items():
        name = name.replace("_", "-")
        if not first or name.startswith(_SHAPING):
            switch = "ON" if value else "OFF"
            options[name] = switch if isinstance(value, bool) else str(value)
    lines = [f"{name}={value}" for name, value in options.items()]
    return "\n".join(["[mysqld]", *lines, ""])


def accounts(flavour: str, credentials: Credentials) -> str:
    """Statements, one on each line, that make the session's user and leave no other way in."""
    user = f"'{credentials.user}'@'%'"
    collation = COLLATIONS[flavour]
    lines = [
        # The first step runs without grants; this reads them, so that accounts can be made.
        "FLUSH PRIVILEGES",
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE {collation}",
        f"CREATE USER {user} IDENTIFIED BY '{credentials.password}'",
        f"GRANT ALL ON {DATABASE}.* TO {user}",
        # To read the sizes of files.
        f"GRANT PROCESS ON *.* TO {user}",
    ]
    if flavour == "MariaDB":
        lines.append(
            "DELETE FROM mysql.global_priv "
            f"WHERE User NOT IN ('{credentials.user}', 'mariadb.sys', 'PUBLIC')"
        )
    else:
        lines.append("ALTER USER 'root'@'localhost' ACCOUNT LOCK")
    return ";\n".join(lines) + ";\n"
