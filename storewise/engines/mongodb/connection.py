"""How a process connects to a MongoDB cluster: options of MongoClient, its pool, its errors.

Retries and the choice of a server are the driver's
(https://pymongo.readthedocs.io/en/stable/api/pymongo/mongo_client.html).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bson.errors import BSONError
from pymongo import MongoClient, monitoring
from pymongo.errors import BulkWriteError, PyMongoError

from storewise.engines.contract.engine import Cluster, Endpoint, Engine, Mode
from storewise.engines.contract.server import Credentials
from storewise.engines.mongodb.codec import BsonCodec
from storewise.engines.mongodb.settings import WRITE_CONCERNS, MongoSettings
from storewise.engines.support.clients import ProcessState
from storewise.errors import EngineError

Connection = MongoClient[dict[str, Any]]

DATABASE = "storewise"
#: Name of the replica set where there are no shards.
SET_NAME = "set0"
#: What the driver raises, and Python for values that BSON cannot hold.
FAILURES = (PyMongoError, BSONError, OverflowError, UnicodeError)

#: By topology: the time to find a server (an election takes some ten seconds), and how long the
#: driver waits for a server's answer about its state before it closes all connections to it. No
#: other server can answer for a standalone one: if it stands still for a minute (a disk, SIGSTOP),
#: it is slow and not lost.
_TIMEOUTS = {
    "standalone": {"serverSelectionTimeoutMS": 5_000, "connectTimeoutMS": 120_000},
    "replica set": {"serverSelectionTimeoutMS": 30_000, "connectTimeoutMS": 10_000},
    "sharded": {"serverSelectionTimeoutMS": 15_000, "connectTimeoutMS": 10_000},
}


def host_port(endpoint: Endpoint) -> str:
    """``address:port`` as MongoDB writes it."""
    address = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"{address}:{endpoint.port}"


def error_message(error: Exception) -> str:
    """What went wrong, without the driver's dump of all it knows of the servers."""
    if isinstance(error, BulkWriteError):
        details = error.details
        first = [*details["writeErrors"], *details["writeConcernErrors"]][0]
        return str(first.get("errmsg", first))
    text = str(error)
    for mark in (", Timeout:", ", full error:", " (configured timeouts:"):
        text = text.split(mark, maxsplit=1)[0]
    return text or type(error).__name__


class PoolFiller(monitoring.ConnectionPoolListener):
    """Fills the driver's connection pool before a step: one connection for each thread.

    The driver opens a new connection only if all others are in use. So `fill` sends n nested pings
    from one thread: each starts in the event handler of the check-out for the one before.
    """

    def __init__(self) -> None:
        self._next: Callable[[], object] | None = None

    def fill(self, mongo: Connection, threads: int) -> None:
        """Open connections until the pool has `threads`. Call it under a lock, with no other
        operation running."""
        self._next = partial(self.fill, mongo, threads - 1) if threads > 1 else None
        mongo.admin.command("ping")

    def connection_checked_out(self, event: monitoring.ConnectionCheckedOutEvent) -> None:
        ping, self._next = self._next, None
        if ping is not None:
            ping()

    def pool_created(self, event: object) -> None: ...
    def pool_ready(self, event: object) -> None: ...
    def pool_cleared(self, event: object) -> None: ...
    def pool_closed(self, event: object) -> None: ...
    def connection_created(self, event: object) -> None: ...
    def connection_ready(self, event: object) -> None: ...
    def connection_closed(self, event: object) -> None: ...
    def connection_check_out_started(self, event: object) -> None: ...
    def connection_check_out_failed(self, event: object) -> None: ...
    def connection_checked_in(self, event: object) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[BsonCodec]):
    """What the clients of one process have in common."""

    settings: MongoSettings
    acknowledged: bool
    data: tuple[Endpoint, ...]
    seeds: tuple[Endpoint, ...]
    """The servers that a client knows at first: routers, else the data nodes."""
    sharded: bool
    connect: Callable[..., Connection]
    pool: PoolFiller
    threads: int = 0
    """Those that use the shared pool of connections."""
    opened: list[Connection] = field(default_factory=list)

    @contextmanager
    def errors(self, verb: str) -> Iterator[None]:
        """The driver's errors as EngineError."""
        try:
            yield
        except FAILURES as error:
            raise EngineError(f"mongodb: {verb}: {error_message(error)}") from error


def open_shared(engine: Engine, cluster: Cluster, mode: Mode) -> Shared:
    """What the clients of a process share; nothing is connected yet."""
    settings: MongoSettings = engine.settings_of(cluster.settings)
    write_concern = WRITE_CONCERNS[engine.level_of(cluster)]
    credentials = Credentials.of(cluster)
    data = tuple(e for e in cluster.endpoints if e.role == "data")
    routers = tuple(e for e in cluster.endpoints if e.role == "router")
    here = tuple(router for router in routers if router.host == socket.gethostname())
    topology: dict[str, Any]
    if routers:
        topology = _TIMEOUTS["sharded"]
    elif len(data) > 1:
        topology = {"replicaSet": SET_NAME, **_TIMEOUTS["replica set"]}
    else:
        topology = {"directConnection": True, **_TIMEOUTS["standalone"]}
    seeds = here or routers or data
    if not seeds:
        raise EngineError("mongodb: the cluster has no endpoints")
    pool = PoolFiller()
    connect = partial(
        MongoClient,
        [host_port(endpoint) for endpoint in seeds],
        username=credentials.user,
        password=credentials.password,
        authSource="admin",
        appname=DATABASE,
        maxPoolSize=None,
        readPreference=settings.read_preference,
        event_listeners=[pool],
        **write_concern,
        **topology,
    )
    return Shared(
        mode=mode,
        kinds=cluster.kinds,
        settings=settings,
        acknowledged=write_concern["w"] != 0,
        data=data,
        seeds=seeds,
        sharded=bool(routers),
        connect=connect,
        pool=pool,
    )
