"""A process's connection to a MongoDB cluster: pools, words of errors, what was created."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pymongo
from bson.errors import BSONError
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import (
    AutoReconnect,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.monitoring import (
    ConnectionCheckedInEvent,
    ConnectionCheckedOutEvent,
    ConnectionCheckOutFailedEvent,
    ConnectionCheckOutStartedEvent,
    ConnectionClosedEvent,
    ConnectionCreatedEvent,
    ConnectionPoolListener,
    ConnectionReadyEvent,
    PoolClearedEvent,
    PoolClosedEvent,
    PoolCreatedEvent,
    PoolReadyEvent,
)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from storewise.documents import Kind
from storewise.engines.contract.engine import Cluster, Endpoint, Engine, Mode
from storewise.engines.contract.server import Credentials
from storewise.engines.mongodb.cluster import (
    DATABASE,
    SET_NAME,
    Connection,
    host_port,
    refused,
    words_of,
)
from storewise.engines.mongodb.documents import Form, forms_of
from storewise.engines.mongodb.settings import WRITE_CONCERNS, MongoSettings
from storewise.engines.mongodb.sharding import RoutingTable, check_key_field, key_field
from storewise.engines.support.clients import ProcessClient, ProcessState
from storewise.engines.support.table import described
from storewise.errors import EngineError

_Result = TypeVar("_Result")
MongoCollection = Collection[dict[str, Any]]

#: Where the schema of the other collections is kept, for clients that connect later.
SCHEMA = "schema"
_TRIES = 3
#: What the driver raises, and Python for values that BSON cannot hold.
_FAILURES = (PyMongoError, BSONError, OverflowError, UnicodeError)

#: Time to find a server, s. An election takes ten seconds or so, and the driver waits it out.
_SELECT_SECONDS = {"one": 5.0, "set": 30.0, "routers": 15.0}
_CONNECT_SECONDS = 10.0
#: How long the driver waits for the answer to its own questions after the state of a server, then
#: closes the connections that wait for anything. A server that has no stand-in may stand still for
#: longer (a disk, SIGSTOP) and is then slow; where there are others they are asked the sooner.
_STATE_SECONDS = {"one": 120.0, "set": 10.0, "routers": 10.0}
_READ_PREFERENCES = {
    "primary": ReadPreference.PRIMARY,
    "primaryPreferred": ReadPreference.PRIMARY_PREFERRED,
    "secondary": ReadPreference.SECONDARY,
    "secondaryPreferred": ReadPreference.SECONDARY_PREFERRED,
    "nearest": ReadPreference.NEAREST,
}


class PoolFiller(ConnectionPoolListener):
    """Fills the driver's connection pool before a step: one connection for each thread.

    The driver opens a new connection only if all others are in use. So `fill` sends n nested pings
    from one thread: each starts in the event handler of the check-out for the one before.
    """

    def __init__(self) -> None:
        self._ready: set[tuple[Any, int]] = set()
        self._next: Callable[[], object] | None = None

    def fill(self, mongo: Connection, threads: int) -> None:
        """Open connections until the pool has `threads`. Call it under a lock, with no other
        operation running."""

        def ping(more: int) -> None:
            self._next = partial(ping, more - 1) if more else None
            mongo.admin.command("ping")

        if len(self._ready) < threads:
            ping(threads - 1)

    def connection_checked_out(self, event: ConnectionCheckedOutEvent) -> None:
        more, self._next = self._next, None
        if more is not None:
            more()

    def connection_ready(self, event: ConnectionReadyEvent) -> None:
        self._ready.add((event.address, event.connection_id))

    def connection_closed(self, event: ConnectionClosedEvent) -> None:
        self._ready.discard((event.address, event.connection_id))

    def pool_created(self, event: PoolCreatedEvent) -> None: ...
    def pool_ready(self, event: PoolReadyEvent) -> None: ...
    def pool_cleared(self, event: PoolClearedEvent) -> None: ...
    def pool_closed(self, event: PoolClosedEvent) -> None: ...
    def connection_created(self, event: ConnectionCreatedEvent) -> None: ...
    def connection_check_out_started(self, event: ConnectionCheckOutStartedEvent) -> None: ...
    def connection_check_out_failed(self, event: ConnectionCheckOutFailedEvent) -> None: ...
    def connection_checked_in(self, event: ConnectionCheckedInEvent) -> None: ...


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Form]):
    """What the clients of one process have in common."""

    settings: MongoSettings
    concern: WriteConcern
    data: tuple[Endpoint, ...]
    seeds: tuple[Endpoint, ...]
    sharded: bool
    connect: Callable[..., Connection]
    pool: PoolFiller
    threads: int = 0
    """Those that use the shared pool of connections."""
    routing: dict[Kind, RoutingTable | None] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    opened: list[Connection] = field(default_factory=list)


def open_shared(engine: Engine, cluster: Cluster, mode: Mode) -> Shared:
    """What the clients of a process share; nothing is connected yet."""
    settings: MongoSettings = engine.settings_of(cluster.settings)
    check_key_field(settings, cluster.kinds)
    concern = WRITE_CONCERNS[engine.level_of(cluster)]
    credentials = Credentials.of(cluster)
    data = tuple(e for e in cluster.endpoints if e.role == "data")
    routers = tuple(e for e in cluster.endpoints if e.role == "router")
    sharded = bool(routers) or any(e.role == "config" for e in cluster.endpoints)
    seeds = routers if sharded else data
    if not seeds:
        raise EngineError(
            f"mongodb: the cluster has no endpoints of {'routers' if sharded else 'data nodes'}"
        )
    shape = "routers" if sharded else "set" if len(data) > 1 else "one"

    def connect(endpoints: Sequence[Endpoint] = seeds, **options: Any) -> Connection:
        options.setdefault("serverSelectionTimeoutMS", int(_SELECT_SECONDS[shape] * 1000))
        return MongoClient(
            [host_port(endpoint) for endpoint in endpoints],
            username=credentials.user,
            password=credentials.password,
            authSource="admin",
            appname=DATABASE,
            connectTimeoutMS=int(_STATE_SECONDS[shape] * 1000),
            maxPoolSize=options.pop("maxPoolSize", None),
            **options,
        )

    def connect_cluster(**options: Any) -> Connection:
        if shape == "routers":
            options["server_selector"] = _own_host_first(routers)
        elif shape == "set":
            options["replicaSet"] = SET_NAME
        else:
            options["directConnection"] = True
        return connect(seeds, **options)

    pool = PoolFiller()
    return Shared(
        pool=pool,
        mode=mode,
        kinds=cluster.kinds,
        settings=settings,
        concern=concern,
        data=data,
        seeds=seeds,
        sharded=sharded,
        connect=partial(connect_cluster, event_listeners=[pool]),
    )


def _own_host_first(routers: Sequence[Endpoint]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The routers of this host, where they answer; else all."""
    here = socket.gethostname()
    here_first = {(e.address, e.port) for e in routers if e.host == here}

    def select(servers: Sequence[Any]) -> Sequence[Any]:
        near = [server for server in servers if server.address in here_first]
        return near or servers

    return select


