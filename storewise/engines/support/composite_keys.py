"""Composite keys: ids that pack several numbers, and the columns that stores keep instead."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from storewise.documents import Document, Kind
from storewise.errors import EngineError

#: The largest number of a column: the stores' integers have a sign.
MAX_INT = (1 << 63) - 1
#: Width in bytes -> code of `struct`.
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def quoted(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class CompositeKey:
    """The numbers that the ids of a kind pack (`Kind.key`), faster than `Kind.pack` does it."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.names = tuple(name for name, _ in kind.key)
        packer = struct.Struct(">" + "".join(_CODES[width] for _, width in kind.key))
        self.pack: Callable[..., bytes] = packer.pack
        """The id of the numbers, each an argument."""
        self._unpack, self._size = packer.unpack, packer.size
        self._no_row = (-1,) * len(self.names)

    def values(self, document_id: bytes) -> tuple[int, ...]:
        """The numbers of an id; of one that no document can have, numbers that no row has (-1)."""
        if document_id.__class__ is not bytes:
            raise EngineError(f"{self._kind.table}: the id {document_id!r} is not a bytes object")
        if len(document_id) != self._size:
            return self._no_row
        numbers = self._unpack(document_id)
        return numbers if max(numbers) <= MAX_INT else self._no_row

    def checked(self, document_id: bytes) -> tuple[int, ...]:
        """The numbers of an id; EngineError for one that no document can have."""
        numbers = self.values(document_id)
        if numbers == self._no_row:
            raise EngineError(f"{self._kind.table}: no document can have the id {document_id!r}")
        return numbers

    def compared(self, operator: str, document_id: bytes, mark: str) -> tuple[str, list[int]]:
        """SQL and parameters of a comparison of the key with an id, column by column."""
        numbers = self.checked(document_id)
        names = [quoted(name) for name in self.names]
        if operator == "=":
            return " AND ".join(f"{name} = {mark}" for name in names), list(numbers)
        clause, values = f"{names[-1]} {operator} {mark}", [numbers[-1]]
        for name, number in zip(names[-2::-1], numbers[-2::-1], strict=True):
            clause = f"({name} {operator[0]} {mark} OR ({name} = {mark} AND {clause}))"
            values = [number, number, *values]
        # What holds for every row in question, for planners that look no deeper.
        return f"({names[0]} {operator[0]}= {mark} AND {clause})", [numbers[0], *values]

    def check(self, documents: Sequence[Document]) -> None:
        """Raise EngineError for a document whose id is not that of its numbers."""
        numbers = itemgetter(*self.names)
        for document in documents:
            try:
                right = self.pack(*numbers(document))
            except KeyError as error:
                raise EngineError(
                    f"a document of {self._kind.table} lacks the field {error}"
                ) from error
            except struct.error as error:
                raise EngineError(
                    f"a document of {self._kind.table} has a number that its key cannot hold: "
                    f"{self._shown(document)}: {error}"
                ) from error
            if document.get("_id") != right:
                raise EngineError(
                    f"a document of {self._kind.table} has the id {document.get('_id')!r}, but its "
                    f"key fields ({self._shown(document)}) make the id {right!r}"
                )

    def _shown(self, document: Document) -> str:
        return ", ".join(f"{name} {document[name]!r}" for name in self.names)

    def of_row(self, names: Sequence[str]) -> Callable[[Sequence[Any]], tuple[int, ...]]:
        """A function that takes the key out of a row with these columns."""
        return itemgetter(*(names.index(name) for name in self.names))
