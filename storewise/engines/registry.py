"""The one line per engine that adding an engine touches."""

from __future__ import annotations

from importlib import import_module

from storewise.engines.contract.engine import Engine
from storewise.errors import EngineError

#: Engine name -> "module:class". Modules are imported when they are asked for, so that a missing
#: driver concerns only the studies that name its engine.
ENGINES: dict[str, str] = {
    "null": "storewise.engines.null:NullEngine",
    "files": "storewise.engines.files.engine:FilesEngine",
    "sqlite": "storewise.engines.sqlite.engine:SqliteEngine",
    "duckdb": "storewise.engines.duckdb.engine:DuckdbEngine",
    "parquet": "storewise.engines.parquet.engine:ParquetEngine",
    "chdb": "storewise.engines.chdb.engine:ChdbEngine",
    "postgres": "storewise.engines.postgres.engine:PostgresEngine",
    "mariadb": "storewise.engines.mysql.engine:MysqlEngine",
    "mongodb": "storewise.engines.mongodb.engine:MongoEngine",
    "cassandra": "storewise.engines.cassandra.engine:CassandraEngine",
    "hbase": "storewise.engines.hbase.engine:HbaseEngine",
    "riak": "storewise.engines.riak.engine:RiakEngine",
    "valkey": "storewise.engines.valkey.engine:ValkeyEngine",
    "sql": "storewise.engines.sqlalchemy.engine:SqlEngine",
}


def engine(name: str) -> Engine:
    """The engine called `name`; raises EngineError with the known names."""
    if name not in ENGINES:
        raise EngineError(f"no engine is called {name!r}; known: {', '.join(sorted(ENGINES))}")
    module, _, cls = ENGINES[name].partition(":")
    try:
        engine_class = getattr(import_module(module), cls)
    except ImportError as error:
        raise EngineError(f"engine {name!r} cannot be loaded: {error}") from error
    instance = engine_class()
    assert isinstance(instance, Engine)
    return instance
