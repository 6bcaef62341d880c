"""All engines: a new engine adds one line here.

Other packages add engines by an entry point of the group ``storewise.engines``, whose name is the
engine's and whose value is its class: ``mystore = "mystore.engine:MyStoreEngine"``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from storewise.engines.contract.engine import Engine
from storewise.errors import EngineError

GROUP = "storewise.engines"
#: Engine name -> "module:class". Modules are imported when they are asked for, so that a missing
#: driver concerns only the studies that name its engine. Figures take their colours in this order:
#: new engines come last.
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

#: The client's own ceiling: takes everything, answers from nothing; never a choice.
CEILING = "null"
#: Reads the inputs again for every question: what a user has today, first in every verdict and
#: never a choice itself.
BASELINE = "files"


@cache
def _outside() -> dict[str, str]:
    """The engines of other packages, looked up (0.1 s) only for names not in this table."""
    return {one.name: one.value for one in entry_points(group=GROUP)}


def is_engine(name: str) -> bool:
    return name in ENGINES or name in _outside()


def engine_names() -> list[str]:
    """The names of all engines, those of other packages last."""
    return list(ENGINES | _outside())


def engine(name: str) -> Engine:
    """The engine called `name`; raises EngineError with the known names."""
    if not is_engine(name):
        known = ", ".join(sorted(engine_names()))
        raise EngineError(f"no engine is called {name!r}; known: {known}")
    module, _, cls = (ENGINES.get(name) or _outside()[name]).partition(":")
    try:
        engine_class = getattr(import_module(module), cls)
    except ImportError as error:
        raise EngineError(f"engine {name!r} cannot be loaded: {error}") from error
    instance = engine_class()
    assert isinstance(instance, Engine)
    return instance
