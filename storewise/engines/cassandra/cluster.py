"""Forming of a Cassandra cluster: ring, roles, keyspace.

Roles: https://cassandra.apache.org/doc/5.0/cassandra/managing/operating/security.html
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement

from storewise.engines.cassandra.connection import DATACENTER, FAILURES, node_session
from storewise.engines.contract.server import ClusterContext, Credentials
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError

#: Of all tables; made with the roles, when the number of replicas is known.
KEYSPACE = "storewise"
#: From the first answers of all nodes to one ring that each of them sees.
_RING_SECONDS = 180.0


def make_ring(context: ClusterContext) -> None:
    """Wait until each node sees the whole ring, replicate the session's user to all of them and
    make the keyspace with the topology's replicas. Node data0 has created the user at its start,
    and calls this when all nodes are ready. EngineError with the last reason if it takes too long.
    """
    endpoints, credentials = context.endpoints("data"), context.credentials
    nodes = len(endpoints)

    def split_reason() -> str | None:
        try:
            for endpoint in endpoints:
                with node_session(endpoint, credentials) as session:
                    known = len(session.cluster.metadata.all_hosts())
                if known != nodes:
                    return (
                        f"{endpoint} knows {known} of {nodes} nodes; look whether the nodes reach "
                        f"each other's port {endpoint.ports['gossip']} (gossip)"
                    )
        except FAILURES as error:
            return str(error)
        return None

    complaint = "cassandra: the nodes have not become one ring"
    wait_until(split_reason, _RING_SECONDS, complaint, context.raise_if_aborted)
    try:
        # From the first change on a node may look for the user where no copy is yet, and refuse the
        # password: this session stays until all have one.
        with node_session(endpoints[0], credentials) as session:
            complaint = "cassandra: the nodes do not share the session's user"
            share = partial(_unshared_reason, session, context)
            wait_until(share, _RING_SECONDS, complaint, context.raise_if_aborted)
    except FAILURES as error:
        raise EngineError(f"cassandra: {endpoints[0]}: {error}") from error


def _unshared_reason(session: Any, context: ClusterContext) -> str | None:
    """Copy the session's user to each node, and make the keyspace; the reason of a failure."""
    nodes, replicas = context.topology.nodes, context.topology.replicas
    try:
        if nodes > 1:
            session.execute(f"ALTER KEYSPACE system_auth WITH {_replication(nodes)}")
        # data0 has made the user alone: now each node gets a copy.
        drop_other_roles(session, context.credentials)
        keyspace = f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE}"
        session.execute(f"{keyspace} WITH {_replication(replicas)}")
        # A client makes tables at any node: each must know the keyspace.
        session.cluster.refresh_schema_metadata()
    except FAILURES as error:
        return str(error)
    return None


def drop_other_roles(session: Any, credentials: Credentials) -> None:
    """Remove all roles except the session's user, who is signed in. That user's row is read from
    all replicas, which adds it where it is missing."""
    cql, everywhere = "SELECT * FROM system_auth.roles", ConsistencyLevel.ALL
    for name, *_ in list(session.execute(SimpleStatement(cql, consistency_level=everywhere))):
        if name != credentials.user:
            session.execute(f'DROP ROLE IF EXISTS "{name}"')


def _replication(replicas: int) -> str:
    strategy = f"'class': 'NetworkTopologyStrategy', '{DATACENTER}': {replicas}"
    return f"replication = {{{strategy}}}"
