"""Reads of documents by their ids, as operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.engine import Client
from storewise.errors import EngineError
from storewise.workloads.contract import ClientContext, Operation

#: Single documents whose bytes are all counted, and of how many later ones the bytes of one are.
_FIRST, _EACH = 1000, 16


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
    """Makes the operations ``get`` of one client; a document that is missing is an EngineError.

    Each operation is to be called before the next one is made. The bytes of single documents are
    counted of the first ones, and then of each `_EACH`-th, which stands for those that follow: to
    count them all takes a client a fifth of a fast read.
    """

    def __init__(self, client: Client, context: ClientContext) -> None:
        self._client = client
        self._keeps = context.engine.flags.stores
        self._owner = client.owner if context.engine.flags.owner else None
        self._operations: dict[str | None, Operation] = {}
        """The read of one document, by the node that answers it."""
        self._reads = self._bytes = 0
        self._kind, self._id = KINDS[0], b""
        """What the operation at hand reads, and what it got."""
        self._document: Document | None = None
        self._documents: Sequence[Document | None] = ()

    def one(self, kind: Kind, document_id: bytes) -> Operation:
        """The read of one document."""
        self._kind, self._id = kind, document_id
        node = self._owner(kind, document_id) if self._owner is not None else None
        operation = self._operations.get(node)
        if operation is None:
            operation = Operation("get", self._get, 1, 0, node, self._size)
            self._operations[node] = operation
        return operation

    def each(self, draws: Iterator[tuple[Kind, bytes]]) -> Iterator[Operation]:
        """The reads of single documents, one after the other."""
        if self._owner is not None:
            yield from itertools.starmap(self.one, draws)
            return
        operation = Operation("get", self._get, 1, 0, None, self._size)
        for self._kind, self._id in draws:
            yield operation

    def several(self, kind: Kind, ids: list[bytes]) -> Operation:
        """The read of several documents by one call."""
        call = partial(self._get_many, kind, ids)
        return Operation("get", call, len(ids), 0, None, self._size_of_all)

    def _get(self) -> int:
        document = self._document = self._client.get(self._kind, self._id)
        if document is None and self._keeps:
            raise EngineError(f"document {self._id.hex()} of {self._kind.table} is missing")
        return 1

    def _get_many(self, kind: Kind, ids: list[bytes]) -> int:
        self._documents = self._client.get_many(kind, ids)
        if None in self._documents and self._keeps:
            missing = ids[self._documents.index(None)]
            raise EngineError(f"document {missing.hex()} of {kind.table} is missing")
        return len(ids)

    def _size(self) -> int:
        reads = self._reads = self._reads + 1
        if reads < _FIRST or not reads % _EACH:
            self._bytes = document_bytes(self._document)
        return self._bytes

    def _size_of_all(self) -> int:
        return sum(map(document_bytes, self._documents))
