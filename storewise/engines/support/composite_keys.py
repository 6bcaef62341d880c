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
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def quoted(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class CompositeKey:
    """The numbers that the ids of a kind pack (`Kind.key`), faster than `Kind.pack` does it.

    `row_values`: the store's planner uses the primary key for ``(a, b) >= (?, ?)``; where it does
    not, the comparison is written out column by column.
    """

    def __init__(self, kind: Kind, *, row_values: bool) -> None:
        self._kind = kind
        self._row_values = row_values
        self.names = tuple(name for name, _ in kind.key)
        self._widths = tuple(width for _, width in kind.key)
        self.size = sum(self._widths)
        self.pack: Callable[..., bytes]
        """The id of the numbers, each an argument."""
        self._unpack: Callable[[bytes], tuple[int, ...]]
        if set(self._widths) <= _CODES.keys():
            packer = struct.Struct(">" + "".join(_CODES[width] for width in self._widths))
            self.pack, self._unpack = packer.pack, packer.unpack
        else:
            self.pack, self._unpack = (lambda *numbers: kind.pack(numbers)), kind.unpack

    def values(self, document_id: bytes) -> tuple[int, ...] | None:
        """The numbers of an id; None for an id that no row can have."""
        if document_id.__class__ is not bytes:
            raise EngineError(f"{self._kind.table}: {document_id!r} is no id of bytes")
        if len(document_id) != self.size:
            return None
        numbers = self._unpack(document_id)
        return numbers if max(numbers) <= MAX_INT else None

    def compared(self, operator: str, document_id: bytes) -> tuple[str, tuple[int, ...]] | None:
        """``row operator document_id`` as (operator, numbers), also for an id of another length
        or with a number that no column holds; None where it is true of no row."""
        exact = self.values(document_id)
        if exact is not None:
            return operator, exact
        if operator == "=":
            return None
        if len(document_id) < self.size:
            # Between the row of the same numbers (zeros behind) and the one before it.
            numbers = self.values(document_id.ljust(self.size, b"\0"))
            if numbers is not None:
                return (">=" if operator[0] == ">" else "<"), numbers
        # Between the last row that can be and the one behind it.
        parts = list(self._unpack(document_id[: self.size].ljust(self.size, b"\0")))
        for place, number in enumerate(parts):
            if number > MAX_INT:
                largest = (min(MAX_INT, (1 << 8 * width) - 1) for width in self._widths[place:])
                parts[place:] = largest
                break
        return (">" if operator[0] == ">" else "<="), tuple(parts)

    def sql(self, operator: str, numbers: Sequence[int], mark: str) -> tuple[str, list[int]]:
        """A comparison of the key with `numbers` as SQL, and its parameters."""
        names = [quoted(name) for name in self.names]
        if operator == "=":
            return " AND ".join(f"{name} = {mark}" for name in names), list(numbers)
        if self._row_values:
            marks = ", ".join([mark] * len(names))
            return f"({', '.join(names)}) {operator} ({marks})", list(numbers)
        clause, values = f"{names[-1]} {operator} {mark}", [numbers[-1]]
        for name, number in zip(names[-2::-1], numbers[-2::-1], strict=True):
            clause = f"({name} {operator[0]} {mark} OR ({name} = {mark} AND {clause}))"
            values = [number, number, *values]
        # What holds for every row in question, for planners that look no deeper.
        return f"({names[0]} {operator[0]}= {mark} AND {clause})", [numbers[0], *values]

    def check(self, documents: Sequence[Document]) -> None:
        """Raise EngineError for a document whose id is not that of its numbers."""
        numbers = itemgetter(*self.names)
        one = len(self.names) == 1
        for document in documents:
            try:
                key = numbers(document)
                right = self.pack(key) if one else self.pack(*key)
            except KeyError as error:
                raise EngineError(
                    f"a document of {self._kind.table} lacks the field {error}"
                ) from error
            except (struct.error, OverflowError, TypeError, AttributeError) as error:
                raise EngineError(
                    f"a document of {self._kind.table} has a number that its key cannot hold: "
                    f"{self._shown(document)}: {error}"
                ) from error
            if document.get("_id") != right:
                raise EngineError(
                    f"a document of {self._kind.table} has the id {document.get('_id')!r}; "
                    f"{self._shown(document)} give {right!r}"
                )

    def _shown(self, document: Document) -> str:
        return ", ".join(f"{name} {document[name]!r}" for name in self.names)

    def positions(self, names: Sequence[str]) -> Any:
        """A function that takes the key out of a row with these columns, as a tuple."""
        places = [names.index(name) for name in self.names]
        if len(places) == 1:
            return lambda row: (row[places[0]],)
        return itemgetter(*places)


#: SQL of what is never true.
NEVER = "1 = 0"
