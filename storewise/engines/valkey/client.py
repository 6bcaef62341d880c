"""What one process does with a server of Valkey, or with a cluster of several.

A document is a hash under the key ``TABLE:ID``, with a field for each of its own that is not null.
Of each table a sorted set, called as the table, has the ids in the order of their bytes. YCSB's
client keeps its records so. In a cluster all keys of a server begin with its tag (`cluster`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from storewise.documents import Document, FieldType, Kind, fields
from storewise.engines.contract.engine import Cluster, Endpoint, Mode, Schema, hash_placement
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.contract.server import Credentials
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.servers import numbered_nodes
from storewise.engines.support.table import make_table
from storewise.engines.valkey.cluster import tag_of
from storewise.engines.valkey.connection import Connections
from storewise.errors import EngineError

#: Where the schema is kept, on the first server, for clients that connect later.
_SCHEMA = b":schema"
#: Field type -> function that converts stored bytes to the value; None: bytes stay bytes.
_READERS: Mapping[FieldType, Callable[[bytes], Any] | None] = {
    "id": None,
    "key": None,
    "int": int,
    "float": float,
    "str": bytes.decode,
}


class KeyLayout:
    """How the documents of a kind are kept, and under which keys on each server."""

    def __init__(self, kind: Kind, tags: Sequence[bytes], *, study_fields: bool) -> None:
        columns = fields(kind, study_fields=study_fields)
        self.kind = kind
        self.table = make_table(kind, study_fields=study_fields)
        self.orders = tuple(tag + kind.table.encode() for tag in tags)
        """The keys of the sorted sets of ids. Names of tables have no colon, so that they are the
        keys of no document."""
        self.prefixes = tuple(order + b":" for order in self.orders)
        """What the keys of documents begin with."""
        self._names = frozenset(column.name for column in columns)
        self._readers = [(c.name, c.name.encode(), _READERS[c.type]) for c in columns]

    def hashes(self, documents: Sequence[Document]) -> list[tuple[bytes, dict[str, Any]]]:
        """Convert documents to pairs of id and hash fields; EngineError if one has other fields
        than its kind, or values that a field cannot hold."""
        self.table.check(documents)
        return [(document["_id"], self.hash_fields(document)) for document in documents]

    def hash_fields(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Convert fields to hash fields: nulls are left out, open fields become JSON."""
        if not self.kind.open_fields:
            return {name: value for name, value in document.items() if value is not None}
        result = {}
        for name, value in document.items():
            if name not in self._names:
                try:
                    result[name] = json.dumps(value)
                except (TypeError, ValueError) as error:
                    raise EngineError(
                        f"{self.table.name}.{name}: cannot be written as JSON: {error}"
                    ) from error
            elif value is not None:
                result[name] = value
        return result

    def document(self, stored: dict[bytes, bytes]) -> Document | None:
        """Convert a stored hash to a document; None if it has no ``_id``: the update of a missing
        document left it."""
        if b"_id" not in stored:
            return None
        take = stored.pop
        try:
            document: Document = {
                name: value if (value := take(key, None)) is None or read is None else read(value)
                for name, key, read in self._readers
            }
            for name in stored:
                document[name.decode()] = json.loads(stored[name])
        except ValueError as error:
            raise EngineError(
                f"valkey: {self.table.name}: a stored hash is not a valid document: {error}"
            ) from error
        return document


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[KeyLayout]):
    """What the clients of one process have in common."""

    level: str
    credentials: Credentials
    endpoints: tuple[Endpoint, ...]
    tags: tuple[bytes, ...]
    """What the keys of each server begin with."""

    @classmethod
    def of(cls, cluster: Cluster, mode: Mode, level: str) -> Shared:
        endpoints = numbered_nodes(cluster)
        servers = len(endpoints)
        return cls(
            mode=mode,
            kinds=cluster.kinds,
            level=level,
            credentials=Credentials.of(cluster),
            endpoints=endpoints,
            tags=tuple(tag_of(server, servers) for server in range(servers)),
        )


