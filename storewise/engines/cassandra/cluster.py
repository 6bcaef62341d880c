"""How Cassandra's nodes become one cluster: ring, roles, keyspace.

Roles: https://cassandra.apache.org/doc/5.0/cassandra/managing/operating/security.html
"""

from __future__ import annotations

from typing import Any

from cassandra import ConsistencyLevel

from storewise.engines.cassandra.connection import (
    DATACENTER,
    FAILURES,
    error_message,
    execute,
    node_session,
)
from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import ClusterContext, Credentials
from storewise.engines.support.servers import wait_until

#: Of all tables; made with the roles, when the number of replicas is known.
KEYSPACE = "storewise"
#: The role that Cassandra makes by itself, with a password that everybody knows.
DEFAULT_ROLE = "cassandra"
#: From the first answers of all nodes to one ring that each of them sees.
_RING_SECONDS = 180.0


def make_ring(context: ClusterContext) -> None:
    """Wait until the nodes form one ring, replicate the session's user to all of them and make the
    keyspace with the topology's replicas. Node data0 has created the user at its start, and calls
    this when all nodes are ready. EngineError with the node and its last answer if it takes too
    long.
    """
    endpoints, credentials = context.endpoints("data"), context.credentials
    first, nodes, replicas = endpoints[0], len(endpoints), context.topology.replicas

    def not_shared_reason() -> str | None:
        try:
            with node_session(first, credentials.user, credentials.password) as session:
                if nodes > 1:
                    execute(session, f"ALTER KEYSPACE system_auth WITH {_replication(nodes)}")
                # data0 has made the user alone: now each node gets a copy.
                drop_other_roles(session, credentials)
                keyspace = f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE}"
                execute(session, f"{keyspace} WITH {_replication(replicas)}")
                # A client makes tables at any node: each must know the keyspace.
                session.cluster.refresh_schema_metadata()
        except FAILURES as error:
            return error_message(error)
        return None

    for endpoint in endpoints:
        _await_ring(endpoint, nodes, context)
    complaint = f"cassandra: {first}: there is no user for the session"
    wait_until(not_shared_reason, _RING_SECONDS, complaint, context.raise_if_aborted)


def _await_ring(endpoint: Endpoint, nodes: int, context: ClusterContext) -> None:
    """Return when a node knows the tokens of all others."""
    credentials = context.credentials

    def pending_reason() -> str | None:
        try:
            with node_session(endpoint, credentials.user, credentials.password) as session:
                members = session.cluster.metadata.all_hosts()
        except FAILURES as error:
            return error_message(error)
        if len(members) == nodes:
            return None
        return (
            f"it knows {len(members)} of {nodes} nodes; look whether the nodes reach each other's "
            f"port {endpoint.ports['gossip']} (gossip)"
        )

    complaint = f"cassandra: {endpoint} has not become one ring with the others"
    wait_until(pending_reason, _RING_SECONDS, complaint, context.raise_if_aborted)


def drop_other_roles(session: Any, credentials: Credentials) -> None:
    """Remove all roles but the session's user, who is signed in; that user's row is read from all
    copies, and so written where it is missing."""
    for name, *_ in execute(session, "SELECT * FROM system_auth.roles", ConsistencyLevel.ALL):
        if name != credentials.user:
            execute(session, f'DROP ROLE IF EXISTS "{name}"')


def _replication(replicas: int) -> str:
    strategy = f"'class': 'NetworkTopologyStrategy', '{DATACENTER}': {replicas}"
    return f"replication = {{{strategy}}}"
