"""What one process does with a server of Valkey, or with a cluster of several.

A document is a string under the key ``TABLE:ID``, in BSON. Of each table a sorted set, called as
the table, has the ids in the order of their bytes. In a cluster all keys of a server begin with its
tag (`slots`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from typing import Any

import bson
from bson.errors import BSONError

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Cluster, Endpoint, Engine, HashPlacement, Mode, Schema
from storewise.engines.contract.queries import Count, Scan
from storewise.engines.contract.server import Credentials
from storewise.engines.support.bson_documents import BsonForm
from storewise.engines.support.clients import ProcessState, ThreadClient, retried
from storewise.engines.support.servers import numbered_nodes
from storewise.engines.support.stores import chunks
from storewise.engines.support.table import describe, described
from storewise.engines.valkey.connection import Command, Links
from storewise.engines.valkey.counters import counters_of, read_counters
from storewise.engines.valkey.launch import user_of
from storewise.engines.valkey.settings import ValkeySettings
from storewise.engines.valkey.slots import tag_of
from storewise.errors import EngineError

#: Where the schema is kept, on the first server, for clients that connect later.
_SCHEMA = b":schema"
#: Documents, or ids, of one command; a server takes half a million at most.
_MOST = 10_000
#: An update that meets others is tried so often.
_TRIES = 100


class _Changed(EngineError):
    """Another client has changed a document while it was updated."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How the documents of a kind are kept, and under which keys on each server."""

    form: BsonForm
    prefixes: tuple[bytes, ...]
    """What the keys of documents begin with."""
    orders: tuple[bytes, ...]
    """The keys of the sorted sets of ids. Names of tables have no colon, so that they are the keys
    of no document."""

    @classmethod
    def of(cls, kind: Kind, tags: Sequence[bytes], *, study_fields: bool) -> Kept:
        orders = tuple(tag + kind.table.encode() for tag in tags)
        prefixes = tuple(order + b":" for order in orders)
        return cls(BsonForm(kind, study_fields=study_fields), prefixes, orders)


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Kept]):
    """What the clients of one process have in common."""

    settings: ValkeySettings
    level: str
    credentials: Credentials
    endpoints: tuple[Endpoint, ...]
    tags: tuple[bytes, ...]
    """What the keys of each server begin with."""
    placement: HashPlacement


def open_shared(engine: Engine, cluster: Cluster, mode: Mode) -> Shared:
    """What the clients of a process share; nothing is connected yet."""
    settings: ValkeySettings = engine.settings_of(cluster.settings)
    level = engine.level_of(cluster)
    endpoints = numbered_nodes(cluster)
    servers = len(endpoints)
    return Shared(
        mode=mode,
        kinds=cluster.kinds,
        settings=settings,
        level=level,
        credentials=Credentials.of(cluster),
        endpoints=endpoints,
        tags=tuple(tag_of(server, servers) for server in range(servers)),
        placement=HashPlacement(servers),
    )


