"""What a study may say of MariaDB and MySQL."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.mysql.connection import Driver
from storewise.engines.sql.sharded_engine import ShardedSettings

#: Options that make a server part of the session; a study cannot have its own.
_OURS = frozenset(
    """
    admin-address admin-port basedir bind-address bootstrap chroot datadir defaults-file
    general-log general-log-file grant-tables init-connect init-file initialize initialize-insecure
    innodb-doublewrite innodb-flush-log-at-trx-commit local-infile log-bin log-error
    lower-case-table-names mysqlx mysqlx-bind-address mysqlx-port networking pid-file plugin-load
    plugin-load-add port secure-file-priv slow-query-log slow-query-log-file socket tmpdir user
    """.split()  # noqa: SIM905 - a list of 35 lines otherwise
)
#: Words before an option's name that change nothing of which option it is.
_PREFIXES = re.compile(r"^(loose|skip|disable|enable|maximum|autoset)-")
#: Options of ours that open the server, whose beginnings are refused as well.
_CLOSED = (
    *("bind-address", "skip-grant-tables", "grant-tables", "skip-networking", "networking"),
    *("init-file", "plugin-load", "secure-file-priv", "mysqlx-bind-address", "extra-port"),
    *("admin-address", "wsrep-notify-cmd", "wsrep-sst-method", "wsrep-provider"),
)
#: What a server runs, loads or writes by an option, and who may come in.
_DOORS = re.compile(
    r"wsrep|plugin|mysqlx|admin|extra-port|extra-max|ssl|tls|require-secure|proxy-protocol|"
    r"init-(file|connect|slave|replica)|(general|slow-query|audit|server-audit).*-file|log-error|"
    r"log-basename|debug|core-file|chroot|defaults|report-|authentication|default-auth|"
    r"secure-|local-infile|grant|skip-name|.*-dir$|.*-(cmd|command|script)$|early-plugin|"
    r"lc-messages-dir|socket|unix|named-pipe|shared-memory|daemonize|basedir|port"
)


class MysqlSettings(ShardedSettings):
    """Settings of MariaDB and MySQL."""

    driver: Driver | None = Setting(
        default=None,
        description="how clients speak to the server: by `mysqlclient` (in C) where it can be "
        "imported, else by `pymysql`",
    )
    config: dict[str, bool | int | float | str] = Setting(
        default_factory=dict,
        description="further options of the server, such as `innodb_io_capacity: 2000`",
    )

    @field_validator("config")
    @classmethod
    def _check(cls, config: dict[str, Any]) -> dict[str, Any]:
        for name, value in config.items():
            plain = name.replace("_", "-").lower()
            if not plain.replace("-", "").isalnum():
                raise ValueError(f"{name!r} is no name of a server option")
            while (shorter := _PREFIXES.sub("", plain)) != plain:
                plain = shorter
            # The servers take an option's beginning for it, too.
            if plain in _OURS or any(len(plain) > 2 and o.startswith(plain) for o in _CLOSED):
                raise ValueError(f"the option {name!r} is set by the session")
            if _DOORS.match(plain):
                raise ValueError(
                    f"the option {name!r} runs a program, names files or opens a door: it cannot "
                    "be in `config`"
                )
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(f"the value of {name!r} has a character that no option can have")
        return config
