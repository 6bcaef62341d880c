"""What one process does with a MongoDB cluster, through pymongo."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pymongo
from bson.errors import BSONError
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from storewise.documents import ID_BYTES, Document, Kind
from storewise.engines.base import Client, Cluster, Endpoint, Engine, Mode, Schema
from storewise.engines.mongo_cluster import (
    DATABASE,
    SET_NAME,
    Connection,
    host_port,
    node_name,
    refused,
    words_of,
)
from storewise.engines.mongo_routing import RoutingTable
from storewise.engines.mongo_settings import WRITE_CONCERNS, MongoSettings
from storewise.engines.mongo_sharding import (
    key_field,
    routing_table,
    shard_collections,
    shard_nodes,
)
from storewise.engines.mongo_status import Counters
from storewise.engines.server import Credentials
from storewise.engines.tabular import (
    Table,
    check_limit,
    consistency_of,
    make_tables,
    parse_settings,
)
from storewise.errors import EngineError
from storewise.metrics.host import host_name

_Result = TypeVar("_Result")
_Collection = Collection[dict[str, Any]]

#: Where the schema of the other collections is kept, for clients that connect later.
_SCHEMA = "schema"
_DUPLICATE_KEY = 11000
#: "This node cannot now": the retryable errors of MongoDB's retryable writes specification.
_PASSING = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
_TRIES = 3
_IN_LIST = 1000
#: What the driver raises, and Python for values that BSON cannot hold.
_FAILURES = (PyMongoError, BSONError, OverflowError, UnicodeError)

#: Time to find a server, s. An election takes ten seconds or so, and the driver waits it out.
_SELECT_SECONDS = {"one": 5.0, "set": 30.0, "routers": 15.0}
_CONNECT_SECONDS = 10.0
_READ_PREFERENCES = {
    "primary": ReadPreference.PRIMARY,
    "primaryPreferred": ReadPreference.PRIMARY_PREFERRED,
    "secondary": ReadPreference.SECONDARY,
    "secondaryPreferred": ReadPreference.SECONDARY_PREFERRED,
    "nearest": ReadPreference.NEAREST,
}


@dataclass
class _Shared:
    """What the clients of one process have in common."""

    mode: Mode
    settings: MongoSettings
    concern: WriteConcern
    data: tuple[Endpoint, ...]
    sharded: bool
    connect: Callable[..., Connection]
    counters: Counters
    lock: threading.Lock = field(default_factory=threading.Lock)
    tables: dict[Kind, Table] = field(default_factory=dict)
    schema: Schema | None = None
    routing: dict[Kind, RoutingTable | None] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    opened: list[Connection] = field(default_factory=list)


def open_client(engine: Engine, cluster: Cluster, mode: Mode) -> MongodbClient:
    """Connect to a formed cluster; EngineError within seconds where it cannot be reached."""
    settings = parse_settings(MongoSettings, engine, cluster)
    concern = WRITE_CONCERNS[consistency_of(engine, cluster)]
    if cluster.credentials is None:
        raise EngineError("mongodb: the cluster names no file with credentials")
    credentials = Credentials.read(cluster.credentials)
    data = tuple(e for e in cluster.endpoints if e.role == "data")
    routers = tuple(e for e in cluster.endpoints if e.role == "router")
    sharded = bool(routers) or any(e.role == "config" for e in cluster.endpoints)
    seeds = routers if sharded else data
    if not seeds:
        raise EngineError(f"mongodb: the cluster has no {'router' if sharded else 'data node'}")
    shape = "routers" if sharded else "set" if len(data) > 1 else "one"

    def connect(endpoints: Sequence[Endpoint] = seeds, **options: Any) -> Connection:
        options.setdefault("serverSelectionTimeoutMS", int(_SELECT_SECONDS[shape] * 1000))
        return MongoClient(
            [host_port(endpoint) for endpoint in endpoints],
            username=credentials.user,
            password=credentials.password,
            authSource="admin",
            appname=DATABASE,
            connectTimeoutMS=10_000,
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

    shared = _Shared(
        mode, settings, concern, data, sharded, connect_cluster, Counters(data, connect)
    )
    client = MongodbClient(shared, connect_cluster())
    try:
        client.greet(seeds)
    except EngineError:
        client.close()
        raise
    return client


def _own_host_first(routers: Sequence[Endpoint]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The routers of this host, where they answer; else all."""
    here = host_name()
    own = {(e.address, e.port) for e in routers if e.host == here}

    def select(servers: Sequence[Any]) -> Sequence[Any]:
        near = [server for server in servers if server.address in own]
        return near or servers

    return select