class ValkeyClient(ThreadClient[Shared, Kept]):
    """One thread's client; it has connections of its own."""

    engine_name = "valkey"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        seconds = shared.settings.timeout_seconds
        self._links = Links(shared.endpoints, *user_of(shared.credentials), seconds)
        self._servers = len(shared.endpoints)

    def _disconnect(self) -> None:
        self._links.close()

    def greet(self) -> None:
        """EngineError where a server does not answer."""
        self._links.ask_all({server: [(b"PING",)] for server in range(self._servers)})

    def create(self, schema: Schema) -> None:
        """Keys come into being with their first value; what is kept is the schema."""
        shared = self._writing("create")
        if schema.indexes and schema.index_time != "none":
            raise self._cannot("secondary index")
        key = shared.tags[0] + _SCHEMA
        there, _ = self._links.ask(
            0, (b"GET", key), (b"SET", key, describe(schema, "documents").encode())
        )
        if there is None and shared.level == "memory":
            # A server that is started again has lost its documents, and still has its tables.
            self._links.ask(0, (b"SAVE",))
        self._keep(schema)

    def _keep(self, schema: Schema) -> None:
        shared = self._shared
        tables = {
            kind: Kept.of(kind, shared.tags, study_fields=schema.study_fields)
            for kind in schema.kinds
        }
        with shared.lock:
            shared.schema, shared.tables = schema, tables

    def _learn(self) -> None:
        """Take the schema that another client has created."""
        (text,) = self._links.ask(0, (b"GET", self._shared.tags[0] + _SCHEMA))
        if text is not None:
            schema, _ = described(text.decode(), self._shared.kinds)
            self._keep(schema)

    def _table(self, kind: Kind) -> Kept:
        self._check_open()
        return super()._table(kind)

    def _server_of(self, document_id: bytes) -> int:
        if document_id.__class__ is not bytes:
            raise EngineError(f"valkey: {document_id!r} is no id of bytes")
        return self._shared.placement.store_of(document_id) if self._servers > 1 else 0

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[bytes | Document]) -> None:
        """As BSON or as dicts; on each server one transaction."""
        self._writing("insert")
        kept = self._table(kind)
        parts: dict[int, list[tuple[bytes, bytes]]] = {}
        for document in documents:
            if isinstance(document, bytes):
                document_id, packed = kept.form.id_of(document), document
            else:
                packed, document_id = self._packed(kept.form, document), document["_id"]
            parts.setdefault(self._server_of(document_id), []).append((document_id, packed))
        if parts:
            self._transact({server: self._store(kept, server, p) for server, p in parts.items()})

    def _packed(self, form: BsonForm, document: Document) -> bytes:
        try:
            return form.bson(document)
        except (BSONError, OverflowError, UnicodeError) as error:
            raise EngineError(f"valkey: {form.table.name}: {error}") from error

    def _store(self, kept: Kept, server: int, part: Sequence[tuple[bytes, bytes]]) -> list[Command]:
        """Commands that keep documents and their places. Of an id that comes twice the last
        document counts."""
        prefix, order = kept.prefixes[server], kept.orders[server]
        commands: list[Command] = []
        for start in range(0, len(part), _MOST):
            some = part[start : start + _MOST]
            values = chain.from_iterable((prefix + key, packed) for key, packed in some)
            places = chain.from_iterable((b"0", key) for key, _ in some)
            commands += [(b"MSET", *values), (b"ZADD", order, *places)]
        return commands

    def _transact(
        self, requests: Mapping[int, Sequence[Command]], *, again: bool = True
    ) -> dict[int, list[Any] | None]:
        """What the commands of a transaction on each server have given; None where a key that was
        watched has changed. EngineError where a server refuses one: then it has done none."""
        whole = {
            server: ((b"MULTI",), *commands, (b"EXEC",)) for server, commands in requests.items()
        }
        answers = self._links.ask_all(whole, again=again)
        done = {server: found[-1] for server, found in answers.items()}
        for server, results in done.items():
            for result in results or ():
                if isinstance(result, Exception):
                    raise EngineError(f"valkey: {self._shared.endpoints[server]}: {result}")
        return done

    def finish(self) -> None:
        """Nothing is left to do: every insert was acknowledged."""
        self._writing("finish")

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        """Read, change and write back; again where another client has changed it meanwhile."""
        self._writing("update")
        kept = self._table(kind)
        values = kept.form.changes(changes)
        server = self._server_of(document_id)
        key = kept.prefixes[server] + document_id

        def once() -> bool:
            _, stored = self._links.ask(server, (b"WATCH", key), (b"GET", key))
            if stored is None:
                self._links.ask(server, (b"UNWATCH",))
                return False
            try:
                changed = bson.encode(bson.decode(stored) | values)
            except (BSONError, OverflowError, UnicodeError) as error:
                self._links.ask(server, (b"UNWATCH",))
                raise EngineError(f"valkey: {kind.table}: {error}") from error
            if self._transact({server: [(b"SET", key, changed)]}, again=False)[server] is None:
                raise _Changed(
                    f"valkey: {kind.table}: other clients have changed the document "
                    f"{document_id.hex()} at each of {_TRIES} tries to update it"
                )
            return True

        return retried(once, lambda error: isinstance(error, _Changed), _TRIES)

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        self._writing("delete")
        kept = self._table(kind)
        server = self._server_of(document_id)
        key, order = kept.prefixes[server] + document_id, kept.orders[server]
        commands = [(b"DEL", key), (b"ZREM", order, document_id)]
        done = self._transact({server: commands})[server]
        return bool(done and done[0])

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        kept = self._table(kind)
        server = self._server_of(document_id)
        stored = self._links.ask_one(server, (b"GET", kept.prefixes[server] + document_id))
        return None if stored is None else self._document(kept.form, stored)

    def _document(self, form: BsonForm, stored: bytes) -> Document:
        try:
            return form.document(bson.decode(stored))
        except (BSONError, KeyError) as error:
            raise EngineError(
                f"valkey: {form.table.name}: what is stored is no document of Storewise's: {error}"
            ) from error

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        kept = self._table(kind)
        parts: dict[int, list[bytes]] = {}
        for document_id in dict.fromkeys(document_ids):
            parts.setdefault(self._server_of(document_id), []).append(document_id)
        requests: dict[int, list[Command]] = {}
        for server, ids in parts.items():
            prefix = kept.prefixes[server]
            requests[server] = [
                (b"MGET", *(prefix + document_id for document_id in some))
                for some in chunks(ids, _MOST)
            ]
        documents: dict[bytes, Document] = {}
        for server, answers in self._links.ask_all(requests).items():
            values = chain.from_iterable(answers)
            for document_id, stored in zip(parts[server], values, strict=True):
                if stored is not None:
                    documents[document_id] = self._document(kept.form, stored)
        return [documents.get(document_id) for document_id in document_ids]

    def scan(self, query: Scan) -> list[Document]:
        """The first ids of all servers, then the documents of the first of these."""
        kind, start, limit = query.kind, query.start, query.limit
        kept = self._table(kind)
        documents: list[Document] = []
        while (wanted := limit - len(documents)) > 0:
            ids = self._ids(kept, start, wanted)
            documents += [d for d in self.get_many(kind, ids) if d is not None]
            if len(ids) < wanted:
                break
            # In place of those that others have deleted between the two questions.
            start = ids[-1] + b"\0"
        return documents

    def _ids(self, kept: Kept, start: bytes, limit: int) -> list[bytes]:
        """The first ids that are not below `start`, over all servers."""
        span = (b"[" + start, b"+", b"BYLEX", b"LIMIT", 0, limit)
        requests = {s: [(b"ZRANGE", order, *span)] for s, order in enumerate(kept.orders)}
        parts = [ids for (ids,) in self._links.ask_all(requests).values()]
        return list(islice(merge(*parts), limit))

    def count(self, query: Count) -> int:
        """Of a whole kind as the servers know it; with conditions by a look at every document."""
        kept = self._table(query.kind)
        if query.where:
            return super().count(query)
        requests = {s: [(b"ZCARD", order)] for s, order in enumerate(kept.orders)}
        return sum(int(number) for (number,) in self._links.ask_all(requests).values())

    # What is known of the store.

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        return self._shared.endpoints[self._server_of(document_id)].name

    def disk_bytes(self) -> int | None:
        """The logs of writes of all servers; None where the level has none."""
        self._check_open()
        if self._shared.level == "memory":
            return None
        sizes = (counters_of(self._links, server) for server in range(self._servers))
        return sum(int(counters["aof_current_size"]) for counters in sizes)

    def status(self) -> dict[str, float]:
        self._check_open()
        return read_counters(self._links, self._servers)