class ValkeyClient(ThreadClient[Shared, KeyLayout]):
    """One thread's client; it has connections of its own."""

    engine_name = "valkey"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        user, password = shared.credentials.user, shared.credentials.password
        self._connections = Connections(shared.endpoints, user, password)
        self._servers = range(len(shared.endpoints))
        self._server_of = hash_placement(len(shared.endpoints))

    def _connect(self) -> None:
        self._connections.open()

    def _disconnect(self) -> None:
        self._connections.close()

    def create(self, schema: Schema) -> None:
        """Store the schema only: Valkey creates keys at their first write."""
        shared = self._writing("create")
        if schema.indexes and schema.index_time != "none":
            raise self._cannot("secondary index")
        note, key = self._new_note(schema), shared.tags[0] + _SCHEMA
        is_new = self._connections.ask(0, lambda valkey: valkey.set(key, note, nx=True))
        if is_new and shared.level == "memory":
            # A snapshot of the empty store: after a restart it has the schema, but no documents.
            self._connections.ask(0, lambda valkey: valkey.save())
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, KeyLayout]:
        tags, study_fields = self._shared.tags, schema.study_fields
        return {kind: KeyLayout(kind, tags, study_fields=study_fields) for kind in schema.kinds}

    def _read_note(self) -> str | None:
        key = self._shared.tags[0] + _SCHEMA
        note = self._connections.ask(0, lambda valkey: valkey.get(key))
        return None if note is None else note.decode()

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        """Insert a batch, in one transaction on each server."""
        self._writing("insert")
        layout = self._table(kind)
        parts: dict[int, dict[bytes, dict[str, Any]]] = {}
        for document_id, values in layout.hashes(documents):
            # If an id occurs twice, keep its last document.
            parts.setdefault(self._server_of(document_id), {})[document_id] = values

        def store(server: int, valkey: Any) -> None:
            prefix, some = layout.prefixes[server], parts[server]
            with valkey.pipeline() as pipe:
                pipe.delete(*(prefix + document_id for document_id in some))
                for document_id, values in some.items():
                    pipe.hset(prefix + document_id, mapping=values)
                pipe.zadd(layout.orders[server], dict.fromkeys(some, 0))
                pipe.execute()

        try:
            self._connections.ask_all(parts, store)
        except UnicodeEncodeError as error:
            raise EngineError(f"valkey: {layout.table.name}: {error}") from error

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Set the fields in one request. If the document is missing, this creates a hash without
        ``_id``, which readers ignore and an insert replaces."""
        self._writing("update")
        layout = self._table(kind)
        layout.table.check_changes(changes)
        values = layout.hash_fields(changes)
        nulls = changes.keys() - values.keys()
        server = self._server_of(document_id)
        key = layout.prefixes[server] + document_id

        def change(valkey: Any) -> bool:
            # If no field was new, the document existed.
            if not nulls and valkey.hset(key, mapping=values) == 0:
                return True
            with valkey.pipeline() as pipe:
                pipe.hexists(key, "_id")
                if nulls:
                    pipe.hdel(key, *nulls)
                    if values:
                        pipe.hset(key, mapping=values)
                return bool(pipe.execute()[0])

        return self._connections.ask(server, change)

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        layout = self._table(kind)
        server = self._server_of(document_id)

        def remove(valkey: Any) -> bool:
            with valkey.pipeline() as pipe:
                pipe.delete(layout.prefixes[server] + document_id)
                pipe.zrem(layout.orders[server], document_id)
                return bool(pipe.execute()[1])

        return self._connections.ask(server, remove)

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        layout = self._table(kind)
        server = self._server_of(document_id)
        key = layout.prefixes[server] + document_id
        return layout.document(self._connections.ask(server, lambda valkey: valkey.hgetall(key)))

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        layout = self._table(kind)
        parts: dict[int, list[bytes]] = {}
        for document_id in dict.fromkeys(document_ids):
            parts.setdefault(self._server_of(document_id), []).append(document_id)

        def read(server: int, valkey: Any) -> list[dict[bytes, bytes]]:
            with valkey.pipeline(transaction=False) as pipe:
                for document_id in parts[server]:
                    pipe.hgetall(layout.prefixes[server] + document_id)
                return list(pipe.execute())

        documents: dict[bytes, Document | None] = {}
        for ids, hashes in zip(parts.values(), self._connections.ask_all(parts, read), strict=True):
            documents |= zip(ids, map(layout.document, hashes), strict=True)
        return [documents[document_id] for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        """The first ids of all servers, then the documents of the first of these."""
        layout = self._table(query.kind)
        first = b"[" + query.start if query.after is None else b"(" + query.after
        documents: list[Document] = []
        while (wanted := query.limit - len(documents)) > 0:
            ids = self._ids(layout, first, wanted)
            documents += [d for d in self.get_many(query.kind, ids) if d is not None]
            if len(ids) < wanted:
                break
            # In place of those that others have deleted between the two requests.
            first = b"(" + ids[-1]
        return documents

    def _ids(self, layout: KeyLayout, first: bytes, limit: int) -> list[bytes]:
        """The first ids over all servers, from ``[id`` on or behind ``(id``."""

        def ids(server: int, valkey: Any) -> list[bytes]:
            order = layout.orders[server]
            return list(valkey.zrange(order, first, "+", bylex=True, offset=0, num=limit))

        return list(islice(merge(*self._connections.ask_all(self._servers, ids)), limit))

    def count(self, query: Count) -> int:
        """Of a whole kind as the servers know it; with conditions by a look at every document."""
        if query.where:
            return super().count(query)
        orders = self._table(query.kind).orders
        return sum(self._connections.ask_all(self._servers, lambda s, v: int(v.zcard(orders[s]))))

    # What is known of the store.

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        return self._shared.endpoints[self._server_of(document_id)].name

    def disk_bytes(self) -> int | None:
        """The logs of writes of all servers; None where the level has none."""
        self._check_open()
        if self._shared.level == "memory":
            return None
        infos = self._connections.ask_all(self._servers, lambda s, v: v.info("persistence"))
        return sum(int(info["aof_current_size"]) for info in infos)
