"""The null engine: accepts everything, answers reads from nothing.

What a client reaches against it is the client's own ceiling: the cost of parsing, driving and
measuring without any store. Nothing here may be slower than it must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Cluster, Engine, Flags, Mode, Schema
from storewise.engines.contract.queries import Count, Find, Histogram, Scan, Top


class NullClient(Client):
    """Forgets what it is given; may be shared between threads."""

    def create(self, schema: Schema) -> None:
        """Nothing is created."""

    def insert(self, kind: Kind, documents: Sequence[Any]) -> None:
        """The batch is dropped."""

    def get(self, kind: Kind, document_id: bytes) -> Document | None:
        """A dict with the id that was asked for, made without a look-up."""
        return {"_id": document_id}

    def get_many(self, kind: Kind, document_ids: Sequence[bytes]) -> list[Document | None]:
        return [{"_id": document_id} for document_id in document_ids]

    def update(self, kind: Kind, document_id: bytes, changes: Mapping[str, Any]) -> bool:
        return True

    def delete(self, kind: Kind, document_id: bytes) -> bool:
        return True

    def scan(self, query: Scan) -> list[Document]:
        """`limit` times the start id, so that a driver counts as many documents as it asked for."""
        return [{"_id": query.start}] * query.limit

    def find(self, query: Find) -> list[Document]:
        return []

    def count(self, query: Count) -> int:
        return 0

    def top(self, query: Top) -> list[tuple[Any, int]]:
        return []

    def histogram(self, query: Histogram) -> dict[int, int]:
        return {}

    def disk_bytes(self) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to close."""


class NullEngine(Engine):
    """No store at all."""

    name = "null"
    title = "no store"
    # The least that a client can do with its input: any other form costs it more.
    encoding = "arrow"
    flags = Flags(
        embedded=True,
        stores=False,
        secondary_indexes=True,
        updates=True,
        deletes=True,
        scans=True,
        ranges=True,
        server_aggregation=True,
        finds=True,
        count="none",
    )
    consistencies: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("durable", "relaxed"),
        "nothing is kept; the level only lets it stand beside stores that have it",
    )

    def connect(self, cluster: Cluster, mode: Mode) -> NullClient:
        self.settings_of(cluster.settings)
        self.stores_of(cluster, mode)
        return NullClient()
