"""From MongoDB's servers to one cluster: replica sets, the session's user, shards.

Servers trust whoever knows their key file: they let it log in as the internal user ``__system``
(https://www.mongodb.com/docs/manual/reference/built-in-roles/#internal-role), from any host and
before any user exists. The bootstrap does this: the localhost exception, by which a first user is
made elsewhere, would let in any user of the host, and is off. Clients then come as the session's
user, who can do less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pymongo import MongoClient
from pymongo.errors import (
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.write_concern import WriteConcern

from storewise.engines.contract.engine import Endpoint
from storewise.engines.contract.server import BootstrapContext, Credentials, Topology
from storewise.engines.support.servers import wait_until
from storewise.errors import EngineError

Connection = MongoClient[dict[str, Any]]

DATABASE = "storewise"
#: Name of the replica set where there are no shards, and of the config servers' one.
SET_NAME = "set0"
CONFIG_SET = "config"

#: "This server cannot now": the retryable errors of MongoDB's retryable writes specification.
PASSING = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
_AUTHENTICATION_FAILED = 18
_USER_EXISTS, _ROLE_EXISTS = 51003, 51002
_ALREADY_INITIALIZED = 23
_ROLE = "storewise"
_LOOK_EVERY = 0.1
#: To find a server that has answered already, s.
_SECONDS = 30.0
#: Limit of a step of the bootstrap, seconds (a first initial sync of nothing takes one).
_STEP_SECONDS = 180.0
_FIRST_PRIORITY = 2
_PRIMARY, _SECONDARY = 1, 2


def host_port(endpoint: Endpoint) -> str:
    """``address:port`` as MongoDB writes it."""
    address = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"{address}:{endpoint.port}"


def shard_name(number: int) -> str:
    """Of a shard and of its replica set."""
    return f"shard{number}"


def words_of(error: Exception) -> str:
    """What went wrong, without the driver's dump of all it knows of the servers."""
    text = str(error)
    for mark in (", Timeout:", ", full error:", " (configured timeouts:"):
        text = text.split(mark, maxsplit=1)[0]
    return text or type(error).__name__


def refused(error: OperationFailure) -> bool:
    """Whether the server refuses who we say we are."""
    return error.code == _AUTHENTICATION_FAILED


def as_system(endpoint: Endpoint, credentials: Credentials, seconds: float) -> Connection:
    """One mongod itself, as the internal user; `seconds` to find it, at most. To be closed.

    Routers have no internal user: mongos refuses the database that it logs in to.
    """
    return _direct(endpoint, seconds, "__system", credentials.key, "local")


def as_user(endpoint: Endpoint, credentials: Credentials, seconds: float) -> Connection:
    """One server itself, as the session's user. To be closed."""
    return _direct(endpoint, seconds, credentials.user, credentials.password, "admin")


def _direct(
    endpoint: Endpoint, seconds: float, user: str, password: str, database: str
) -> Connection:
    milliseconds = int(seconds * 1000)
    return MongoClient(
        host_port(endpoint),
        directConnection=True,
        username=user,
        password=password,
        authSource=database,
        appname=DATABASE,
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=max(milliseconds, 10_000),
    )


def not_ready_reason(endpoint: Endpoint, credentials: Credentials) -> str | None:
    """Why the server does not answer the session's user yet; None if it does. EngineError if it
    never will."""
    router = endpoint.role == "router"
    log_in = as_user if router else as_system
    try:
        with log_in(endpoint, credentials, 1.0) as connection:
            connection.admin.command("ping")
    except ConnectionFailure as error:
        return words_of(error)
    except OperationFailure as error:
        # A router may answer before the bootstrap has made the user.
        if error.code in PASSING or (router and refused(error)):
            return words_of(error)
        if refused(error):
            raise EngineError(
                f"MongoDB at {host_port(endpoint)} refuses this session's key: "
                "another server has taken the port, or another session's credentials are here"
            ) from error
        raise EngineError(f"MongoDB at {host_port(endpoint)}: {words_of(error)}") from error
    return None


def is_sharded(topology: Topology, always: bool) -> bool:
    """One shard needs no routers, unless the study asks for them."""
    return topology.nodes > 1 or topology.routers > 0 or always


