"""The one line per engine that adding an engine touches."""

from __future__ import annotations

from importlib import import_module

from storewise.engines.base import Engine
from storewise.errors import EngineError

#: Engine name -> "module:class". Modules are imported when they are asked for, so that a missing
#: driver concerns only the studies that name its engine.
ENGINES: dict[str, str] = {
    "null": "storewise.engines.null:NullEngine",
    "files": "storewise.engines.files:FilesEngine",
    "sqlite": "storewise.engines.sqlite:SqliteEngine",
    "duckdb": "storewise.engines.duck:DuckdbEngine",
    "parquet": "storewise.engines.parquet:ParquetEngine",
    "postgres": "storewise.engines.postgres:PostgresEngine",
    "mariadb": "storewise.engines.mysql:MysqlEngine",
    "mongodb": "storewise.engines.mongo:MongoEngine",
    "cassandra": "storewise.engines.cassandra_engine:CassandraEngine",
    "hbase": "storewise.engines.hbase:HbaseEngine",
    "riak": "storewise.engines.riak:RiakEngine",
    "sql": "storewise.engines.sql:SqlEngine",
}


def engine(name: str) -> Engine:
    """The engine called `name`; raises EngineError with the known names."""
    if name not in ENGINES:
        raise EngineError(f"no engine is called {name!r}; known: {', '.join(sorted(ENGINES))}")
    module, _, cls = ENGINES[name].partition(":")
    try:
        found = getattr(import_module(module), cls)
    except ImportError as error:
        raise EngineError(f"engine {name!r} cannot be loaded: {error}") from error
    instance = found()
    assert isinstance(instance, Engine)
    return instance