class MongoLink(ProcessClient[Shared, Form]):
    """A connection pool and what its verbs stand on."""

    engine_name = "mongodb"

    def __init__(self, shared: Shared, mongo: Connection) -> None:
        super().__init__(shared)
        self._mongo = mongo
        shared.opened.append(mongo)
        settings = shared.settings
        database = mongo.get_database(
            DATABASE,
            write_concern=shared.concern,
            read_preference=_READ_PREFERENCES[settings.read_preference],
            read_concern=ReadConcern(settings.read_concern),
        )
        self._collections: dict[Kind, MongoCollection] = {
            kind: database[kind.table] for kind in shared.kinds
        }
        self._keys = {kind: key_field(kind, settings) for kind in shared.kinds}

    def check_connection(self) -> None:
        """Log in; EngineError if no server answers or the password is refused."""
        with self._words("connect"):
            try:
                with pymongo.timeout(_CONNECT_SECONDS):
                    self._mongo.admin.command("ping")
            except OperationFailure as error:
                if refused(error):
                    hosts = ", ".join(map(host_port, self._shared.seeds))
                    raise EngineError(
                        f"mongodb: {hosts} refuses the user or password of this session"
                    ) from error
                raise

    def _schemas(self, concern: WriteConcern | None = None) -> MongoCollection:
        return self._mongo[DATABASE][SCHEMA].with_options(write_concern=concern)

    def _learn(self) -> None:
        """Take the schema that another client has created."""
        with self._words("connect"):
            record = self._schemas().find_one({"_id": SCHEMA})
        if record is None:
            return
        schema, _ = described(record["content"], self._shared.kinds)
        forms = forms_of(schema.kinds, study_fields=schema.study_fields)
        with self._shared.lock:
            self._shared.schema, self._shared.tables = schema, forms

    def close(self) -> None:
        """Closes the connections of all threads."""
        for mongo in self._shared.opened:
            mongo.close()

    def _try(self, verb: str, action: Callable[[], _Result]) -> _Result:
        """Do what may be done twice, again where a primary was lost on the way."""
        with self._words(verb):
            for _ in range(_TRIES - 1):
                try:
                    return action()
                except ServerSelectionTimeoutError:
                    raise
                except AutoReconnect:
                    continue
            return action()

    @contextmanager
    def _words(self, verb: str) -> Iterator[None]:
        try:
            yield
        except ServerSelectionTimeoutError as error:
            # The driver names no server while its first attempts are still on their way.
            words, hosts = words_of(error), [host_port(e) for e in self._shared.seeds]
            if not any(host in words for host in hosts):
                words = f"{', '.join(hosts)}: {words}"
            raise EngineError(f"mongodb: {verb}: {self._who(words)}") from error
        except _FAILURES as error:
            raise EngineError(f"mongodb: {verb}: {self._who(words_of(error))}") from error

    def _who(self, words: str) -> str:
        """A driver's "timed out", with the names of servers that it has only by address."""
        if not words.endswith("timed out"):
            return words
        for server in {*self._shared.data, *self._shared.seeds}:
            where = host_port(server)
            words = words.replace(where, f"{server.name} on host {server.host} at {where}")
        return f"{words}: the server, its host or the network stands still"
