"""Shelves: what of the stores a read by id asks.

Where partitions are ranges of ids a shelf is one partition of a store, else a whole store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storewise.dataset import pieces
from storewise.engines.contract.engine import Placement
from storewise.engines.contract.queries import Where
from storewise.engines.parquet.store import Store
from storewise.engines.support.stores import Router


@dataclass(frozen=True, slots=True)
class Shelf:
    """A partition of a store, or all of it where `partition` is None."""

    store: Store
    partition: int | None = None

    def __str__(self) -> str:
        return str(self.store)


def shelves_of(stores: Sequence[Store], *, writes: bool) -> list[list[Shelf]]:
    """The shelves of each store."""
    return [
        [Shelf(store, number) for number in range(_ranges(store))]
        if not writes and _ranges(store) > 1
        else [Shelf(store)]
        for store in stores
    ]


def _ranges(store: Store) -> int:
    """How many ranges of ids a store is cut into."""
    if store.settings is None or store.settings.by != "hash" or not store.finished:
        return 1
    return store.settings.partitions


class ShelfRouter(Router):
    """Which shelves to ask for an id."""

    def __init__(self, shelves: Sequence[Sequence[Shelf]], placement: Placement | None) -> None:
        super().__init__(len(shelves), placement)
        self._counts = [len(some) for some in shelves]
        self._firsts = [sum(self._counts[:n]) for n in range(len(shelves))]

    def stores_of(self, document_id: bytes) -> Sequence[int]:
        first = document_id[0] if document_id else 0
        return [
            self._firsts[store] + pieces.partition_of_byte(first, self._counts[store])
            for store in super().stores_of(document_id)
        ]


def partitions_of(store: Store, where: Sequence[Where]) -> tuple[int, ...] | None:
    """The partitions of a store that can have rows which fulfil conditions; None for all."""
    settings = store.settings
    if settings is None or settings.partitions == 1:
        return None
    for one in where:
        if one.op != "=":
            continue
        match settings.by, one.field, one.value:
            case "hash", "_id", bytes() as value:
                return tuple(pieces.partition_of_byte(b, settings.partitions) for b in value[:1])
            case "query", "q", str() as name:
                return (pieces.partition_of_name(name, settings.partitions),)
            case "library", "lib", str() as name:
                return (pieces.partition_of_name(name, settings.partitions),)
    return None
