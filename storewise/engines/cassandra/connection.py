"""The driver's sessions with Cassandra, and the errors after which a request is sent again.

Driver: https://docs.datastax.com/en/developer/python-driver/3.29/api/
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any, TypeVar

from cassandra import (
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    ReadTimeout,
    WriteTimeout,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile, NoHostAvailable
from cassandra.cluster import Cluster as Driver
from cassandra.connection import ConnectionException, DefaultEndPoint
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    LoadBalancingPolicy,
    TokenAwarePolicy,
    WhiteListRoundRobinPolicy,
)
from cassandra.protocol import ErrorMessage
from cassandra.query import tuple_factory

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import Credentials

_Result = TypeVar("_Result")

#: The only one, as SimpleSnitch calls it.
DATACENTER = "datacenter1"
#: Of the native protocol; 5 puts checksums around each frame, which cost a client time.
_PROTOCOL_VERSION = 4
#: Above the servers' own timeouts: they say more than "no answer".
_REQUEST_SECONDS = 75.0
_RECONNECT_SECONDS = 0.5
#: How long a client tries again, from its first failure: several times a server's own limit of a
#: read or write (10 s), so that a disk that hesitates is a response time and no failed trial.
RETRY_SECONDS = 30.0
#: What passes by itself: a server that goes, or comes back, or is slow.
TRANSIENT = (NoHostAvailable, ConnectionException, OperationTimedOut, ReadTimeout, WriteTimeout)
#: What the driver raises.
FAILURES = (DriverException, NoHostAvailable, ConnectionException, ErrorMessage, OSError)

# The driver logs each connection that fails; what matters is in the errors.
logging.getLogger("cassandra").setLevel(logging.CRITICAL)


def open_session(
    endpoints: Sequence[Endpoint],
    credentials: Credentials,
    level: int = ConsistencyLevel.ONE,
    balancing: LoadBalancingPolicy | None = None,
    tls: SSLContext | None = None,
) -> Any:
    """Connect and sign in; rows come as tuples. Raises `FAILURES`.

    `level` is the consistency level of every request; `balancing` selects the nodes for requests
    (default: replicas of the row). The session's ``cluster.shutdown()`` closes it.
    """
    profile = ExecutionProfile(
        balancing or TokenAwarePolicy(DCAwareRoundRobinPolicy(DATACENTER)),
        consistency_level=level,
        request_timeout=_REQUEST_SECONDS,
        row_factory=tuple_factory,
    )
    driver = Driver(
        [DefaultEndPoint(endpoint.address, endpoint.port) for endpoint in endpoints],
        auth_provider=PlainTextAuthProvider(credentials.user, credentials.password),
        ssl_context=tls,
        protocol_version=_PROTOCOL_VERSION,
        compression=False,
        control_connection_timeout=5.0,
        reconnection_policy=ConstantReconnectionPolicy(_RECONNECT_SECONDS, None),
        max_schema_agreement_wait=60,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
    )
    try:
        # Else the first requests leave out nodes that are not connected yet.
        return driver.connect(wait_for_all_pools=True)
    except BaseException:
        driver.shutdown()
        raise


@contextmanager
def node_session(
    endpoint: Endpoint, credentials: Credentials, tls: SSLContext | None = None
) -> Iterator[Any]:
    """A session with this node only, not with others that it knows. Raises `FAILURES`."""
    one_node = WhiteListRoundRobinPolicy([endpoint.address])
    session = open_session([endpoint], credentials, balancing=one_node, tls=tls)
    try:
        yield session
    finally:
        session.cluster.shutdown()


def retried(
    action: Callable[[], _Result],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _Result:
    """The result of `action`, tried again after a transient error for `RETRY_SECONDS`.

    All statements here may be sent twice: writes carry the client's time and overwrite. The driver
    itself tries other nodes; this waits where none answers.
    """
    until: float | None = None
    while True:
        try:
            return action()
        except TRANSIENT:
            # From the first failure: that of a server that stood still comes late.
            until = clock() + RETRY_SECONDS if until is None else until
            if clock() >= until:
                raise
        sleep(_RECONNECT_SECONDS / 2)
