"""Which of several stores holds an id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storewise.engines.contract.engine import Placement


class Router:
    """Which of several stores to ask for an id."""

    def __init__(self, stores: int, placement: Placement | None) -> None:
        self._all = tuple(range(stores))
        self._placement = placement if stores > 1 else None

    def stores_of(self, document_id: bytes) -> Sequence[int]:
        """The stores to ask: one where the placement tells, else all in turn, none for an id
        that the placement does not know."""
        if self._placement is None:
            return self._all
        try:
            return (self._placement(document_id),)
        except KeyError:
            return ()

    def group(self, document_ids: Iterable[bytes]) -> dict[int, list[bytes]]:
        """The distinct ids by store to ask."""
        groups: dict[int, list[bytes]] = {}
        for document_id in dict.fromkeys(document_ids):
            for store in self.stores_of(document_id):
                groups.setdefault(store, []).append(document_id)
        return groups
