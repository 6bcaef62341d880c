"""How MongoDB keeps the documents of a kind: as BSON, which its conditions are put for.

The index on ``_id`` is the collection's first one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson.objectid import ObjectId

from storewise.documents import ID_BYTES, Kind
from storewise.engines.contract.queries import Where
from storewise.engines.support.bson_documents import BsonForm
from storewise.engines.support.conditions import check, in_floats

_MOST = 1 << 63
#: No document fulfils it.
NOTHING: Mapping[str, Any] = {"_id": {"$in": []}}
_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


class Form(BsonForm):
    """How the documents of one kind are kept, and asked for."""

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
        return in_floats(op, value)
    return op, value
