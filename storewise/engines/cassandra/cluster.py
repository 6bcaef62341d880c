"""Cassandra's nodes before and while they become one cluster: first answers, ring, roles.

Roles: https://cassandra.apache.org/doc/5.0/cassandra/managing/operating/security.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import Logger
from ssl import SSLContext
from typing import Any

from cassandra import AuthenticationFailed, ConsistencyLevel, DriverException, OperationTimedOut
from cassandra import RequestExecutionException as RequestFailed
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import DefaultConnection, NoHostAvailable
from cassandra.connection import ConnectionException, DefaultEndPoint
from cassandra.protocol import ErrorMessage, QueryMessage

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError

PROTOCOL = 4
#: Of all tables; made with the roles, when the number of replicas is known.
KEYSPACE = "storewise"
#: The role that Cassandra makes by itself, with a password that everybody knows.
DEFAULT_ROLE = "cassandra"
_ANSWER_SECONDS = 3.0
_QUERY_SECONDS = 60.0
#: From the first answers of all nodes to one ring that each of them sees.
_RING_SECONDS = 180.0
#: What the driver raises.
FAILURES = (
    ConnectionException,
    DriverException,
    ErrorMessage,
    NoHostAvailable,
    OperationTimedOut,
    OSError,
    RequestFailed,
)
_ROLES = "SELECT role FROM system_auth.roles"
_REFUSED = ("incorrect", "not permitted to log in", "Bad credentials")


def words_of(error: BaseException) -> str:
    """One line: what each host said, where there are several."""
    if isinstance(error, NoHostAvailable):
        reasons = {
            str(getattr(host, "endpoint", host)): words_of(reason)
            for host, reason in dict(error.errors or {}).items()
            if isinstance(reason, BaseException)
        }
        if reasons:
            return "no server answers: " + "; ".join(f"{h}: {w}" for h, w in reasons.items())
        # The driver gives up on nodes that it knows to be down without asking them.
        return "no server answers"
    text = error.summary_msg() if isinstance(error, ErrorMessage) else str(error)
    return " ".join(text.split()) or type(error).__name__


@contextmanager
def dialled(
    endpoint: Endpoint, user: str, password: str, tls: SSLContext | None = None
) -> Iterator[Any]:
    """One connection of the driver, without its pools; what the driver raises."""
    DefaultConnection.initialize_reactor()
    address = DefaultEndPoint(endpoint.address, endpoint.port)
    login = None
    if user:
        login = PlainTextAuthProvider(user, password).new_authenticator(endpoint.address)
    connection = DefaultConnection.factory(
        address,
        _ANSWER_SECONDS,
        authenticator=login,
        protocol_version=PROTOCOL,
        compression=False,
        ssl_context=tls,
    )
    try:
        yield connection
    finally:
        connection.close()


def not_started_reason(endpoint: Endpoint) -> str | None:
    """Why no server answers in Cassandra's protocol yet; None if one does. A server that asks for a
    login has started: no role is needed for this check."""
    try:
        with dialled(endpoint, "", ""):
            return None
    except AuthenticationFailed:
        return None
    except FAILURES as error:
        return words_of(error)


def query(
    endpoint: Endpoint, user: str, password: str, cql: str, level: int = ConsistencyLevel.ONE
) -> list[tuple[Any, ...]]:
    """The rows of one statement on one node; what the driver raises."""
    with dialled(endpoint, user, password) as connection:
        return ask(connection, cql, level)


def ask(connection: Any, cql: str, level: int = ConsistencyLevel.ONE) -> list[tuple[Any, ...]]:
    """The same on a connection that is open."""
    answer = connection.wait_for_response(QueryMessage(cql, level), timeout=_QUERY_SECONDS)
    return [tuple(row) for row in getattr(answer, "parsed_rows", None) or ()]


def refused(error: BaseException) -> bool:
    """Whether a server has refused the role or its password (and not just failed to look)."""
    return isinstance(error, AuthenticationFailed) and any(w in str(error) for w in _REFUSED)


def not_ready_reason(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """Why the node does not answer a query of the session's user yet; None if it does. EngineError
    if it refuses the user or password."""
    try:
        cql = "SELECT release_version FROM system.local"
        query(endpoint, credentials.user, credentials.password, cql)
    except FAILURES as error:
        if refused(error):
            raise EngineError(
                f"cassandra: {endpoint} refuses the user or password of this session"
            ) from error
        return words_of(error)
    return None


def establish(
    endpoints: tuple[Endpoint, ...],
    credentials: Credentials,
    replicas: int,
    check: Callable[[], None],
    log: Logger,
) -> None:
    """Wait until the nodes form one ring, replicate the session's user to all of them and make the
    keyspace with `replicas` of each row. Node data0 has created the user at its start.

    Run once, for the first of `endpoints`, when all are ready. EngineError with the node and its
    last answer if this takes too long.
    """
    first, nodes = endpoints[0], len(endpoints)
    login = (credentials.user, credentials.password)

    def unshared() -> str | None:
        try:
            _share_user(first, credentials, nodes)
            query(first, *login, _keyspace_cql(replicas))
        except FAILURES as error:
            return words_of(error)
        return None

    for endpoint in endpoints:
        _await_ring(endpoint, nodes, login, check)
    complaint = f"cassandra: {first}: there is no user for the session"
    wait_until(unshared, _RING_SECONDS, complaint, check)
    for endpoint in endpoints:
        # A client makes tables at any node: each must know the keyspace.
        _await_ring(endpoint, nodes, login, check)
    log.info("cassandra: %d nodes are one ring; the session's user is the only one", nodes)


def _await_ring(
    endpoint: Endpoint, nodes: int, login: tuple[str, str], check: Callable[[], None]
) -> None:
    """Return when a node knows the tokens and the schema of all others."""

    def lacking() -> str | None:
        try:
            rows = query(endpoint, *login, "SELECT tokens, schema_version FROM system.peers_v2")
            rows += query(endpoint, *login, "SELECT tokens, schema_version FROM system.local")
        except FAILURES as error:
            return words_of(error)
        members = [row for row in rows if row[0]]
        schemas = {row[1] for row in members}
        if len(members) == nodes and len(schemas) == 1:
            return None
        return (
            f"it knows {len(members)} of {nodes} nodes and {len(schemas)} schemas; look whether "
            f"the nodes reach each other's port {endpoint.ports.get('gossip', '')} (gossip)"
        )

    complaint = f"cassandra: {endpoint} has not become one ring with the others"
    wait_until(lacking, _RING_SECONDS, complaint, check)


def _share_user(endpoint: Endpoint, credentials: Credentials, nodes: int) -> None:
    """Copies of the session's user on all nodes, and no other role."""
    with dialled(endpoint, credentials.user, credentials.password) as connection:
        if nodes > 1:
            ask(
                connection,
                "ALTER KEYSPACE system_auth WITH replication = "
                f"{{'class': 'NetworkTopologyStrategy', 'datacenter1': {nodes}}}",
            )
        # data0 made it alone: a read of all copies writes those that are missing.
        ask(
            connection,
            f"SELECT * FROM system_auth.roles WHERE role = '{credentials.user}'",
            ConsistencyLevel.ALL,
        )
        drop_others(connection, credentials)


def drop_others(connection: Any, credentials: Credentials) -> None:
    """Remove all roles but the session's user, who is logged in."""
    for (name,) in ask(connection, _ROLES, ConsistencyLevel.ALL):
        if name != credentials.user:
            ask(connection, f'DROP ROLE IF EXISTS "{name}"')


def _keyspace_cql(replicas: int) -> str:
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', 'datacenter1': {replicas}}}"
    )
