"""Documents as MongoDB keeps them: BSON with ids as ObjectIds and keys as strings.

Composite keys are packed into ``_id`` (`Kind.pack`); their fields are kept, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from storewise.documents import ID_BYTES, KEY_BYTES, Document, Kind, fields
from storewise.engines.contract.queries import Where
from storewise.engines.support.table import check_names, make_table
from storewise.errors import EngineError

_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


class BsonCodec:
    """Between the documents of one kind and what is stored of them."""

    def __init__(self, kind: Kind, *, study_fields: bool) -> None:
        self.kind = kind
        self.table = make_table(kind, study_fields=study_fields)
        columns = fields(kind, study_fields=study_fields)
        self._names = frozenset(column.name for column in columns)
        self._texts = frozenset(column.name for column in columns if column.type == "key")
        self._bytes = tuple(column.name for column in columns if column.type in ("id", "key"))
        converted = tuple(c.name for c in columns if c.type in ("id", "key", "int"))
        self._converted = converted
        keyed = kind.fields[0].type == "key"
        self.stored_id: Callable[[bytes], Any] = _text if keyed else _object_id
        """The ``_id`` of an id; None, which no document has, for one that cannot be."""
        self.document: Callable[[dict[str, Any]], Document] = (
            self._of_key if keyed and converted == ("_id",) else self._of_ids
        )
        """A stored document as clients know it; the same object, changed."""

    def _of_key(self, document: dict[str, Any]) -> Document:
        document["_id"] = document["_id"].encode()
        return document

    def _of_ids(self, document: dict[str, Any]) -> Document:
        for name in self._converted:
            value = document.get(name)
            if value.__class__ in (ObjectId, Int64, str):
                document[name] = self.loaded(value, name)
        return document

    def loaded(self, value: Any, name: str) -> Any:
        """The document's value of what is stored in a field."""
        if value.__class__ is ObjectId:
            return value.binary
        if value.__class__ is Int64:
            return int(value)
        return value.encode() if name in self._texts and value is not None else value

    def stored(self, name: str, value: Any) -> Any:
        """What is stored for a field's value; EngineError for no id where there must be one."""
        if name not in self._bytes or (value is None and name != "_id"):
            return value
        kept = _text(value) if name in self._texts else _object_id(value)
        if kept is None:
            raise EngineError(f"{self.table.name}.{name}: {value!r} is no id of its kind")
        return kept

    def bson(self, document: Document) -> bytes:
        """A document as it is sent; EngineError where it has other fields than its kind."""
        if document.keys() != self._names:
            check_names(self.kind, self._names, document)
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


def _text(key: bytes) -> str | None:
    return key.decode() if 0 < len(_checked(key)) <= KEY_BYTES and key.isascii() else None


def _object_id(document_id: bytes) -> ObjectId | None:
    return ObjectId(document_id) if len(_checked(document_id)) == ID_BYTES else None


def _checked(document_id: Any) -> Any:
    if document_id.__class__ is not bytes:
        raise EngineError(f"{document_id!r} is no id of bytes")
    return document_id
