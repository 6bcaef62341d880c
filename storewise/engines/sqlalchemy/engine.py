"""Any SQL database by its SQLAlchemy URL: one that users have already, commercial ones too.

URLs: https://docs.sqlalchemy.org/en/20/core/engines.html#database-urls. Storewise starts nothing:
the database is there. Passwords stand in an environment variable or a file, never in a study.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from pydantic import Field as Setting

try:
    import sqlalchemy as sa
except ModuleNotFoundError as missing:
    raise ImportError(
        "SQLAlchemy is missing: install Storewise with its extra `sql` (pip install "
        "'storewise[sql]')"
    ) from missing
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from storewise.engines.contract.engine import Cluster, EngineSettings, ExternalEngine, Mode, Schema
from storewise.engines.sql.reads import FLAGS
from storewise.engines.sqlalchemy.client import MYSQL, Shared, SqlClient
from storewise.errors import EngineError

_SECRET = re.compile(r"pass|pwd|secret|token|credential|private", re.IGNORECASE)
#: A secret within a value, such as that of pyodbc's `odbc_connect`: ``...;PWD=secret;...``, or
#: ``PWD={secret; with }} in it}``.
_WITHIN = re.compile(
    r"\w*(?:pass|pwd|secret|token|credential)\w*\s*=\s*(\{(?:[^}]|\}\})*\}|[^;\s&]+)", re.IGNORECASE
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,15}\Z")
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
        default="sw", description="what the names of its tables begin with, before the trial's own"
    )


class SqlEngine(ExternalEngine):
    """A database behind a SQLAlchemy URL."""

    name = "sql"
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
        chosen = SqlSettings.model_validate(dict(settings))
        places = [n for n in ("url", "url_env", "url_file") if getattr(chosen, n) is not None]
        if len(places) != 1:
            raise EngineError(
                "sql: give exactly one of url, url_env and url_file; found "
                f"{' and '.join(places) or 'none'}"
            )
        if not _NAME.match(chosen.prefix):
            raise EngineError(
                f"sql: prefix {chosen.prefix!r}: expected up to 16 small letters, digits and _, "
                "a letter first"
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
        prefix = SqlSettings.model_validate(dict(settings)).prefix
        return {**settings, "prefix": f"{prefix}_{name}"}

    def connect(self, cluster: Cluster, mode: Mode) -> SqlClient:
        settings: SqlSettings = self.settings_of(cluster.settings)
        level = self.level_of(cluster)
        url, scrub = _url(settings)
        try:
            if url.get_backend_name() == "sqlite" and "timeout" not in url.query:
                url = url.update_query_dict({"timeout": str(_BUSY_SECONDS)})
            # A connection for each client thread, as long as it lives.
            engine = sa.create_engine(url, poolclass=NullPool, hide_parameters=True)
            if engine.dialect.name in MYSQL:
                sa.event.listen(engine, "connect", _quote_names, insert=True)
            place = _place(url)
            offered = _isolations(engine)
        except (SQLAlchemyError, ImportError, TypeError, ValueError, OSError) as error:
            raise EngineError(
                f"sql: {_place(url)} cannot be reached: {scrub(' '.join(str(error).split()))}"
            ) from None
        wanted = _ISOLATION[level]
        if wanted:
            chosen = next((name for name in wanted if name in offered), None)
            if chosen is None:
                raise EngineError(
                    f"sql: {place} has no isolation level {' or '.join(wanted)}; it has "
                    f"{', '.join(sorted(offered))}: leave level {level} out"
                )
            engine = engine.execution_options(isolation_level=chosen)
        shared = Shared.of(
            cluster,
            mode,
            (place,),
            settings=settings,
            credentials=None,
            consistency=level,
            engine=engine,
            scrub=scrub,
            prefix=settings.prefix,
            autocommit=not wanted and "AUTOCOMMIT" in offered,
        )
        return SqlClient(shared).connected()

    def drop(self, cluster: Cluster) -> None:
        with closing(self.connect(cluster, "write")) as client:
            client.drop()

    def server(self, cluster: Cluster) -> dict[str, str]:
        with closing(self.connect(cluster, "read")) as client:
            url, _ = _url(self.settings_of(cluster.settings))
            return {"server": f"{url.get_backend_name()} {client.server_version()}".strip()}


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
        known = (
            str(error) if isinstance(error, NoSuchModuleError | ImportError) else "cannot be read"
        )
        raise EngineError(
            f"sql: the URL {known}; expected dialect+driver://user@host:port/database, such as "
            "postgresql+psycopg://me@db.example.org/mine"
        ) from None
    return url


def _url(settings: SqlSettings) -> tuple[URL, Callable[[str], str]]:
    """The URL, and a function that takes its secrets out of a text."""
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
                f"{getattr(error, 'strerror', None) or 'it is no text'}"
            ) from None
    if text is None:
        raise EngineError("sql: give one of url, url_env and url_file")
    url = _parsed(text)
    secrets = {text, text.strip()}
    if url.password:
        secrets |= {str(url.password), unquote(str(url.password))}
    for name, value in url.query.items():
        values = {value} if isinstance(value, str) else set(value)
        if _SECRET.search(name):
            secrets |= values
        within = [part for one in values for part in _WITHIN.findall(one)]
        secrets |= {*within, *(part.strip("{}") for part in within)}

    def scrub(message: str) -> str:
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            message = message.replace(secret, "***")
        return message

    return url, scrub


def _place(url: URL) -> str:
    """The database in words: nothing of its password, user and options."""
    where = f" at {url.host}" + (f":{url.port}" if url.port else "") if url.host else ""
    return f"{url.get_backend_name()} {url.database or ''}{where}".strip()


def _isolations(engine: sa.Engine) -> frozenset[str]:
    """Isolation levels that a dialect and its database have; connects where only that tells."""
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        try:
            levels = engine.dialect.get_isolation_level_values(raw)  # type: ignore[arg-type]
        except NotImplementedError:
            return frozenset()
    return frozenset(levels)
