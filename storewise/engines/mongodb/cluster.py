"""From MongoDB's servers to one cluster: replica sets, the session's user, shards.

Servers trust whoever knows their key file: they let it sign in as the internal user ``__system``
(https://www.mongodb.com/docs/manual/reference/built-in-roles/#internal-role), from any host and
before any user exists. The bootstrap does this: the localhost exception, by which a first user is
made elsewhere, would let in any user of the host, and is off. Clients then come as the session's
user, who can do less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import ClusterContext, Credentials, Node
from storewise.engines.mongodb.connection import (
    DATABASE,
    SET_NAME,
    Connection,
    error_message,
    host_port,
)
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError

_AUTHENTICATION_FAILED = 18
_ROLE = "checkpoint"
#: Limit of a step of the bootstrap (a first initial sync of nothing takes a second).
_STEP_SECONDS = 180.0


def as_system(endpoint: Endpoint, credentials: Credentials, seconds: float = 30.0) -> Connection:
    """A client of one mongod, signed in as the internal user within `seconds`. To be closed.

    Routers have no internal user: mongos refuses the database that it signs in to.
    """
    login = {"username": "__system", "password": credentials.key, "authSource": "local"}
    return _direct(endpoint, seconds, login)


def as_user(endpoint: Endpoint, credentials: Credentials, seconds: float = 30.0) -> Connection:
    """A client of this server only, signed in as the session's user. To be closed."""
    login = {"username": credentials.user, "password": credentials.password}
    return _direct(endpoint, seconds, login)


def _direct(endpoint: Endpoint, seconds: float, login: dict[str, Any]) -> Connection:
    select_ms = int(seconds * 1000)
    return MongoClient(
        host_port(endpoint), directConnection=True, serverSelectionTimeoutMS=select_ms, **login
    )


def not_ready_reason(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """The reason why the server is not ready; None if it is. EngineError if it never will be.

    A router is tested as the session's user, a mongod as the internal user: the bootstrap makes the
    session's user later.
    """
    router = endpoint.role == "router"
    log_in = as_user if router else as_system
    try:
        with log_in(endpoint, credentials, 1.0) as mongo:
            mongo.admin.command("ping")
    except PyMongoError as error:
        code = error.code if isinstance(error, OperationFailure) else None
        if code == _AUTHENTICATION_FAILED and not router:
            raise EngineError(
                f"MongoDB at {host_port(endpoint)} refuses this session's key: "
                "another server has taken the port, or another session's credentials are here"
            ) from error
        return error_message(error)
    return None


def wait_recovered(node: Node, raise_if_aborted: Callable[[], None]) -> None:
    """Wait until a mongod that was started again is primary or secondary: before that it replays
    its journal and the others' log of operations (states STARTUP2 and RECOVERING)."""
    spec = node.spec
    endpoint = Endpoint(spec.role, spec.index, "", node.address, node.port)

    def pending_reason() -> str | None:
        try:
            with as_system(endpoint, node.credentials) as mongo:
                hello = mongo.admin.command("hello")
        except PyMongoError as error:
            return error_message(error)
        serves = hello["isWritablePrimary"] or hello.get("secondary")
        return None if serves else "it is neither primary nor secondary yet"

    what = f"MongoDB: {spec.name} does not serve again"
    wait_until(pending_reason, _STEP_SECONDS, what, raise_if_aborted)


def bootstrap(context: ClusterContext, *, sharded: bool) -> None:
    """Make one cluster of the servers of a session; returns when clients can connect."""
    try:
        data = context.endpoints("data")
        if sharded:
            _make_shards(context, data)
        elif len(data) > 1:
            _make_replica_sets(context, {SET_NAME: data})
        else:
            _make_user(context, data)
    except PyMongoError as error:
        raise EngineError(f"MongoDB: the bootstrap failed: {error_message(error)}") from error


def _make_shards(context: ClusterContext, data: Sequence[Endpoint]) -> None:
    # Routers answer only when the config servers are a replica set: so first these.
    _make_replica_sets(context, {"config": context.endpoints("config")})
    size = context.topology.replicas
    shards = {f"shard{n // size}": data[n : n + size] for n in range(0, len(data), size)}
    _make_replica_sets(context, shards)
    router = context.endpoints("router")[0]
    with as_user(router, context.credentials) as mongo:
        for name, members in shards.items():
            hosts = ",".join(map(host_port, members))
            mongo.admin.command("addShard", f"{name}/{hosts}", name=name)


def _make_replica_sets(context: ClusterContext, sets: Mapping[str, Sequence[Endpoint]]) -> None:
    """Replica sets by name, each with the session's user."""
    for name, members in sets.items():
        _initiate(context, name, members)
    for name, members in sets.items():
        _await_members(context, name, members)
        _make_user(context, members)


def _initiate(context: ClusterContext, name: str, members: Sequence[Endpoint]) -> None:
    """The first member has the highest priority: it is the primary unless it fails, so that the
    places of primaries are no accident of an election."""
    config: dict[str, Any] = {
        "_id": name,
        "members": [
            {"_id": n, "host": host_port(member), "priority": 1 if n else 2}
            for n, member in enumerate(members)
        ],
    }
    if name == "config":
        config["configsvr"] = True
    with as_system(members[0], context.credentials) as mongo:
        mongo.admin.command("replSetInitiate", config)


def _await_members(context: ClusterContext, name: str, members: Sequence[Endpoint]) -> None:
    """Wait until the first member is primary and all others are secondaries.

    Elections begin after ten seconds without a primary, so the member is asked to step up at once;
    if it cannot yet, an election follows.
    """
    with as_system(members[0], context.credentials) as mongo:

        def pending_reason() -> str | None:
            try:
                hello = mongo.admin.command("hello")
                if hello["secondary"] and len(members) > 1:
                    mongo.admin.command("replSetStepUp")
                states = {
                    member["name"]: member["stateStr"]
                    for member in mongo.admin.command("replSetGetStatus")["members"]
                }
            except PyMongoError as error:
                # A change of state closes connections and interrupts commands.
                return error_message(error)
            if hello["isWritablePrimary"] and set(states.values()) <= {"PRIMARY", "SECONDARY"}:
                return None
            return ", ".join(f"{member} is {state}" for member, state in states.items())

        wait_until(
            pending_reason,
            _STEP_SECONDS,
            f"MongoDB: replica set {name} is not complete",
            context.raise_if_aborted,
            poll=0.1,
        )


def _make_user(context: ClusterContext, members: Sequence[Endpoint]) -> None:
    """The session's user, known to all members: reads and writes, and shards collections."""
    concern = {"w": len(members), "wtimeout": int(1000 * _STEP_SECONDS)}
    fsync = {"resource": {"cluster": True}, "actions": ["fsync"]}
    roles = [
        {"role": "readWrite", "db": DATABASE},
        {"role": "dbAdmin", "db": DATABASE},
        {"role": "clusterManager", "db": "admin"},
        {"role": _ROLE, "db": "admin"},
    ]
    with as_system(members[0], context.credentials) as mongo:
        mongo.admin.command("createRole", _ROLE, privileges=[fsync], roles=[], writeConcern=concern)
        mongo.admin.command(
            "createUser",
            context.credentials.user,
            pwd=context.credentials.password,
            roles=roles,
            writeConcern=concern,
        )
