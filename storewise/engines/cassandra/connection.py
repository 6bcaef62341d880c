"""A process's connection to Cassandra: the driver's session, retries, words of errors, schema.

Driver: https://docs.datastax.com/en/developer/python-driver/3.29/api/
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cassandra import ConsistencyLevel, OperationTimedOut, ReadTimeout, Unavailable, WriteTimeout
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile, NoHostAvailable
from cassandra.cluster import Cluster as Driver
from cassandra.connection import ConnectionException, DefaultEndPoint
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    RetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import tuple_factory

from storewise.engines.cassandra.cluster import FAILURES, KEYSPACE, PROTOCOL, words_of
from storewise.engines.cassandra.settings import LEVELS, CassandraSettings, Level
from storewise.engines.contract.engine import Cluster, Endpoint, Engine, Mode
from storewise.engines.contract.server import Credentials
from storewise.engines.support.clients import ProcessClient, ProcessState
from storewise.engines.support.table import SCHEMA_TABLE, Table, described, make_tables
from storewise.errors import EngineError

_Result = TypeVar("_Result")

#: Tables have the columns of a composite key: all but the last of them choose the node.
_CONNECT_SECONDS = 5.0
#: Above the servers' own timeouts: they say more than "no answer".
_REQUEST_SECONDS = 75.0
_RECONNECT_SECONDS = 0.5
#: How long a client asks again when no server answers, from its first failure: a server that stood
#: still refuses what waited in it, and then takes the same again. Some times a server's own limit
#: of a read or write (10 s), else two in a row that wait for a slow disk would end a trial.
PATIENCE_SECONDS = 30.0
_RETRIES = 3
#: What passes by itself: a server that goes, or comes back, or is slow.
PASSING = (NoHostAvailable, ConnectionException, OperationTimedOut, ReadTimeout, WriteTimeout)
#: The driver's, and Python's for values that a column cannot hold.
_FAILURES = (*FAILURES, TypeError, ValueError, OverflowError, struct.error)

# The driver tells of each lost connection on its own; what matters is in the errors.
logging.getLogger("cassandra").addHandler(logging.NullHandler())


class Again(RetryPolicy):  # type: ignore[misc]
    """Every statement here may be sent twice: writes carry the client's time and overwrite."""

    def _next(self, *args: Any, retry_num: int = 0, **named: Any) -> tuple[int, Any]:
        return (self.RETRY_NEXT_HOST if retry_num < _RETRIES else self.RETHROW), None

    on_read_timeout = on_write_timeout = on_unavailable = _next


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Table]):
    """What the clients of one process have in common."""

    settings: CassandraSettings
    level: Level
    endpoints: tuple[Endpoint, ...]
    driver: Any
    session: Any
    prepared: dict[str, Any] = field(default_factory=dict)


def open_shared(engine: Engine, cluster: Cluster, mode: Mode) -> Shared:
    """Connect; EngineError within seconds where no node answers or the password is refused."""
    settings: CassandraSettings = engine.settings_of(cluster.settings)
    level = LEVELS[engine.level_of(cluster)]
    credentials = Credentials.of(cluster)
    endpoints = tuple(sorted(cluster.endpoints, key=lambda endpoint: endpoint.index))
    if not endpoints:
        raise EngineError("cassandra: the cluster has no endpoints of data nodes")
    driver = Driver(
        [DefaultEndPoint(endpoint.address, endpoint.port) for endpoint in endpoints],
        auth_provider=PlainTextAuthProvider(credentials.user, credentials.password),
        protocol_version=PROTOCOL,
        compression=False,
        connect_timeout=_CONNECT_SECONDS,
        control_connection_timeout=_CONNECT_SECONDS,
        reconnection_policy=ConstantReconnectionPolicy(_RECONNECT_SECONDS, None),
        max_schema_agreement_wait=60,
        monitor_reporting_enabled=False,
        application_name="storewise",
        execution_profiles={
            EXEC_PROFILE_DEFAULT: ExecutionProfile(
                TokenAwarePolicy(DCAwareRoundRobinPolicy(), shuffle_replicas=False),
                retry_policy=Again(),
                consistency_level=level.requests,
                request_timeout=_REQUEST_SECONDS,
                row_factory=tuple_factory,
            )
        },
    )
    try:
        # Else the first requests, and the counters, leave out nodes that are not connected yet.
        session = driver.connect(wait_for_all_pools=True)
    except FAILURES as error:
        driver.shutdown()
        hosts = ", ".join(map(str, endpoints))
        raise EngineError(f"cassandra: connect to {hosts}: {words_of(error)}") from error
    session.default_fetch_size = settings.page_rows

    return Shared(
        mode=mode,
        kinds=cluster.kinds,
        settings=settings,
        level=level,
        endpoints=endpoints,
        driver=driver,
        session=session,
    )


