"""How MongoDB keeps the documents of a kind: ids as ObjectIds, keys as strings.

Composite keys are packed into ``_id`` (`Kind.pack`), whose index is the collection's first one;
their fields are kept, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from storewise.documents import ID_BYTES, KEY_BYTES, Document, Kind, fields
from storewise.engines.contract.queries import Where
from storewise.engines.support.conditions import check
from storewise.engines.support.table import check_names, make_table
from storewise.errors import EngineError

_MOST = 1 << 63
#: No document fulfils it.
NOTHING: Mapping[str, Any] = {"_id": {"$in": []}}
_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


class Form:
    """How the documents of one kind are kept."""

    def __init__(self, kind: Kind, *, study_fields: bool = False) -> None:
        self.kind = kind
        self.table = make_table(kind, study_fields=study_fields)
        columns = fields(kind, study_fields=study_fields)
        self._names = frozenset(column.name for column in columns)
        self._texts = frozenset(column.name for column in columns if column.type == "key")
        self._bytes = tuple(column.name for column in columns if column.type in ("id", "key"))
        self._converted = tuple(c.name for c in columns if c.type in ("id", "key", "int"))
        self._keyed = kind.fields[0].type == "key"
        self.stored_id: Callable[[bytes], Any] = self._text if self._keyed else self._object_id
        """The ``_id`` of an id; None, which no document has, for one that cannot be."""
        self.document: Callable[[dict[str, Any]], Document] = (
            self._of_key if self._converted == ("_id",) and self._keyed else self._of_ids
        )
        """A stored document as clients know it; the same object, changed."""

    def _text(self, key: bytes) -> str | None:
        self._check_bytes(key)
        return key.decode() if 0 < len(key) <= KEY_BYTES and key.isascii() else None

    def _object_id(self, document_id: bytes) -> ObjectId | None:
        self._check_bytes(document_id)
        return ObjectId(document_id) if len(document_id) == ID_BYTES else None

    def _check_bytes(self, document_id: Any) -> None:
        if document_id.__class__ is not bytes:
            raise EngineError(f"{self.table.name}: {document_id!r} is no id of bytes")

    def _of_key(self, document: dict[str, Any]) -> Document:
        document["_id"] = document["_id"].encode()
        return document

    def _of_ids(self, document: dict[str, Any]) -> Document:
        for name in self._converted:
            if name in document:
                document[name] = self.loaded(document[name], name)
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
        kept = self._text(value) if name in self._texts else self._object_id(value)
        if kept is None:
            raise EngineError(f"{self.table.name}.{name}: {value!r} is no id of its kind")
        return kept

    def bson(self, document: Document) -> bytes:
        """A document as it is sent; EngineError where it has other fields than its kind."""
        if document.keys() != self._names:
            check_names(self.kind, self._names, document)
        self.table.check_ids((document,))
        changed = dict(document)
        for name in self._bytes:
            if name in changed:
                changed[name] = self.stored(name, changed[name])
        return bson.encode(changed)

    def changes(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The values of an update as they are stored; EngineError for what cannot be changed."""
        self.table.check_changes(changes)
        return {name: self.stored(name, value) for name, value in changes.items()}

    def filter(self, where: Sequence[Where], present: str | None = None) -> dict[str, Any]:
        """A query that fulfils all conditions, with the field `present` not null.

        EngineError for fields that the kind lacks, and for values of other types than theirs.
        """
        parts: list[dict[str, Any]] = []
        for one in where:
            column = check(self.table, one)
            bound = _bound(column.type if column else "id", one.op, one.value)
            parts.append(
                dict(NOTHING) if bound is None else {one.field: {_OPERATORS[bound[0]]: bound[1]}}
            )
        if present is not None and not any(one.field == present for one in where):
            parts.append({present: {"$ne": None}})
        if len(parts) > 1:
            return {"$and": parts}
        return parts[0] if parts else {}


def forms_of(kinds: Sequence[Kind], *, study_fields: bool) -> dict[Kind, Form]:
    """How each of `kinds` is kept."""
    return {kind: Form(kind, study_fields=study_fields) for kind in kinds}


def _bound(kind: str, op: str, value: Any) -> tuple[str, Any] | None:
    """The operator and value that say the same of what is stored; None: nothing fulfils it.

    A bound may be shorter or longer than an id, and no text at all where keys are text.
    """
    if kind == "id":
        if len(value) == ID_BYTES:
            return op, ObjectId(value)
        if op == "=":
            return None
        first = ObjectId(value[:ID_BYTES].ljust(ID_BYTES, b"\0"))
        if len(value) < ID_BYTES:
            return (">=" if op in (">", ">=") else "<"), first
        # Of a longer bound its first bytes come before it.
        return (">" if op in (">", ">=") else "<="), first
    if kind == "key":
        if value.isascii():
            return op, value.decode()
        if op == "=":
            return None
        text = next(n for n, byte in enumerate(value) if byte >= 128)
        # Behind all texts that begin like this; bytes of UTF-8 sort as characters do.
        return (">=" if op in (">", ">=") else "<"), value[:text].decode() + "\x80"
    if isinstance(value, int) and not -_MOST <= value < _MOST:
        # BSON has no such integers; the server compares with a float as exactly.
        return op, math.copysign(math.inf, value)
    return op, value
