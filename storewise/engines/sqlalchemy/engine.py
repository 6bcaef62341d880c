"""Any SQL database by its SQLAlchemy URL: one that users have already, commercial ones too.

URLs: https://docs.sqlalchemy.org/en/20/core/engines.html#database-urls. Storewise starts nothing:
the database is there. Passwords stand in an environment variable or a file, never in a study.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field as Setting

try:
    import sqlalchemy as sa
except ModuleNotFoundError as missing:
    raise ImportError(
        "SQLAlchemy is missing: install Storewise with its extra `sql` (pip install "
        "'storewise[sql]')"
    ) from missing
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from storewise.engines.contract.engine import Cluster, EngineSettings, ExternalEngine, Mode, Schema
from storewise.engines.sql.reads import FLAGS
from storewise.engines.sqlalchemy.client import MYSQL, Shared, SqlClient
from storewise.errors import EngineError

#: A secret within a value, such as that of pyodbc's `odbc_connect`: ``...;PWD=secret;...``, or
#: ``PWD={secret; with }} in it}``.
_WITHIN = re.compile(
    r"\w*(?:pass|pwd|secret|token|credential)\w*\s*=\s*(\{(?:[^}]|\}\})*\}|[^;\s&]+)", re.IGNORECASE
)
#: Isolation levels of each consistency level, the first that a dialect has.
_ISOLATION: Mapping[str, tuple[str, ...]] = {
    "durable": (),
    "serializable": ("SERIALIZABLE",),
    "relaxed": ("READ UNCOMMITTED", "READ COMMITTED"),
}
#: Seconds that SQLite's clients wait for each other's locks.
_BUSY_SECONDS = 60


class SqlSettings(EngineSettings):
    """Settings of the engine; exactly one of the first three says where the database is."""

    url: str | None = Setting(
        default=None, description="SQLAlchemy URL without password and options"
    )
    url_env: str | None = Setting(
        default=None, description="environment variable of the jobs that holds the URL"
    )
    url_file: str | None = Setting(
        default=None, description="file that holds the URL, readable by you only"
    )
    prefix: str = Setting(
        default="sw",
        pattern="^[a-z][a-z0-9_]*$",
        description="what the names of its tables begin with, before the trial's own",
    )


class SqlEngine(ExternalEngine):
    """A database behind a SQLAlchemy URL."""

    name = "sql"
    language = "sql"
    title = "SQL database"
    flags = replace(FLAGS, embedded=False, external=True, authentication=True)
    consistencies: ClassVar[Mapping[str, str]] = {
        "durable": "a batch is a transaction at the database's own default isolation; whether it "
        "is on disk when acknowledged is the database's own setting",
        "serializable": "as durable, and every transaction, each read too, is SERIALIZABLE",
        "relaxed": "every transaction, each read too, is READ UNCOMMITTED where the database has "
        "that, else READ COMMITTED: a reader may see what is never committed; what is on disk is "
        "the database's own setting",
    }
    consistency_aliases: ClassVar[Mapping[str, str]] = {"strong": "serializable", "weak": "relaxed"}
    Settings = SqlSettings
    packages = ("sqlalchemy",)

    def check_schema(self, settings: Mapping[str, Any], schema: Schema) -> None:
        """EngineError for settings that name no place or hold a secret, which is not repeated."""
        chosen: SqlSettings = self.settings_of(settings)
        places = [n for n in ("url", "url_env", "url_file") if getattr(chosen, n) is not None]
        if len(places) != 1:
            raise EngineError(
                "sql: give exactly one of url, url_env and url_file; found "
                f"{' and '.join(places) or 'none'}"
            )
        if chosen.url is not None:
            url = _parsed(chosen.url)
            if url.password is not None or url.query:
                raise EngineError(
                    "sql: the URL holds a password or options, which may be secrets and would be "
                    "in results: put it into an environment variable and name that in url_env, or "
                    "into a file (chmod 600) and name that in url_file"
                )

    def of_trial(self, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {**settings, "prefix": f"{self.settings_of(settings).prefix}_{name}"}

    def connect(self, cluster: Cluster, mode: Mode) -> SqlClient:
        settings: SqlSettings = self.settings_of(cluster.settings)
        level = self.level_of(cluster)
        url, scrub = _url(settings)
        place, isolations = _place(url), _ISOLATION[level]
        try:
            if url.get_backend_name() == "sqlite" and "timeout" not in url.query:
                url = url.update_query_dict({"timeout": str(_BUSY_SECONDS)})
            # A connection for each client thread, as long as it lives.
            engine = sa.create_engine(url, poolclass=NullPool, hide_parameters=True)
            if engine.dialect.name in MYSQL:
                sa.event.listen(engine, "connect", _quote_names, insert=True)
            single = _with_isolation(engine, isolations or ("AUTOCOMMIT",))
        except (SQLAlchemyError, ImportError, TypeError, ValueError, OSError) as error:
            message = scrub(" ".join(str(error).split()))
            raise EngineError(f"sql: {place} cannot be reached: {message}") from None
        if isolations and single is None:
            raise EngineError(
                f"sql: {place} has no isolation level {' or '.join(isolations)}: leave level "
                f"{level} out"
            )
        shared = Shared.of(
            cluster,
            mode,
            (place,),
            settings=settings,
            credentials=None,
            consistency=level,
            engine=(isolations and single) or engine,
            single=single or engine,
            scrub=scrub,
            prefix=settings.prefix,
        )
        return SqlClient(shared).connected()

    def drop(self, cluster: Cluster) -> None:
        with closing(self.connect(cluster, "write")) as client:
            client.drop()

    def server(self, cluster: Cluster) -> dict[str, str]:
        with closing(self.connect(cluster, "read")) as client:
            return {"server": client.server()}


def _quote_names(connection: Any, _: object) -> None:
    """Let MySQL take ``"name"`` for a name, as other databases do."""
    with closing(connection.cursor()) as cursor:
        cursor.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')")


def _parsed(text: str) -> URL:
    """The URL; EngineError that does not repeat it."""
    try:
        url = make_url(text.strip())
        url.get_dialect()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        known = isinstance(error, NoSuchModuleError | ImportError)
        raise EngineError(
            f"sql: the URL {error if known else 'cannot be read'}; expected "
            "dialect+driver://user@host:port/database, such as "
            "postgresql+psycopg://me@db.example.org/mine"
        ) from None
    return url


def _url(settings: SqlSettings) -> tuple[URL, Callable[[str], str]]:
    """The URL, and a function that takes its password and its options out of a text."""
    text = settings.url
    if settings.url_env is not None:
        text = os.environ.get(settings.url_env)
        if not text:
            raise EngineError(
                f"sql: the environment variable {settings.url_env} (url_env) is not set in this "
                "job; on a cluster use url_file, or let the profile pass the variable on"
            )
    if settings.url_file is not None:
        try:
            text = Path(settings.url_file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise EngineError(
                f"sql: url_file {settings.url_file} cannot be read: "
                f"{getattr(error, 'strerror', None) or 'it is not text'}"
            ) from None
    text = text or ""
    url = _parsed(text)
    options = [value for values in url.normalized_query.values() for value in values]
    within = [part for value in options for part in _WITHIN.findall(value)]
    options += [*within, *(part.strip("{}") for part in within)]
    # Short options, such as numbers, are no secrets, and parts of other words.
    secrets = {text, *(value for value in options if len(value) > 3)}
    if url.password:
        secrets.add(url.password)

    def scrub(message: str) -> str:
        for secret in sorted(secrets, key=len, reverse=True):
            message = message.replace(secret, "***")
        return message

    return url, scrub


def _place(url: URL) -> str:
    """The database in words: nothing of its password, user and options."""
    where = f" at {url.host}" + (f":{url.port}" if url.port else "") if url.host else ""
    return f"{url.get_backend_name()} {url.database or ''}{where}".strip()


def _with_isolation(engine: sa.Engine, names: Sequence[str]) -> sa.Engine | None:
    """The engine at the first of these isolation levels that the database has; connects to it."""
    engine.connect().close()
    for name in names:
        with suppress(ArgumentError, NotImplementedError):
            result = engine.execution_options(isolation_level=name)
            result.connect().close()
            return result
    return None
