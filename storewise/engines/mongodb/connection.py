"""Connections to a MongoDB cluster: options of MongoClient, its pool, its errors.

Retries and the choice of a server are the driver's
(https://pymongo.readthedocs.io/en/stable/api/pymongo/mongo_client.html).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Barrier, BrokenBarrierError
from typing import Any

from bson.codec_options import CodecOptions
from bson.errors import BSONError
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, PyMongoError

from storewise.engines.contract.engine import Cluster, Endpoint, Engine, Mode
from storewise.engines.contract.server import Credentials
from storewise.engines.mongodb.codec import BsonCodec
from storewise.engines.mongodb.settings import SPEC, MongoSettings
from storewise.engines.support.clients import ProcessState

Connection = MongoClient[dict[str, Any]]

DATABASE = "storewise"
#: Name of the replica set where there are no shards.
SET_NAME = "set0"
#: What the driver raises, and Python for values that BSON cannot hold.
FAILURES = (PyMongoError, BSONError, OverflowError, UnicodeError)

#: Options for a standalone server; the driver's own limits are for servers that others can stand in
#: for. `connectTimeoutMS` is also how long the driver waits for an answer about the server's state
#: before it closes all connections: if the server stands still for a minute (a disk, SIGSTOP), it
#: is slow and not lost.
_STANDALONE = {
    "directConnection": True,
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 120_000,
}


def host_port(endpoint: Endpoint) -> str:
    """``address:port`` as MongoDB writes it."""
    address = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"{address}:{endpoint.port}"


def error_message(error: Exception) -> str:
    """The driver's message, without its description of the topology."""
    if isinstance(error, BulkWriteError):
        details = error.details
        first = [*details["writeErrors"], *details["writeConcernErrors"]][0]
        return str(first.get("errmsg", first))
    text = str(error)
    for mark in (", Timeout:", ", full error:", " (configured timeouts:"):
        text = text.split(mark, maxsplit=1)[0]
    return text or type(error).__name__


def fill_pool(mongo: Connection, connections: int) -> None:
    """Open connections until the driver's pool has so many.

    The driver opens a new one only if all others are in use, and it uses one until it has decoded
    an answer: there so many pings wait for each other (once for each part of an answer, and equal
    pings have equal answers).
    """
    barrier = Barrier(connections, timeout=60.0)

    class Answer(dict[str, Any]):
        def __init__(self) -> None:
            super().__init__()
            with suppress(BrokenBarrierError):  # another ping has failed, and says why
                barrier.wait()

    def ping(_: int) -> None:
        try:
            mongo.admin.command("ping", codec_options=CodecOptions(document_class=Answer))
        except PyMongoError:
            barrier.abort()
            raise

    with ThreadPoolExecutor(connections) as pool:
        list(pool.map(ping, range(connections)))


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[BsonCodec]):
    """State shared by the clients of one process."""

    settings: MongoSettings
    seeds: tuple[Endpoint, ...]
    """The servers that a client knows at first: routers, else the data nodes."""
    data: tuple[Endpoint, ...]
    sharded: bool
    options: Mapping[str, Any]
    """Options of MongoClient: user, timeouts, write concern and so on."""
    threads: int = 0
    """Those that use the shared pool of connections."""
    connections: int = 0
    """Those in the pool, at least."""
    opened: list[Connection] = field(default_factory=list)

    @property
    def acknowledged(self) -> bool:
        return bool(self.options["w"] != 0)

    def connect(self, **options: Any) -> Connection:
        return MongoClient([host_port(e) for e in self.seeds], **{**self.options, **options})


def open_shared(engine: Engine, cluster: Cluster, mode: Mode) -> Shared:
    """Make the state shared by the clients of a process; nothing is connected yet."""
    settings: MongoSettings = engine.settings_of(cluster.settings)
    credentials = Credentials.of(cluster)
    data = tuple(e for e in cluster.endpoints if e.role == "data")
    routers = tuple(e for e in cluster.endpoints if e.role == "router")
    here = tuple(router for router in routers if router.host == socket.gethostname())
    options: dict[str, Any] = {
        "username": credentials.user,
        "password": credentials.password,
        "maxPoolSize": None,
        **SPEC.consistency[engine.level_of(cluster)].driver,
    }
    if not routers:
        options |= {"replicaSet": SET_NAME} if len(data) > 1 else _STANDALONE
    return Shared(
        mode=mode,
        kinds=cluster.kinds,
        settings=settings,
        seeds=here or routers or data,
        data=data,
        sharded=bool(routers),
        options=options,
    )
