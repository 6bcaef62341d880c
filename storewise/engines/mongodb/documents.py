"""How MongoDB keeps the documents of a kind: as BSON, which its conditions are put for.

The index on ``_id`` is the collection's first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from storewise.documents import Kind
from storewise.engines.contract.queries import Where
from storewise.engines.support.bson_documents import BsonForm

_OPERATORS = {"=": "$eq", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


class Form(BsonForm):
    """How the documents of one kind are kept, and asked for."""

    def filter(self, where: Sequence[Where], present: str | None = None) -> dict[str, Any]:
        """A query that fulfils all conditions, with the field `present` not null.

        EngineError for fields that the collection lacks.
        """
        parts: list[dict[str, Any]] = []
        for one in where:
            name = self.table.column(one.field).name
            parts.append({name: {_OPERATORS[one.op]: self.stored(name, one.value)}})
        if present is not None and not any(one.field == present for one in where):
            parts.append({present: {"$ne": None}})
        if len(parts) > 1:
            return {"$and": parts}
        return parts[0] if parts else {}


def forms_of(kinds: Sequence[Kind], *, study_fields: bool) -> dict[Kind, Form]:
    """How each of `kinds` is kept."""
    return {kind: Form(kind, study_fields=study_fields) for kind in kinds}
