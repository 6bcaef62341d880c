"""Partitions of the stores' data sets: which of them a question has to open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from storewise.dataset.segments import partition_of_byte, partition_of_name
from storewise.engines.contract.engine import Placement
from storewise.engines.contract.queries import Where
from storewise.engines.parquet.store import Store
from storewise.engines.support.stores import Router


class Partition(NamedTuple):
    """The part of a store that a read by id opens: a range of ids, or all of it (`number` is
    None)."""

    store: Store
    number: int | None = None

    def __str__(self) -> str:
        return str(self.store)


def ranges_of(store: Store) -> list[Partition]:
    """The partitions of a finished store, if they are ranges of ids; else the whole store."""
    settings = store.settings
    if settings is None or settings.by != "hash" or not store.finished:
        return [Partition(store)]
    return [Partition(store, number) for number in range(settings.partitions)]


class PartitionRouter(Router):
    """The partitions to read for an id; `ranges` are those of each store."""

    def __init__(self, ranges: Sequence[Sequence[Partition]], placement: Placement | None) -> None:
        super().__init__(len(ranges), placement)
        self._counts = [len(some) for some in ranges]
        self._firsts = [sum(self._counts[:n]) for n in range(len(ranges))]

    def stores_of(self, document_id: bytes) -> Sequence[int]:
        first = document_id[0] if document_id else 0
        return [
            self._firsts[store] + partition_of_byte(first, self._counts[store])
            for store in super().stores_of(document_id)
        ]


def partitions_with(store: Store, where: Sequence[Where]) -> tuple[int, ...] | None:
    """The partitions of a store that can have rows which fulfil conditions; None for all."""
    settings = store.settings
    if settings is None or settings.partitions == 1:
        return None
    for one in where:
        match settings.by, one.field, one.op, one.value:
            case "hash", "_id", "=", bytes() as value:
                return tuple(partition_of_byte(b, settings.partitions) for b in value[:1])
            case ("query", "q", "=", str() as name) | ("library", "lib", "=", str() as name):
                return (partition_of_name(name, settings.partitions),)
    return None
