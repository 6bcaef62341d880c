"""Reads of documents by their ids, as operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

from storewise.documents import KINDS, Document, Kind
from storewise.engines.contract.engine import Client
from storewise.errors import EngineError
from storewise.workloads.contract import ClientContext, Operation

#: Count the bytes of so many first single documents, then of every 16th.
_COUNT_ALL, _COUNT_EVERY = 1000, 16
_TEXTS = (str, bytes)  # a union would be made anew for each value


def document_bytes(document: Document | None) -> int:
    """Payload of a document: characters of its strings, bytes of its ids, 8 for each number."""
    if document is None:
        return 0
    total = 0
    for value in document.values():
        if isinstance(value, _TEXTS):
            total += len(value)
        elif value is not None:
            total += 8
    return total


class PointReads:
    """Makes the operations ``get`` of one client; they raise EngineError for a missing document.

    Call each operation before the next one is made. To save time (a fifth of a fast read), the
    size of single documents is counted for the first `_COUNT_ALL` reads, then for every
    `_COUNT_EVERY`-th; the reads between get the size counted last.
    """

    def __init__(self, client: Client, context: ClientContext) -> None:
        self._client = client
        self._keeps = context.engine.flags.stores
        self._owner = client.owner if context.engine.flags.owner else None
        self._operations: dict[tuple[bool, str | None], Operation] = {}
        """The read of one document, whose bytes are counted or not, by the node that answers it."""
        self._reads = self._bytes = 0
        self._kind, self._id = KINDS[0], b""
        """The current operation's kind, id and result."""
        self._document: Document | None = None
        self._documents: Sequence[Document | None] = ()

    def single_read(self, kind: Kind, document_id: bytes) -> Operation:
        """The operation that reads one document."""
        self._kind, self._id = kind, document_id
        node = self._owner(kind, document_id) if self._owner is not None else None
        self._reads += 1
        counted = self._reads <= _COUNT_ALL or not self._reads % _COUNT_EVERY
        operation = self._operations.get((counted, node))
        if operation is None:
            size = self._size if counted else lambda: self._bytes
            operation = Operation("get", self._get, 1, 0, node, size)
            self._operations[counted, node] = operation
        return operation

    def single_reads(self, draws: Iterator[tuple[Kind, bytes]]) -> Iterator[Operation]:
        """Yield an operation for each (kind, id): it reads this document."""
        return itertools.starmap(self.single_read, draws)

    def batch_read(self, kind: Kind, ids: list[bytes]) -> Operation:
        """The operation that reads several documents by one call."""
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
        self._bytes = document_bytes(self._document)
        return self._bytes

    def _size_of_all(self) -> int:
        return sum(map(document_bytes, self._documents))
