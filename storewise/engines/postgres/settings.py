"""What a study may set of PostgreSQL, and what each consistency level sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field as Setting
from pydantic import field_validator

from storewise.engines.postgres.client import UNLOGGED
from storewise.engines.sql.sharded_engine import ShardedSettings
from storewise.engines.support.servers import reserved_options

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?\Z")

_ISOLATION = "default_transaction_isolation"
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
_RELAXED = {"fsync": "on", "synchronous_commit": "off", "full_page_writes": "on"}
_UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
LEVELS: Mapping[str, Mapping[str, str]] = {
    "durable": {**_DURABLE, _ISOLATION: "read committed"},
    "serializable": {**_DURABLE, _ISOLATION: "serializable"},
    "relaxed": {**_RELAXED, _ISOLATION: "read committed"},
    # Its tables are made UNLOGGED by the client.
    UNLOGGED: {**_RELAXED, _ISOLATION: "read committed"},
    "unsafe": {**_UNSAFE, _ISOLATION: "read committed"},
}
#: Settings that a study may not change: programs, libraries and files of a server, and access.
_FORBIDDEN_OPTIONS = re.compile(
    r".*_command|.*_(library|file|library_path|control_path|directory|directories|provider)|.*_conninfo|archive_mode|"
    r"unix_socket_.*|(ssl|gss|krb|oauth|bonjour|ident|hba|authentication)_?.*|"
    r"log_(destination|directory|filename|file_mode)|.*_validator_libraries|local_preload_libraries"
)
#: Libraries that a study may load and configure. Many others run code that is given as a setting
#: (`plperl.on_init`), or accept connections without a password.
_LIBRARIES = frozenset(
    ("auto_explain", "pg_prewarm", "pg_stat_kcache", "pg_stat_statements", "pg_wait_sampling")
)


class PostgresSettings(ShardedSettings):
    """Settings of PostgreSQL."""

    bulk: Literal["copy", "insert"] = Setting(
        default="copy", description="batches go in by COPY, or as INSERT statements"
    )
    config: Mapping[str, str | int | float | bool] = Setting(
        default_factory=dict, description="more settings of postgresql.conf, by their names there"
    )

    @field_validator("config")
    @classmethod
    def _only_free_names(cls, config: Mapping[str, Any]) -> Mapping[str, Any]:
        levels = {name for level in LEVELS.values() for name in level}
        for name, value in config.items():
            if not _NAME.match(name):
                raise ValueError(f"{name!r} is no name of a PostgreSQL setting")
            if name.lower() in reserved_options(__package__):
                raise ValueError(f"{name} is set by Storewise and cannot be in `config`")
            if _FORBIDDEN_OPTIONS.fullmatch(name.lower()):
                raise ValueError(
                    f"{name} runs a program, names files or opens a door: it cannot be in `config`"
                )
            prefix, dot, _ = name.lower().partition(".")
            loaded = {prefix} if dot else set()
            if name.lower().endswith("preload_libraries"):
                loaded |= {library.strip() for library in str(value).split(",")}
            if others := loaded - _LIBRARIES:
                raise ValueError(
                    f"{name}: a study may not load {', '.join(sorted(others))}, only "
                    f"{', '.join(sorted(_LIBRARIES))}"
                )
            if name.lower() in levels:
                raise ValueError(f"{name} is a matter of the consistency level, not of `config`")
            if isinstance(value, str) and ("\n" in value or "\0" in value):
                raise ValueError(f"{name}: a value must be one line")
        return config
