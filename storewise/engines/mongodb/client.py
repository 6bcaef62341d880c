"""The client of MongoDB, through PyMongo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import float_info
from typing import Any

import pymongo
from bson import json_util
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.own_text import OwnText, filled
from storewise.engines.contract.queries import Count, Find, Histogram, Plan, Scan, Top
from storewise.engines.mongodb.codec import BsonCodec
from storewise.engines.mongodb.connection import (
    DATABASE,
    FAILURES,
    Connection,
    Shared,
    error_message,
    fill_pool,
    host_port,
)
from storewise.engines.mongodb.sharding import ShardMap, key_field, shard_collections
from storewise.engines.support.clients import ProcessClient
from storewise.engines.support.table import make_tables

MongoCollection = Collection[dict[str, Any]]

#: Where the schema of the other collections is kept, for clients that connect later.
SCHEMA = "schema"
_DUPLICATE_KEY = 11000


class MongodbClient(ProcessClient[Shared, BsonCodec]):
    """A client that all threads of a process share, except for unacknowledged writes."""

    engine_name = "mongodb"
    failures = FAILURES
    _error_message = staticmethod(error_message)

    def __init__(self, shared: Shared, mongo: Connection) -> None:
        super().__init__(shared)
        shared.opened.append(mongo)
        self._mongo = mongo
        self._database = mongo[DATABASE]
        self._collections = {kind: self._database[kind.table] for kind in shared.kinds}
        self._shard_maps: dict[Kind, ShardMap] = {}

    def check_connection(self) -> None:
        """Sign in; EngineError where no server answers or the password is refused."""
        servers = ", ".join(map(host_port, self._shared.seeds))
        with self._errors(f"connect to {servers}"):
            self._mongo.admin.command("ping")

    def open_thread(self) -> MongodbClient:
        """This client, with a connection in its pool for each thread.

        For unacknowledged writes a client with its own single connection: a server processes the
        requests of one connection in order, which `flush` needs.
        """
        shared = self._shared
        with shared.lock, self._errors("connect"):
            if shared.acknowledged or shared.mode == "read":
                shared.threads += 1
                if shared.threads > shared.connections:
                    fill_pool(self._mongo, shared.threads)
                    shared.connections = shared.threads
                return self
            client = MongodbClient(shared, shared.connect(maxPoolSize=1))
            client.check_connection()
            return client

    def close_thread(self) -> None:
        shared = self._shared
        with shared.lock:
            if shared.opened[0] is self._mongo:
                shared.threads -= 1
            else:
                shared.opened.remove(self._mongo)
                self._mongo.close()

    def close(self) -> None:
        """Closes the connections of all threads."""
        for mongo in self._shared.opened:
            mongo.close()

    # The schema.

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        note = self._new_note(schema)
        self._make_tables(schema)
        with self._errors("create"):
            if shared.sharded:
                shard_collections(self._mongo, schema.kinds, shared.settings)
            else:
                known = set(self._database.list_collection_names())
                for kind in schema.kinds:
                    if kind.table not in known:
                        self._database.create_collection(kind.table)
            if schema.index_time == "before":
                self._make_indexes(schema)
            record = {"_id": SCHEMA, "content": note}
            self._schemas().replace_one({"_id": SCHEMA}, record, upsert=True)
        self._use_schema(schema)

    def _schemas(self) -> MongoCollection:
        concern = WriteConcern("majority", j=True)
        return self._database.get_collection(SCHEMA, write_concern=concern)

    def _make_indexes(self, schema: Schema) -> None:
        with self._errors("index"):
            for kind, name in schema.indexes:
                self._database[kind.table].create_index([(name, pymongo.ASCENDING)])

    def _make_tables(self, schema: Schema) -> dict[Kind, BsonCodec]:
        make_tables(schema)  # refuses indexes on fields that there are not
        return {k: BsonCodec(k, study_fields=schema.study_fields) for k in schema.kinds}

    def _read_note(self) -> str | None:
        with self._errors("connect"):
            record = self._schemas().find_one({"_id": SCHEMA})
        return None if record is None else str(record["content"])

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[bytes | Document]) -> None:
        """Insert a batch of documents, as BSON or as dicts."""
        self._writing("insert")
        codec = self._table(kind)
        if not documents:
            return
        with self._errors(f"insert into {kind.table}"):
            raw = [RawBSONDocument(d if isinstance(d, bytes) else codec.bson(d)) for d in documents]
            try:
                self._collections[kind].insert_many(raw, ordered=False)
            except BulkWriteError as error:
                self._replace_existing(kind, raw, error)

    def _replace_existing(
        self, kind: Kind, raw: Sequence[RawBSONDocument], error: BulkWriteError
    ) -> None:
        """Replace the documents whose ids exist already; raises `error` if it is any other."""
        problems = error.details["writeErrors"]
        if error.details["writeConcernErrors"] or {p["code"] for p in problems} != {_DUPLICATE_KEY}:
            raise error
        existing = {raw[problem["index"]]["_id"] for problem in problems}
        # Of an id that a batch holds more than once the last document counts.
        last = {document["_id"]: document for document in raw if document["_id"] in existing}
        key = key_field(kind, self._shared.settings)
        replace: list[ReplaceOne[Any]] = [
            ReplaceOne({"_id": document_id, key: document[key]}, document, upsert=True)
            for document_id, document in last.items()
        ]
        self._collections[kind].bulk_write(replace, ordered=False)

    def flush(self) -> None:
        """Wait for this thread's unacknowledged writes: a server answers a ping after all that came
        before it on the same connection."""
        if not self._shared.acknowledged:
            with self._errors("flush"):
                self._mongo.admin.command("ping")

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        codec = self._table(kind)
        with self._errors("update"):
            stored_id, values = codec.stored_id(document_id), codec.changes(changes)
            done = self._acknowledging(kind).update_one({"_id": stored_id}, {"$set": values})
            return done.matched_count > 0

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        stored_id = self._table(kind).stored_id(document_id)
        with self._errors("delete"):
            return self._acknowledging(kind).delete_one({"_id": stored_id}).deleted_count > 0

    def _acknowledging(self, kind: Kind) -> MongoCollection:
        """The collection with acknowledged writes: updates tell whether the document exists."""
        if self._shared.acknowledged:
            return self._collections[kind]
        return self._collections[kind].with_options(write_concern=WriteConcern(w=1))

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        codec = self._table(kind)
        with self._errors("get"):
            stored = self._collections[kind].find_one({"_id": codec.stored_id(document_id)})
        return None if stored is None else codec.document(stored)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        stored_ids = list(map(self._table(kind).stored_id, document_ids))
        found = {d["_id"]: d for d in self._find(kind, {"_id": {"$in": stored_ids}})}
        return [found.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        where = self._table(query.kind).filter(query.where)
        return self._find(query.kind, where, {"_id": 1}, query.limit)

    def find(self, query: Find) -> list[Document]:
        return self._find(query.kind, *self._filter_and_order(query), query.limit)

    def _filter_and_order(self, query: Find | Count) -> tuple[dict[str, Any], dict[str, Any]]:
        codec = self._table(query.kind)
        if isinstance(query, Count) or query.order_by is None:
            return codec.filter(query.where), {}
        name = codec.table.column(query.order_by).name
        return codec.filter(query.where, {name: {"$ne": None}}), {name: 1, "_id": 1}

    def _find(
        self,
        kind: Kind,
        where: Mapping[str, Any],
        sort: Mapping[str, int] | None = None,
        limit: int | None = None,
    ) -> list[Document]:
        if limit == 0:  # which the server takes for no limit
            return []
        codec, collection = self._table(kind), self._collections[kind]
        with self._errors("find"):
            cursor = collection.find(where, sort=sort, limit=limit or 0, allow_disk_use=True)
            return list(map(codec.document, cursor))

    def top(self, query: Top) -> list[tuple[Any, int]]:
        codec = self._table(query.kind)
        name = codec.table.column(query.field).name
        pipeline: list[dict[str, Any]] = [
            {"$match": codec.filter(query.where, {name: {"$ne": None}})},
            {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
            {"$sort": {"n": -1, "_id": 1}},
            {"$limit": query.limit},
        ]
        rows = self._aggregate(query.kind, pipeline) if query.limit else []
        return [(codec.loaded(name, row["_id"]), int(row["n"])) for row in rows]

    def histogram(self, query: Histogram) -> dict[int, int]:
        codec = self._table(query.kind)
        name = codec.table.column(query.field).name
        # Neither null nor infinite.
        finite = {name: {"$gte": -float_info.max, "$lte": float_info.max}}
        quotient = {"$divide": [f"${name}", float(query.width)]}
        pipeline: list[dict[str, Any]] = [
            {"$match": finite},
            {"$group": {"_id": {"$floor": quotient}, "n": {"$sum": 1}}},
        ]
        rows = self._aggregate(query.kind, pipeline)
        return {int(row["_id"]): int(row["n"]) for row in rows}

    def _aggregate(self, kind: Kind, pipeline: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with self._errors("aggregate"):
            return list(self._collections[kind].aggregate(pipeline, allowDiskUse=True))

    def count(self, query: Count) -> int:
        """The exact number: the one in the metadata is wrong after a crash, and counts migrated
        documents twice."""
        where = self._table(query.kind).filter(query.where)
        with self._errors("count"):
            return self._collections[query.kind].count_documents(where)

    def ask(self, question: OwnText) -> list[tuple[Any, ...]]:
        """The documents of a user's pipeline, as tuples of their values."""
        rows = self._aggregate(question.kind, filled(question.text, question.values))
        return [tuple(row.values()) for row in rows]

    def explain(self, query: Find | Count) -> Plan:
        """The winning plan (https://www.mongodb.com/docs/manual/reference/explain-results/)."""
        where, order = self._filter_and_order(query)
        command = {"find": query.kind.table, "filter": where, "sort": order}
        with self._errors("explain"):
            answer = self._database.command("explain", command, verbosity="queryPlanner")
        text = json_util.dumps(answer["queryPlanner"]["winningPlan"])
        return Plan(text, '"IXSCAN"' in text)

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node: the primary; of a shard its first node.

        None where the shard key is another field than the id.
        """
        shared = self._shared
        if len(shared.data) == 1 and not shared.sharded:
            return shared.data[0].name
        if not shared.sharded:
            primary = self._mongo.primary
            return next((e.name for e in shared.data if (e.address, e.port) == primary), None)
        if key_field(kind, shared.settings) != "_id":
            return None
        stored_id = self._table(kind).stored_id(document_id)
        with shared.lock:
            if kind not in self._shard_maps:
                with self._errors("owner"):
                    self._shard_maps[kind] = ShardMap(self._mongo, kind, len(shared.data))
        return self._shard_maps[kind].node_of(stored_id)

    def disk_bytes(self) -> int:
        """Bytes of collections and indexes of all shards, one copy of each document.

        Without journals, the oplog and further replicas. Sizes are those of the last checkpoint, so
        a checkpoint is made first.
        """
        with self._errors("disk size"):
            self._mongo.admin.command("fsync")
            return int(self._database.command("dbStats")["totalSize"])
