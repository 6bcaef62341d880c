"""Reads of documents by their ids, as operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client
from storewise.errors import EngineError
from storewise.workloads.contract import ClientContext, Operation


def document_bytes(document: Document | None) -> int:
    """Payload of a document: characters of its strings, bytes of its ids, 8 for each number."""
    if document is None:
        return 0
    total = 0
    for value in document.values():
        if isinstance(value, str | bytes):
            total += len(value)
        elif value is not None:
            total += 8
    return total


class PointReads:
    """Makes the operations ``get`` of one client; a document that is missing is an EngineError."""

    def __init__(self, client: Client, context: ClientContext) -> None:
        self._client = client
        self._keeps = context.engine.flags.stores
        self._owner = client.owner if context.engine.flags.owner else None
        self._documents: Sequence[Document | None] = ()
        """What the last operation read."""

    def one(self, kind: Kind, document_id: bytes) -> Operation:
        """The read of one document."""
        node = self._owner(kind, document_id) if self._owner is not None else None
        return Operation("get", partial(self._get, kind, document_id), 1, 0, node, self._size)

    def several(self, kind: Kind, ids: list[bytes]) -> Operation:
        """The read of several documents by one call."""
        call = partial(self._get_many, kind, ids)
        return Operation("get", call, len(ids), 0, None, self._size)

    def _get(self, kind: Kind, document_id: bytes) -> int:
        document = self._client.get(kind, document_id)
        self._documents = (document,)
        if document is None and self._keeps:
            raise EngineError(f"document {document_id.hex()} of {kind.table} is missing")
        return 1

    def _get_many(self, kind: Kind, ids: list[bytes]) -> int:
        self._documents = self._client.get_many(kind, ids)
        if None in self._documents and self._keeps:
            missing = ids[self._documents.index(None)]
            raise EngineError(f"document {missing.hex()} of {kind.table} is missing")
        return len(ids)

    def _size(self) -> int:
        return sum(map(document_bytes, self._documents))
