"""Documents as MongoDB keeps them: BSON with ids as ObjectIds and keys as strings.

Composite keys are packed into ``_id`` (`Kind.pack`); their fields are kept, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from storewise.documents import Document, Kind
from storewise.engines.contract.queries import Where
from storewise.engines.support.table import make_table
from storewise.errors import EngineError

#: By the type of a field, how its value is stored.
_ENCODE: Mapping[str, Callable[[Any], Any]] = {"id": ObjectId, "key": bytes.decode}
#: By the type of a stored value, the document's value.
_DECODE: Mapping[type, Callable[[Any], Any]] = {
    ObjectId: attrgetter("binary"),
    str: str.encode,
    Int64: int,
}
_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


class BsonCodec:
    """Converts the documents of one kind to their stored form and back."""

    def __init__(self, kind: Kind, *, study_fields: bool) -> None:
        self.kind = kind
        self.table = make_table(kind, study_fields=study_fields)
        columns = self.table.fields
        self._encode = {c.name: _ENCODE[c.type] for c in columns if c.type in _ENCODE}
        self._decoded = tuple(c.name for c in columns if c.type in ("id", "key", "int"))

    def stored_id(self, document_id: bytes) -> Any:
        """The ``_id`` of an id; None, which no document has, for one that cannot be."""
        try:
            return self._encode["_id"](document_id)
        except (TypeError, UnicodeDecodeError):
            return None

    def stored(self, name: str, value: Any) -> Any:
        """The stored form of a field's value; raises EngineError for a missing id."""
        if name not in self._encode or value is None:
            return value
        try:
            return self._encode[name](value)
        except (TypeError, UnicodeDecodeError) as error:
            raise EngineError(f"{self.kind.table}.{name}: {value!r} is no id: {error}") from error

    def loaded(self, name: str, value: Any) -> Any:
        """The value of a stored field."""
        decode = _DECODE.get(value.__class__) if name in self._decoded else None
        return value if decode is None else decode(value)

    def document(self, stored: dict[str, Any]) -> Document:
        """A stored document as clients know it; the same object, changed."""
        for name in self._decoded:
            value = stored.get(name)
            decode = _DECODE.get(value.__class__)
            if decode is not None:
                stored[name] = decode(value)
        return stored

    def bson(self, document: Document) -> bytes:
        """A document as it is sent; EngineError where it has other fields than its kind."""
        self.table.check((document,))
        return bson.encode({name: self.stored(name, value) for name, value in document.items()})

    def changes(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The values of an update as they are stored; EngineError for what cannot be changed."""
        self.table.check_changes(changes)
        return {name: self.stored(name, value) for name, value in changes.items()}

    def filter(self, where: Sequence[Where], *more: dict[str, Any]) -> dict[str, Any]:
        """The filter of a query that fulfils all conditions; EngineError for fields that the
        collection lacks."""
        parts = list(more)
        for one in where:
            name = self.table.column(one.field).name
            parts.append({name: {_OPERATORS[one.op]: self.stored(name, one.value)}})
        return {"$and": parts} if len(parts) > 1 else parts[0] if parts else {}
