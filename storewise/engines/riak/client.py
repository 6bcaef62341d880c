"""The client of Riak.

A kind is a bucket of the default type, an id a key (its bytes), a document a JSON object. Requests
name no r, w or dw: those of the buckets count, which `riak.conf` has from the consistency level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Endpoint, Schema
from storewise.engines.riak.connection import Connection, request_all
from storewise.engines.riak.messages import QUORUM, pb
from storewise.engines.riak.ring import node_name, partition_of, ring_size
from storewise.engines.support.clients import ProcessState, ThreadClient
from storewise.engines.support.json_documents import from_json, to_json
from storewise.engines.support.table import Table, make_tables
from storewise.errors import EngineError

#: Bucket and key of the schema, for clients that connect later.
SCHEMA = {"bucket": b"schema", "key": b"schema"}
#: Of each thread. A node answers the requests of a connection one after another.
_CONNECTIONS = 4
#: Riak itself gives up after 60 s.
ANSWER_SECONDS = 65.0
PING_SECONDS = 5.0
_JSON = b"application/json"


@dataclass(slots=True, kw_only=True, eq=False)
class Shared(ProcessState[Table]):
    """The shared state of a process."""

    endpoints: tuple[Endpoint, ...]
    owners: dict[int, str] = field(default_factory=dict)
    """Nodes by number of partition, as far as they were asked for."""


class RiakClient(ThreadClient[Shared, Table]):
    """One thread's client; it has connections of its own. Threads begin with different nodes."""

    engine_name = "riak"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        first = len(shared.clients)
        self._connections = [
            Connection(shared.endpoints, first + place, ANSWER_SECONDS)
            for place in range(_CONNECTIONS)
        ]

    def _connect(self) -> None:
        for connection in self._connections:
            connection.open()

    def _disconnect(self) -> None:
        for connection in self._connections:
            connection.close()

    def check_connection(self) -> None:
        """Ping a node; EngineError if none answers."""
        with closing(Connection(self._shared.endpoints, 0, PING_SECONDS)) as connection:
            connection.request(pb.RpbPingReq(), pb.RpbPingResp)

    def _request(self, message: Any, response: Any) -> Any:
        return self._connections[0].request(message, response)

    # The schema. Whatever the level says, a quorum has it: no client may miss it.

    def create(self, schema: Schema) -> None:
        """Store the schema only: Riak creates a bucket with its first key."""
        self._writing("create")
        content = pb.RpbContent(value=self._new_note(schema).encode(), content_type=_JSON)
        self._request(pb.RpbPutReq(**SCHEMA, content=content, w=QUORUM, dw=QUORUM), pb.RpbPutResp)
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, Table]:
        return make_tables(schema)

    def _read_note(self) -> str | None:
        note = _value(self._request(pb.RpbGetReq(**SCHEMA, r=QUORUM), pb.RpbGetResp))
        return None if note is None else note.decode()

    # Writing.

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        self._writing("insert")
        # Of an id that comes twice only the last document: requests go over several connections.
        texts = to_json(self._table(kind), documents)
        puts = [_put(kind, key, text) for key, text in texts.items()]
        request_all(self._connections, puts, pb.RpbPutResp)

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool | None:
        """Read, change and write back, which overwrites a concurrent update. An update of all
        fields is written without a read."""
        self._writing("update")
        table = self._table(kind)
        table.check_changes(changes)
        if len(changes) == len(table.names) - 1 and not kind.open_fields:
            self.insert(kind, [{"_id": document_id, **changes}])
            return None
        found = self._request(_get(kind, document_id), pb.RpbGetResp)
        if (value := _value(found)) is None:
            return False
        document = from_json(table, document_id, value)
        (text,) = to_json(table, [document | dict(changes)]).values()
        self._request(_put(kind, document_id, text, found.vclock), pb.RpbPutResp)
        return True

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """Read the key, then delete it; two concurrent deletes may both return True."""
        self._writing("delete")
        self._table(kind)
        found = self._request(_get(kind, document_id, head=True), pb.RpbGetResp)
        if _value(found) is None:
            return False
        bucket, vclock = kind.table.encode(), found.vclock
        delete = pb.RpbDelReq(bucket=bucket, key=document_id, vclock=vclock)
        self._request(delete, pb.RpbDelResp)
        return True

    # Reading.

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        table = self._table(kind)
        value = _value(self._request(_get(kind, document_id), pb.RpbGetResp))
        return None if value is None else from_json(table, document_id, value)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        table = self._table(kind)
        keys = list(dict.fromkeys(document_ids))
        gets = [_get(kind, key) for key in keys]
        found = map(_value, request_all(self._connections, gets, pb.RpbGetResp))
        values = dict(zip(keys, found, strict=True))
        return [
            None if (value := values[key]) is None else from_json(table, key, value)
            for key in document_ids
        ]

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node whose partition the key's hash falls to, the first of its replicas.

        Each partition is asked for once. EngineError where the server has another partition for
        the key than the hash gives.
        """
        self._check_open()
        bucket, shared = kind.table.encode(), self._shared
        partition = partition_of(bucket, document_id, ring_size(len(shared.endpoints)))
        if partition in shared.owners:
            return shared.owners[partition]
        get = pb.RpbGetBucketKeyPreflistReq(bucket=bucket, key=document_id)
        holders = self._request(get, pb.RpbGetBucketKeyPreflistResp).preflist
        first = next((holder for holder in holders if holder.partition == partition), None)
        if first is None:
            raise EngineError(
                f"riak: the key {document_id.hex()} of {kind.table} falls to partition "
                f"{partition}, but the server says: {holders}"
            )
        names = {node_name(endpoint).encode(): endpoint.name for endpoint in shared.endpoints}
        if first.primary:
            shared.owners[partition] = names[first.node]
        return names[first.node]

    def disk_bytes(self) -> int | None:
        """None: no node tells a client how many bytes its backend holds."""
        self._check_open()
        return None


def _put(kind: Kind, key: bytes, text: bytes, vclock: bytes | None = None) -> Any:
    """The request that stores a document; `vclock` of the object that it replaces."""
    content = pb.RpbContent(value=text, content_type=_JSON)
    return pb.RpbPutReq(bucket=kind.table.encode(), key=key, content=content, vclock=vclock)


def _get(kind: Kind, key: bytes, *, head: bool = False) -> Any:
    """The request that reads an object; with `head` all but its value."""
    return pb.RpbGetReq(bucket=kind.table.encode(), key=key, head=head)


def _value(found: Any) -> bytes | None:
    """The value of a key; None where there is none, or only its tombstone."""
    values = [content.value for content in found.content if not content.deleted]
    return values[0] if values else None