def _plain(document: dict[str, Any]) -> Document:
    """Ids as 12 bytes."""
    return {
        key: value.binary if value.__class__ is ObjectId else value
        for key, value in document.items()
    }


def _stored(value: Any) -> Any:
    return ObjectId(value) if isinstance(value, bytes) else value


class MongodbClient(Client):
    """A connection pool; all threads of a process share one, but for unacknowledged writes."""

    def __init__(self, shared: _Shared, mongo: Connection) -> None:
        self._shared = shared
        self._mongo = mongo
        shared.opened.append(mongo)
        settings = shared.settings
        database = mongo.get_database(
            DATABASE,
            write_concern=shared.concern,
            read_preference=_READ_PREFERENCES[settings.read_preference],
            read_concern=ReadConcern(settings.read_concern),
        )
        self._collections: dict[Kind, _Collection] = {kind: database[kind.table] for kind in Kind}
        self._keys = {kind: key_field(kind, settings) for kind in Kind}

    def greet(self, seeds: Sequence[Endpoint]) -> None:
        """Log in; EngineError where nobody answers or the password is refused."""
        with self._words("connect"):
            try:
                with pymongo.timeout(_CONNECT_SECONDS):
                    self._mongo.admin.command("ping")
            except OperationFailure as error:
                if refused(error):
                    raise EngineError(
                        f"mongodb: {', '.join(map(host_port, seeds))} refuses the user or password "
                        "of this session"
                    ) from error
                raise

    def for_thread(self) -> MongodbClient:
        """Itself; for unacknowledged writes one connection of the thread's own, because servers
        keep the order of what comes on one connection only, and `flush` needs it."""
        if self._shared.concern.acknowledged or self._shared.mode == "read":
            return self
        with self._shared.lock, self._words("connect"):
            return MongodbClient(self._shared, self._shared.connect(maxPoolSize=1))

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        tables = make_tables(schema)
        with self._words("create"):
            if shared.sharded:
                shard_collections(self._mongo, schema.kinds, shared.settings)
            else:
                known = set(self._mongo[DATABASE].list_collection_names())
                for kind in schema.kinds:
                    if kind.table not in known:
                        self._mongo[DATABASE].create_collection(kind.table)
            if schema.index_time == "before":
                self._make_indexes(schema)
            record = {
                "_id": _SCHEMA,
                "kinds": [kind.table for kind in schema.kinds],
                "indexes": [[kind.table, name] for kind, name in schema.indexes],
                "index_time": schema.index_time,
                "study_fields": schema.study_fields,
            }
            safe = self._schemas(WriteConcern("majority", j=True))
            safe.replace_one({"_id": _SCHEMA}, record, upsert=True)
        with shared.lock:
            shared.schema, shared.tables = schema, tables

    def _schemas(self, concern: WriteConcern | None = None) -> _Collection:
        return self._mongo[DATABASE][_SCHEMA].with_options(write_concern=concern)

    def _make_indexes(self, schema: Schema) -> None:
        for kind, name in schema.indexes:
            self._mongo[DATABASE][kind.table].create_index([(name, pymongo.ASCENDING)])

    def _learn(self) -> None:
        """Take the schema that another client has created."""
        with self._words("connect"):
            record = self._schemas().find_one({"_id": _SCHEMA})
        if record is None:
            return
        kinds = {kind.table: kind for kind in Kind}
        schema = Schema(
            tuple(kinds[name] for name in record["kinds"]),
            tuple((kinds[table], name) for table, name in record["indexes"]),
            record["index_time"],
            record["study_fields"],
        )
        with self._shared.lock:
            self._shared.schema, self._shared.tables = schema, make_tables(schema)

    def _table(self, kind: Kind) -> Table:
        if kind not in self._shared.tables:
            self._learn()
        if kind not in self._shared.tables:
            raise EngineError(f"mongodb: {kind.table} was never created")
        return self._shared.tables[kind]

    def insert(self, kind: Kind, documents: Sequence[bytes]) -> None:
        self._writing("insert")
        self._table(kind)
        if not documents:
            return
        collection = self._collections[kind]

        def insert() -> None:
            raw = [RawBSONDocument(document) for document in documents]
            try:
                collection.insert_many(raw, ordered=False)
            except BulkWriteError as error:
                self._repair(kind, raw, error)

        self._try("insert", insert)

    def _repair(self, kind: Kind, raw: list[RawBSONDocument], error: BulkWriteError) -> None:
        """Replace the documents whose ids exist; any other error is raised."""
        details = error.details
        problems = details["writeErrors"]
        other = [problem for problem in problems if problem["code"] != _DUPLICATE_KEY]
        if other and all(problem["code"] in _PASSING for problem in other):
            raise AutoReconnect(other[0]["errmsg"]) from error
        if other or details["writeConcernErrors"]:
            first = (other or details["writeConcernErrors"])[0]
            raise EngineError(
                f"mongodb: insert into {kind.table}: {first.get('errmsg', first)}"
            ) from error
        twice = {raw[problem["index"]]["_id"] for problem in problems}
        # Of an id that a batch holds more than once the last document counts.
        last = {document["_id"]: document for document in raw if document["_id"] in twice}
        key = self._keys[kind]
        replace: list[ReplaceOne[Any]] = [
            ReplaceOne({"_id": identifier, key: document[key]}, document, upsert=True)
            for identifier, document in last.items()
        ]
        try:
            self._collections[kind].bulk_write(replace, ordered=False)
        except BulkWriteError as again:
            first = (again.details["writeErrors"] or again.details["writeConcernErrors"])[0]
            if first.get("code") in _PASSING | {_DUPLICATE_KEY}:
                raise AutoReconnect(first["errmsg"]) from again
            raise

    def flush(self) -> None:
        """The server has handled everything before the ping on the thread's one connection."""
        if not self._shared.concern.acknowledged:
            with self._words("flush"):
                self._mongo.admin.command("ping")

    def finish(self) -> None:
        self._writing("finish")
        if self._shared.schema is None:
            self._learn()
        schema = self._shared.schema
        if schema is not None and schema.index_time == "after":
            with self._words("index"):
                self._make_indexes(schema)

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        self._table(kind)
        found = self._try(
            "get", lambda: self._collections[kind].find_one({"_id": ObjectId(document_id)})
        )
        return None if found is None else _plain(found)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        self._table(kind)
        wanted = list(dict.fromkeys(document_ids))
        found: dict[bytes, Document] = {}
        for start in range(0, len(wanted), _IN_LIST):
            some = wanted[start : start + _IN_LIST]
            for document in self._find(kind, {"_id": {"$in": [ObjectId(i) for i in some]}}):
                found[document["_id"]] = document
        return [found.get(document_id) for document_id in document_ids]

    def _find(
        self, kind: Kind, condition: dict[str, Any], limit: int = 0, *, ordered: bool = False
    ) -> list[Document]:
        def find() -> list[Document]:
            cursor = self._collections[kind].find(condition).limit(limit)
            if ordered:
                cursor = cursor.sort("_id", pymongo.ASCENDING)
            return [_plain(document) for document in cursor]

        return self._try("find", find)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        self._table(kind).check_changes(changes)
        with self._words("update"):
            stored = {name: _stored(value) for name, value in changes.items()}
            return (
                self._answering(kind)
                .update_one({"_id": ObjectId(document_id)}, {"$set": stored})
                .matched_count
                > 0
            )

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        self._table(kind)
        with self._words("delete"):
            done = self._answering(kind).delete_one({"_id": ObjectId(document_id)})
            return done.deleted_count > 0

    def _answering(self, kind: Kind) -> _Collection:
        """The collection, its writes acknowledged: an update says whether there was something."""
        if self._shared.concern.acknowledged:
            return self._collections[kind]
        return self._collections[kind].with_options(write_concern=WriteConcern(w=1))

    def scan(self, kind: Kind, start: bytes, limit: int) -> list[Document]:
        check_limit(limit)
        self._table(kind)
        if limit == 0:
            return []
        # Of a longer start its first bytes come before it.
        operator = "$gte" if len(start) <= ID_BYTES else "$gt"
        first = ObjectId(start[:ID_BYTES].ljust(ID_BYTES, b"\0"))
        return self._find(kind, {"_id": {operator: first}}, limit, ordered=True)

    def range(
        self,
        kind: Kind,
        field_name: str,
        low: float | str | None = None,
        high: float | str | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        check_limit(limit)
        # Refuses unknown fields and bounds of another type; the clause itself is SQL.
        self._table(kind).range_clause(field_name, low, high)
        if limit == 0:
            return []
        bounds = {"$gte": _stored(low), "$lte": _stored(high)}
        condition = {key: value for key, value in bounds.items() if value is not None}
        return self._find(kind, {field_name: condition or {"$ne": None}}, limit or 0)

    def aggregate(self, kind: Kind, field_name: str, limit: int) -> list[tuple[Any, int]]:
        check_limit(limit)
        name = self._table(kind).column(field_name).name
        if limit == 0:
            return []
        pipeline: list[dict[str, Any]] = [
            {"$match": {name: {"$ne": None}}},
            {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
            {"$sort": {"n": -1, "_id": 1}},
            {"$limit": limit},
        ]
        found = self._try(
            "aggregate",
            lambda: list(self._collections[kind].aggregate(pipeline, allowDiskUse=True)),
        )
        return [(row["_id"], row["n"]) for row in map(_plain, found)]

    def count(self, kind: Kind) -> int:
        """Exact, by a look at all keys: the number in the metadata is wrong after a crash, and
        counts documents twice that a shard has given away."""
        self._table(kind)
        collection = self._collections[kind].with_options(
            read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
        )
        return self._try("count", lambda: collection.count_documents({}))

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node: the primary; of a shard the member that leads it unless it failed.

        None where the shard key is another field than the id.
        """
        shared = self._shared
        if shared.sharded:
            with self._words("owner"), shared.lock:
                if kind not in shared.routing:
                    shared.routing[kind] = routing_table(self._mongo, kind, shared.settings)
                    shared.nodes = shard_nodes(self._mongo, shared.data)
                table = shared.routing[kind]
            return None if table is None else shared.nodes[table.shard_of(document_id)]
        if len(shared.data) == 1:
            return node_name(shared.data[0])
        with self._words("owner"):
            primary = self._mongo.primary
        for endpoint in shared.data:
            if (endpoint.address, endpoint.port) == primary:
                return node_name(endpoint)
        return None

    def disk_bytes(self) -> int:
        """Collections and indexes of all shards, one copy of each document.

        Journals, the oplog and further replicas are not in it. Sizes are those of the last
        checkpoint, so one is made first.
        """
        with self._words("disk size"):
            self._mongo.admin.command("fsync")
            return int(self._mongo[DATABASE].command("dbStats")["totalSize"])

    def status(self) -> dict[str, float]:
        with self._words("status"):
            return self._shared.counters.read()

    def close(self) -> None:
        """Closes the connections of all threads."""
        for mongo in self._shared.opened:
            mongo.close()
        self._shared.counters.close()

    def _writing(self, verb: str) -> _Shared:
        if self._shared.mode != "write":
            raise EngineError(f"mongodb: {verb} needs a client that is connected to write")
        return self._shared

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
        except _FAILURES as error:
            raise EngineError(f"mongodb: {verb}: {words_of(error)}") from error
