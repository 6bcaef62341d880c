"""Client of one Valkey server, or of a cluster of several.

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

from valkey import Valkey

from storewise.documents import Document, FieldType, Kind
from storewise.engines.contract.engine import Endpoint, Schema, hash_placement
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.contract.server import Credentials
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.table import make_table
from storewise.engines.valkey.cluster import tags_of
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
    """The keys of one kind's documents on each server, and the format of their values."""

    def __init__(self, kind: Kind, tags: Sequence[bytes], *, study_fields: bool) -> None:
        self.table = make_table(kind, study_fields=study_fields)
        self.orders = tuple(tag + kind.table.encode() for tag in tags)
        """The keys of the sorted sets of ids. Names of tables have no colon, so that they are the
        keys of no document."""
        self.prefixes = tuple(order + b":" for order in self.orders)
        """Prefix of the keys of documents."""
        self._names = frozenset(field.name for field in self.table.fields)
        self._readers = [(f.name, f.name.encode(), _READERS[f.type]) for f in self.table.fields]

    def hash_fields(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert fields to hash fields: nulls are left out, open fields become JSON."""
        if self.table.has_params:
            try:
                values = {n: v if n in self._names else json.dumps(v) for n, v in values.items()}
            except (TypeError, ValueError) as error:
                raise EngineError(
                    f"{self.table.name}: a value cannot be written as JSON: {error}"
                ) from error
        if None not in values.values():
            return values
        return {name: value for name, value in values.items() if value is not None}

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
    """State shared by the clients of one process."""

    level: str
    credentials: Credentials
    endpoints: tuple[Endpoint, ...]


class ValkeyClient(ThreadClient[Shared, KeyLayout]):
    """One thread's client; it has connections of its own."""

    engine_name = "valkey"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        user, password = shared.credentials.user, shared.credentials.password
        self._connections = Connections(shared.endpoints, user, password)
        servers = len(shared.endpoints)
        self._tags = tags_of(servers)
        self._server_of = hash_placement(servers)

    def _connect(self) -> None:
        self._connections.open()

    def _disconnect(self) -> None:
        self._connections.close()

    def create(self, schema: Schema) -> None:
        """Store the schema only: Valkey creates keys at their first write."""
        shared = self._writing("create")
        note, key = self._new_note(schema), self._tags[0] + _SCHEMA
        is_new = self._connections.ask(0, Valkey.set, key, note, nx=True)
        if is_new and shared.level == "memory":
            # A snapshot of the empty store: after a restart it has the schema, but no documents.
            self._connections.ask(0, Valkey.save)
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, KeyLayout]:
        tags, study_fields = self._tags, schema.study_fields
        return {kind: KeyLayout(kind, tags, study_fields=study_fields) for kind in schema.kinds}

    def _read_note(self) -> str | None:
        note = self._connections.ask(0, Valkey.get, self._tags[0] + _SCHEMA)
        return None if note is None else str(note, "utf-8")

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        """Insert a batch, in one transaction on each server."""
        self._writing("insert")
        layout = self._table(kind)
        layout.table.check(documents)
        parts: dict[int, dict[bytes, Mapping[str, Any]]] = {}
        for document in documents:
            # If an id occurs twice, keep its last document.
            part = parts.setdefault(self._server_of(document["_id"]), {})
            part[document["_id"]] = layout.hash_fields(document)

        def store(valkey: Any, server: int) -> None:
            prefix, part = layout.prefixes[server], parts[server]
            with valkey.pipeline() as pipe:
                pipe.delete(*(prefix + document_id for document_id in part))
                for document_id, values in part.items():
                    pipe.hset(prefix + document_id, mapping=values)
                pipe.zadd(layout.orders[server], dict.fromkeys(part, 0))
                pipe.execute()

        self._connections.ask_all(parts, store)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Set the fields in one request. If the document is missing, this creates a hash without
        ``_id``, which readers ignore and an insert replaces."""
        self._writing("update")
        layout = self._table(kind)
        layout.table.check_changes(changes)
        values = layout.hash_fields(changes)
        server = self._server_of(document_id)
        key = layout.prefixes[server] + document_id
        nulls = changes.keys() - values.keys() if len(values) < len(changes) else ()
        # If no field was new, the document existed.
        if not nulls and not self._connections.ask(server, Valkey.hset, key, mapping=values):
            return True

        def change(valkey: Any) -> Any:
            with valkey.pipeline() as pipe:
                pipe.hexists(key, "_id")
                if nulls:
                    pipe.hdel(key, *nulls)
                    if values:
                        pipe.hset(key, mapping=values)
                return pipe.execute()[0]

        return bool(self._connections.ask(server, change))

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        layout = self._table(kind)
        server = self._server_of(document_id)

        def remove(valkey: Any) -> Any:
            with valkey.pipeline() as pipe:
                pipe.delete(layout.prefixes[server] + document_id)
                pipe.zrem(layout.orders[server], document_id)
                return pipe.execute()[1]

        return bool(self._connections.ask(server, remove))

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        layout = self._table(kind)
        server = self._server_of(document_id)
        key = layout.prefixes[server] + document_id
        return layout.document(self._connections.ask(server, Valkey.hgetall, key))

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        layout = self._table(kind)
        parts: dict[int, list[bytes]] = {}
        for document_id in dict.fromkeys(document_ids):
            parts.setdefault(self._server_of(document_id), []).append(document_id)

        def read(valkey: Any, server: int) -> list[dict[bytes, bytes]]:
            with valkey.pipeline(transaction=False) as pipe:
                for document_id in parts[server]:
                    pipe.hgetall(layout.prefixes[server] + document_id)
                return list(pipe.execute())

        documents: dict[bytes, Document | None] = {}
        for ids, hashes in zip(parts.values(), self._connections.ask_all(parts, read), strict=True):
            documents |= zip(ids, map(layout.document, hashes), strict=True)
        return [documents[document_id] for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        """The documents of the first ids, which are merged from all servers."""
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
        """The first ids of all servers, from ``[id`` (included) or ``(id`` (excluded) on."""

        def ids(valkey: Any, server: int) -> list[bytes]:
            order = layout.orders[server]
            return list(valkey.zrange(order, first, "+", bylex=True, offset=0, num=limit))

        return list(islice(merge(*self._connections.ask_all(range(len(self._tags)), ids)), limit))

    def count(self, query: Count) -> int:
        """Count a whole kind by the servers' own count; with conditions every document is read."""
        if query.where:
            return super().count(query)
        orders = self._table(query.kind).orders
        ask = self._connections.ask
        return sum(ask(server, Valkey.zcard, order) for server, order in enumerate(orders))

    # What is known of the store.

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        return self._shared.endpoints[self._server_of(document_id)].name

    def disk_bytes(self) -> int | None:
        """Bytes of the append-only files of all servers; None if the level has none."""
        self._check_open()
        if self._shared.level == "memory":
            return None
        ask, servers = self._connections.ask, range(len(self._tags))
        infos = (ask(server, Valkey.info, "persistence") for server in servers)
        return sum(int(info["aof_current_size"]) for info in infos)
