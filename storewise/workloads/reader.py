"""Queries answered by the store if its flags allow it, else by the client.

Such a client reads the necessary documents (by one condition, by scans, or by all ids) and computes
the answer itself; all ways give the same answer. The way depends only on the flags, so that results
can name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Client, Flags
from storewise.engines.contract.queries import Count, Find, Histogram, Query, Top, Where

#: Operations that the store executes itself.
Native = Literal["find", "count_where", "aggregate", "histogram"]
By = Native | Literal["range", "scan", "ids"]


def route(native: Native, flags: Flags, *, conditions: bool) -> By:
    """How a query is answered on an engine with these flags: by the store (`native`), or by what
    the client reads for it. `conditions`: the query has some."""
    if flags.server_aggregation if native == "aggregate" else flags.finds:
        return native
    if conditions and flags.ranges:
        return "range"
    if flags.scans:
        return "scan"
    return "range" if flags.ranges else "ids"


class Reader:
    """Asks one client; `read` are the documents that it received.

    `ids` gives all ids of a kind in lists, for engines that can neither search nor scan; a scan
    asks for `page` documents at a time. Of several conditions a store with `ranges` gets the first.
    """

    def __init__(
        self,
        client: Client,
        flags: Flags,
        ids: Callable[[Kind], Iterable[list[bytes]]],
        page: int = 2000,
    ) -> None:
        self._client, self._flags, self._ids, self._page = client, flags, ids, page
        self.read = 0

    def find(self, query: Find) -> list[Document]:
        """Like `Client.find`."""
        if documents := self._others(query, "find", query.where):
            return query.answer(documents)
        found = self._client.find(query)
        self.read += len(found)
        return found

    def count(self, query: Count) -> int:
        """Like `Client.count`."""
        documents = self._others(query, "count_where", query.where)
        return query.answer(documents) if documents else self._client.count(query)

    def top(self, query: Top) -> list[tuple[Any, int]]:
        """Like `Client.top`."""
        documents = self._others(query, "aggregate", query.where)
        return query.answer(documents) if documents else self._client.top(query)

    def histogram(self, query: Histogram) -> dict[int, int]:
        """Like `Client.histogram`."""
        documents = self._others(query, "histogram")
        return query.answer(documents) if documents else self._client.histogram(query)

    def _others(
        self, query: Query, native: Native, where: tuple[Where, ...] = ()
    ) -> Iterator[Document] | None:
        """The documents from which the client answers; None if the store answers."""
        by = route(native, self._flags, conditions=bool(where))
        return None if by == native else self._documents(by, query.kind, where)

    def _documents(self, by: By, kind: Kind, where: tuple[Where, ...]) -> Iterator[Document]:
        """All documents of a kind, or those that match the first of the conditions."""
        if by == "range":
            documents = self._client.find(Find(kind, where[:1]))
            self.read += len(documents)
            yield from documents
        elif by == "scan":
            for document in self._client.every(kind, self._page):
                self.read += 1
                yield document
        else:
            for ids in self._ids(kind):
                documents = [d for d in self._client.get_many(kind, ids) if d is not None]
                self.read += len(documents)
                yield from documents
