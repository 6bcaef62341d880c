"""What one process does with a MongoDB cluster, through pymongo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymongo
from bson.raw_bson import RawBSONDocument
from pymongo import ReplaceOne
from pymongo.errors import AutoReconnect, BulkWriteError
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Count, Find, Histogram, Query, Scan, Top
from storewise.engines.mongodb import queries
from storewise.engines.mongodb.cluster import DATABASE, PASSING
from storewise.engines.mongodb.connection import SCHEMA, MongoCollection, MongoLink
from storewise.engines.mongodb.documents import forms_of
from storewise.engines.mongodb.sharding import routing_table, shard_collections, shard_nodes
from storewise.engines.support.table import check_same, describe, make_tables
from storewise.errors import EngineError

_DUPLICATE_KEY = 11000
_IN_LIST = 1000


class MongodbClient(MongoLink):
    """A client that all threads of a process share, except for unacknowledged writes."""

    def open_thread(self) -> MongodbClient:
        """This client, with one more connection in its pool.

        For unacknowledged writes a client with its own single connection: a server processes the
        requests of one connection in order, which `flush` needs.
        """
        shared = self._shared
        with shared.lock, self._words("connect"):
            if shared.concern.acknowledged or shared.mode == "read":
                shared.threads += 1
                shared.pool.fill(self._mongo, shared.threads)
                return self
            client = MongodbClient(shared, shared.connect(maxPoolSize=1))
            client._mongo.admin.command("ping")
            return client

    def close_thread(self) -> None:
        shared = self._shared
        with shared.lock:
            if shared.opened[0] is self._mongo:
                shared.threads -= 1
            else:
                shared.opened.remove(self._mongo)
                self._mongo.close()

    def create(self, schema: Schema) -> None:
        shared = self._writing("create")
        make_tables(schema)  # refuses indexes on fields that there are not
        forms = forms_of(schema.kinds, study_fields=schema.study_fields)
        content = describe(schema, "documents")
        with self._words("create"):
            there = self._schemas().find_one({"_id": SCHEMA})
            if there is not None:
                check_same("mongodb", shared.seeds[0], there["content"], content)
            if shared.sharded:
                shard_collections(self._mongo, schema.kinds, shared.settings)
            else:
                known = set(self._mongo[DATABASE].list_collection_names())
                for kind in schema.kinds:
                    if kind.table not in known:
                        self._mongo[DATABASE].create_collection(kind.table)
            if schema.index_time == "before":
                self._make_indexes(schema)
            record = {"_id": SCHEMA, "content": content}
            safe = self._schemas(WriteConcern("majority", j=True))
            safe.replace_one({"_id": SCHEMA}, record, upsert=True)
        with shared.lock:
            shared.schema, shared.tables = schema, forms

    def _make_indexes(self, schema: Schema) -> None:
        for kind, name in schema.indexes:
            self._mongo[DATABASE][kind.table].create_index([(name, pymongo.ASCENDING)])

    def insert(self, kind: Kind, documents: Sequence[bytes | Document]) -> None:
        """As BSON or as dicts."""
        self._writing("insert")
        form = self._table(kind)
        if not documents:
            return
        collection = self._collections[kind]
        with self._words("insert"):
            packed = [d if isinstance(d, bytes) else form.bson(d) for d in documents]

        def insert() -> None:
            raw = [RawBSONDocument(document) for document in packed]
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
        if other and all(problem["code"] in PASSING for problem in other):
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
            if first.get("code") in PASSING | {_DUPLICATE_KEY}:
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

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        self._writing("update")
        form = self._table(kind)
        with self._words("update"):
            values = form.changes(changes)
            done = self._answering(kind).update_one(
                {"_id": form.stored_id(document_id)}, {"$set": values}
            )
            return done.matched_count > 0

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        form = self._table(kind)
        with self._words("delete"):
            done = self._answering(kind).delete_one({"_id": form.stored_id(document_id)})
            return done.deleted_count > 0

    def _answering(self, kind: Kind) -> MongoCollection:
        """The collection, its writes acknowledged: an update says whether there was something."""
        if self._shared.concern.acknowledged:
            return self._collections[kind]
        return self._collections[kind].with_options(write_concern=WriteConcern(w=1))

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
            return shared.data[0].name
        with self._words("owner"):
            primary = self._mongo.primary
        for endpoint in shared.data:
            if (endpoint.address, endpoint.port) == primary:
                return endpoint.name
        return None

    def disk_bytes(self) -> int:
        """Collections and indexes of all shards, one copy of each document.

        Journals, the oplog and further replicas are not in it. Sizes are those of the last
        checkpoint, so one is made first.
        """
        with self._words("disk size"):
            self._mongo.admin.command("fsync")
            return int(self._mongo[DATABASE].command("dbStats")["totalSize"])

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        form = self._table(kind)
        with self._words("get"):
            condition = {"_id": form.stored_id(document_id)}
        stored = self._try("get", lambda: self._collections[kind].find_one(condition))
        return None if stored is None else form.document(stored)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        form = self._table(kind)
        with self._words("get"):
            wanted = [form.stored_id(i) for i in dict.fromkeys(document_ids)]
        documents: dict[bytes, Document] = {}
        for start in range(0, len(wanted), _IN_LIST):
            condition = {"_id": {"$in": wanted[start : start + _IN_LIST]}}
            for document in self._rows(kind, {"filter": condition, "limit": 0}):
                documents[document["_id"]] = document
        return [documents.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        return self._documents(query)

    def find(self, query: Find) -> list[Document]:
        return self._documents(query)

    def _documents(self, query: Scan | Find) -> list[Document]:
        with self._words("find"):
            command = queries.command_of(self._table(query.kind), query)
        # The server takes a limit of 0 for none.
        return [] if query.limit == 0 else self._rows(query.kind, command)

    def _rows(self, kind: Kind, command: queries.Command) -> list[Document]:
        form = self._table(kind)
        sort = list(command["sort"].items()) if "sort" in command else None

        def find() -> list[Document]:
            cursor = self._collections[kind].find(
                command["filter"], limit=command["limit"], sort=sort, allow_disk_use=True
            )
            return list(map(form.document, cursor))

        return self._try("find", find)

    def top(self, query: Top) -> list[tuple[Any, int]]:
        form = self._table(query.kind)
        rows = self._groups("aggregate", query) if query.limit else []
        return [(form.loaded(row["_id"], query.field), int(row["n"])) for row in rows]

    def histogram(self, query: Histogram) -> dict[int, int]:
        return {int(row["_id"]): int(row["n"]) for row in self._groups("histogram", query)}

    def _groups(self, verb: str, query: Top | Histogram | Count) -> list[dict[str, Any]]:
        with self._words(verb):
            command = queries.command_of(self._table(query.kind), query)
        collection = self._collections[query.kind]
        return self._try(
            verb, lambda: list(collection.aggregate(command["pipeline"], allowDiskUse=True))
        )

    def explain(self, query: Query) -> str:
        """The winning plan in MongoDB's own names of stages and indexes; of shards the first's."""
        with self._words("explain"):
            command = queries.to_explain(self._table(query.kind), query)
            return queries.plan_of(self._mongo[DATABASE].command(command))

    def count(self, query: Count) -> int:
        """Exact. Of a whole kind by a look at all keys: the number in the metadata is wrong after
        a crash, and counts documents twice that a shard has given away."""
        kind = query.kind
        self._table(kind)
        if query.where:
            return sum(int(row["n"]) for row in self._groups("count", query))
        collection = self._collections[kind].with_options(
            read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
        )
        return self._try("count", lambda: collection.count_documents({}))