class Bootstrap:
    """Makes one cluster of the servers of a session."""

    def __init__(self, context: BootstrapContext) -> None:
        self._context = context
        self._credentials = context.credentials

    def run(self, *, sharded: bool) -> None:
        """Returns when clients can connect; EngineError with the servers' words."""
        try:
            if sharded:
                self._make_shards()
            else:
                data = self._context.endpoints("data")
                self._make_sets({SET_NAME: data} if len(data) > 1 else {})
                self._make_user(data[0])
        except OperationFailure as error:
            raise EngineError(f"MongoDB cannot be formed: {words_of(error)}") from error
        except PyMongoError as error:
            raise EngineError(f"MongoDB: lost while it was formed: {words_of(error)}") from error

    def _make_shards(self) -> None:
        # Routers answer only when the config servers are a replica set: so first these.
        self._make_sets({CONFIG_SET: self._context.endpoints("config")})
        data = self._context.endpoints("data")
        size = self._context.topology.replicas
        shards = {
            shard_name(start // size): data[start : start + size]
            for start in range(0, len(data), size)
        }
        self._make_sets(shards)
        router = self._context.endpoints("router")[0]
        with as_user(router, self._credentials, _SECONDS) as connection:
            for name, members in shards.items():
                hosts = ",".join(map(host_port, members))
                connection.admin.command("addShard", f"{name}/{hosts}", name=name)
                self._context.log.info("%s has %s", name, hosts)

    def _make_sets(self, sets: Mapping[str, Sequence[Endpoint]]) -> None:
        """Replica sets by name, each with the session's user."""
        for name, members in sets.items():
            self._initiate(name, members)
        for name, members in sets.items():
            self._await_primary(name, members)
            self._make_user(members[0])
        for name, members in sets.items():
            self._await_members(name, members)

    def _connected(self, endpoint: Endpoint) -> Connection:
        return as_system(endpoint, self._credentials, _SECONDS)

    def _await(self, lacking: Callable[[], str | None], complaint: str) -> None:
        wait_until(
            lacking,
            _STEP_SECONDS,
            f"MongoDB: {complaint}",
            self._context.raise_if_aborted,
            poll=_LOOK_EVERY,
        )

    def _initiate(self, name: str, members: Sequence[Endpoint]) -> None:
        """The first member has the highest priority: it is the primary unless it fails, so that
        the places of primaries are no accident of an election."""
        config: dict[str, Any] = {
            "_id": name,
            "members": [
                {"_id": n, "host": host_port(member), "priority": 1 if n else _FIRST_PRIORITY}
                for n, member in enumerate(members)
            ],
        }
        if name == CONFIG_SET:
            config["configsvr"] = True
        with self._connected(members[0]) as connection:
            _command_once(connection, _ALREADY_INITIALIZED, "replSetInitiate", config)

    def _await_primary(self, name: str, members: Sequence[Endpoint]) -> None:
        """Until the first member takes writes: it is the primary, by its priority.

        Elections begin after ten seconds without a primary. The member is asked to step up at
        once; where it cannot yet, time brings the election.
        """
        with self._connected(members[0]) as connection:

            def lacking() -> str | None:
                try:
                    hello = connection.admin.command("hello")
                    if hello.get("isWritablePrimary"):
                        return None
                    if hello.get("secondary") and len(members) > 1:
                        connection.admin.command("replSetStepUp")
                    return str(hello.get("info", "no election yet"))
                except ServerSelectionTimeoutError:
                    raise
                except (OperationFailure, ConnectionFailure) as error:
                    # A change of state closes connections and interrupts commands.
                    return words_of(error)

            self._await(lacking, f"replica set {name} has no primary")

    def _await_members(self, name: str, members: Sequence[Endpoint]) -> None:
        """Until every member serves, and has what the first one had: the user was acknowledged by
        most of them only."""
        with self._connected(members[0]) as connection:
            status = connection.admin.command("replSetGetStatus")
            target = status["optimes"]["appliedOpTime"]["ts"]

            def lacking() -> str | None:
                status = connection.admin.command("replSetGetStatus")
                behind = [
                    f"{member['name']} {member['stateStr']} at {member.get('optime')}"
                    for member in status["members"]
                    if member["state"] not in (_PRIMARY, _SECONDARY)
                    or member["optime"]["ts"] < target
                ]
                return ", ".join(behind) or None

            self._await(lacking, f"replica set {name} is not complete")

    def _make_user(self, primary: Endpoint) -> None:
        """The session's user: reads and writes, and shards collections."""
        concern = WriteConcern("majority").document
        checkpoint = {"resource": {"cluster": True}, "actions": ["fsync"]}
        roles = [
            {"role": "readWrite", "db": DATABASE},
            {"role": "dbAdmin", "db": DATABASE},
            {"role": "clusterMonitor", "db": "admin"},
            {"role": "clusterManager", "db": "admin"},
            {"role": _ROLE, "db": "admin"},
        ]
        role = {"privileges": [checkpoint], "roles": [], "writeConcern": concern}
        user = {"pwd": self._credentials.password, "roles": roles, "writeConcern": concern}
        with self._connected(primary) as connection:
            _command_once(connection, _ROLE_EXISTS, "createRole", _ROLE, **role)
            _command_once(connection, _USER_EXISTS, "createUser", self._credentials.user, **user)


def _command_once(
    connection: Connection, done: int, command: str, value: Any, **options: Any
) -> None:
    """A command of the database `admin`; the error that tells that it was done before counts as
    success."""
    try:
        connection.admin.command(command, value, **options)
    except OperationFailure as error:
        if error.code != done:
            raise
