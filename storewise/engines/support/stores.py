"""Routing of ids to stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from storewise.engines.contract.engine import Placement


class Router:
    """Finds the stores to ask for an id."""

    def __init__(self, stores: int, placement: Placement | None) -> None:
        self._all = tuple(range(stores))
        self._placement = placement if stores > 1 else None

    def stores_of(self, document_id: bytes) -> Sequence[int]:
        """The stores to ask: one if there is a placement (none for an unknown id), else all."""
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