class CassandraLink(ProcessClient[Shared, Table]):
    """A session of the driver, which all threads of a process share."""

    engine_name = "cassandra"

    def __init__(
        self,
        shared: Shared,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(shared)
        self._clock, self._sleep = clock, sleep

    def _learn(self) -> None:
        """Take the schema that another client has created."""
        there = self._rows(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?", [KEYSPACE]
        )
        if (SCHEMA_TABLE,) not in there:
            return
        # Written on all nodes that hold it, so one of them is enough, whichever it is.
        rows = self._rows(
            f"SELECT content FROM {KEYSPACE}.{SCHEMA_TABLE} WHERE id = ?",
            [1],
            ConsistencyLevel.ONE,
        )
        if rows:
            schema, _ = described(rows[0][0], self._shared.kinds)
            with self._shared.lock:
                self._shared.schema = schema
                self._shared.tables = make_tables(schema, composite=True)

    def close(self) -> None:
        """Closes the connections of all threads."""
        with self._shared.lock:
            closed, self._shared.closed = self._shared.closed, True
        if not closed:
            self._shared.driver.shutdown()

    def _prepared(self, cql: str) -> Any:
        """The statement, prepared once in a process."""
        statement = self._shared.prepared.get(cql)
        if statement is None:
            statement = self._try("prepare", lambda: self._shared.session.prepare(cql))
            statement.is_idempotent = True
            self._shared.prepared[cql] = statement
        return statement

    def _rows(self, cql: str, values: Any = (), level: int | None = None) -> list[tuple[Any, ...]]:
        """All rows of a prepared statement, over all pages."""
        statement = self._prepared(cql)
        try:
            bound = statement.bind(values)
        except _FAILURES as error:
            raise self._error("bind", error) from error
        if level is not None:
            bound.consistency_level = level
        return self._try("query", lambda: list(self._shared.session.execute(bound)))

    def _rows_of(self, host: Any, cql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement as one node has them (virtual tables)."""
        return self._try("query", lambda: list(self._shared.session.execute(cql, host=host)))

    def _ddl(self, cql: str) -> None:
        self._try("create", lambda: self._shared.session.execute(cql))

    def _try(self, verb: str, action: Callable[[], _Result]) -> _Result:
        """Do what may be done twice, again for some seconds where no server answers."""
        self._check_open()
        try:
            return action()
        except PASSING:
            until = self._clock() + PATIENCE_SECONDS
        except _FAILURES as error:
            raise self._error(verb, error) from error
        with self._words(verb):
            self._sleep(_RECONNECT_SECONDS / 2)
            while self._clock() < until:
                try:
                    return action()
                except PASSING:
                    self._sleep(_RECONNECT_SECONDS / 2)
            return action()

    @contextmanager
    def _words(self, verb: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            raise self._error(verb, error) from error

    def _error(self, verb: str, error: BaseException) -> EngineError:
        words = words_of(error)
        if isinstance(error, (*PASSING, Unavailable)):
            words = f"{', '.join(map(str, self._shared.endpoints))}: {words}"
        return EngineError(f"cassandra: {verb}: {words}")
