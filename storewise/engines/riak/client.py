"""What one process does with a Riak cluster.

A kind is a bucket of the default type, an id a key (its bytes), a document a JSON object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.riak import protocol as pb
from storewise.engines.riak.connection import Link, Shared
from storewise.engines.riak.launch import endpoint_name
from storewise.engines.riak.ring import partition_of
from storewise.engines.support.clients import ProcessClient
from storewise.engines.support.json_documents import make_json_tables
from storewise.engines.support.table import Table
from storewise.errors import EngineError

#: Where the schema is kept, for clients that connect later.
SCHEMA = (b"schema", b"schema")


class RiakClient(ProcessClient[Shared, Table]):
    """One thread's client; each has connections of its own."""

    engine_name = "riak"

    def __init__(self, shared: Shared, link: Link) -> None:
        super().__init__(shared)
        self._link = link
        quorums = shared.quorums
        self._r, self._w, self._dw = map(pb.quorum, (quorums.r, quorums.w, quorums.dw))

    def check_connection(self) -> None:
        self._link.check_connection()

    def open_thread(self) -> RiakClient:
        client = RiakClient(self._shared, self._shared.link())
        try:
            client._link.open()
        except EngineError:
            client.close_thread()
            raise
        return client

    def close_thread(self) -> None:
        self._shared.drop(self._link)

    def create(self, schema: Schema) -> None:
        """Buckets come into being with their first key; what is kept is the schema."""
        self._writing("create")
        if schema.indexes and schema.index_time != "none":
            raise self._cannot("secondary index")
        # Whatever the level says: no client may miss it.
        everyone = pb.quorum("quorum")
        note = self._new_note(schema).encode()
        request = pb.put_request(*SCHEMA, note, w=everyone, dw=everyone)
        self._link.request("create", request, pb.PUT_ANSWER)
        self._use_schema(schema)

    def _make_tables(self, schema: Schema) -> dict[Kind, Table]:
        return dict(make_json_tables(schema))

    def _use_schema(self, schema: Schema) -> None:
        # First: another thread that finds a table wants its decoder.
        tables = self._make_tables(schema)
        self._shared.decoders = {kind: table.decoder() for kind, table in tables.items()}
        super()._use_schema(schema)

    def _read_note(self) -> str | None:
        request = pb.get_request(*SCHEMA, r=pb.quorum("quorum"))
        note = pb.read_get(self._link.request("connect", request, pb.GET_ANSWER))
        return None if note is None else note.values[0].decode()

    def _table(self, kind: Kind) -> Table:
        self._check_open()
        return super()._table(kind)

    def _decoder(self, kind: Kind) -> Any:
        self._table(kind)
        return self._shared.decoders[kind]

    def insert(self, kind: Kind, documents: Sequence[Document]) -> None:
        self._writing("insert")
        rows = self._table(kind).rows(documents)
        # Requests go over several connections in any order: send only the last document of an id.
        bucket = kind.table.encode()
        last: dict[bytes, str] = {row[0]: row[1] for row in rows}
        requests = [
            pb.put_request(bucket, key, text.encode(), w=self._w, dw=self._dw)
            for key, text in last.items()
        ]
        self._link.request_all("insert", requests, pb.PUT_ANSWER, self.on_acknowledged)

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        decode = self._decoder(kind)
        request = pb.get_request(kind.table.encode(), document_id, r=self._r)
        value = self._only(kind, document_id, self._link.request("get", request, pb.GET_ANSWER))
        return None if value is None else self._decoded(kind, document_id, value, decode)

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        decode = self._decoder(kind)
        wanted = list(dict.fromkeys(document_ids))
        bucket = kind.table.encode()
        requests = [pb.get_request(bucket, key, r=self._r) for key in wanted]
        documents: dict[bytes, Document] = {}
        bodies = self._link.request_all("get", requests, pb.GET_ANSWER)
        for key, body in zip(wanted, bodies, strict=True):
            value = self._only(kind, key, body)
            if value is not None:
                documents[key] = self._decoded(kind, key, value, decode)
        return [documents.get(key) for key in document_ids]

    def _only(self, kind: Kind, key: bytes, body: bytes) -> pb.StoredObject | None:
        """The one value of a key; EngineError for siblings."""
        try:
            value = pb.read_get(body)
        except pb.Malformed as error:
            words = str(error).removeprefix("riak: ")
            raise EngineError(
                f"riak: {kind.table}: the answer for the key {key.hex()}: {words}"
            ) from error
        if value is not None and len(value.values) > 1:
            raise EngineError(
                f"riak: {kind.table}: the key {key.hex()} has {len(value.values)} siblings; the "
                "buckets have allow_mult = false, so somebody else has changed that"
            )
        return value

    def _decoded(self, kind: Kind, key: bytes, value: pb.StoredObject, decode: Any) -> Document:
        try:
            document: Document = decode((key, value.values[0]))
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(
                f"riak: {kind.table}: the value of the key {key.hex()} is no document of "
                f"Storewise's: {error}"
            ) from error
        return document

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool | None:
        """Read, change and write back, which overwrites a concurrent update. An update of all
        fields is written without a read."""
        self._writing("update")
        table = self._table(kind)
        table.check_changes(changes)
        bucket = kind.table.encode()
        if len(changes) == len(table.names) - 1 and not kind.open_fields:
            self.insert(kind, [{"_id": document_id, **changes}])
            return None
        request = pb.get_request(bucket, document_id, r=self._r)
        value = self._only(kind, document_id, self._link.request("update", request, pb.GET_ANSWER))
        if value is None:
            return False
        document = self._decoded(kind, document_id, value, self._decoder(kind)) | dict(changes)
        ((key, text),) = table.rows([document])
        put = pb.put_request(
            bucket, key, text.encode(), w=self._w, dw=self._dw, vclock=value.vclock
        )
        self._link.request("update", put, pb.PUT_ANSWER)
        return True

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        """Read the key, then delete it; two concurrent deletes may both return True."""
        self._writing("delete")
        self._table(kind)
        bucket = kind.table.encode()
        request = pb.get_request(bucket, document_id, r=self._r, head=True)
        value = self._only(kind, document_id, self._link.request("delete", request, pb.GET_ANSWER))
        if value is None:
            return False
        delete = pb.delete_request(
            bucket, document_id, vclock=value.vclock, r=self._r, w=self._w, dw=self._dw
        )
        self._link.request("delete", delete, pb.DELETE_ANSWER)
        return True

    def owner(self, kind: Kind, document_id: bytes) -> str | None:
        """Name of the node whose partition the key's hash falls to, the first of its replicas.

        Each partition is asked for once. EngineError where the server has another partition for
        the key than the hash gives.
        """
        bucket = kind.table.encode()
        partition = partition_of(bucket, document_id, self._shared.ring_size)
        with self._shared.lock:
            known = self._shared.owners.get(partition)
        if known is not None:
            return known
        request = pb.frame(pb.PREFERENCE, pb.message((1, bucket), (2, document_id)))
        holders = pb.read_preference(self._link.request("owner", request, pb.PREFERENCE_ANSWER))
        first = next((holder for holder in holders if holder.partition == partition), None)
        if first is None:
            numbers = ", ".join(str(holder.partition) for holder in holders) or "none"
            raise EngineError(
                f"riak: owner: the key {document_id.hex()} of {kind.table} falls to partition "
                f"{partition} of {self._shared.ring_size}, but the server has it in {numbers}"
            )
        names = {endpoint_name(endpoint): endpoint.name for endpoint in self._shared.endpoints}
        name = names.get(first.node)
        if name is None:
            raise EngineError(f"riak: owner: the cluster has a node {first.node} that is not ours")
        if first.primary:
            with self._shared.lock:
                self._shared.owners[partition] = name
        return name

    def disk_bytes(self) -> int | None:
        """None: no node tells a client how many bytes its backend holds."""
        self._check_open()
        return None

    def close(self) -> None:
        """Closes the connections of all threads."""
        self._shared.close()
