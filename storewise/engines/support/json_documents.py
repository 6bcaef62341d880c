"""Documents as JSON texts, kept under their ids: for Riak, and for stores of other packages.

JSON has no bytes and no infinite numbers: ids are written as 24 hexadecimal digits (in the order
of their bytes), and a float that is not finite is an error. Integers have up to 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

from storewise.documents import Document, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.support.table import Row, Table, make_tables
from storewise.errors import EngineError


@dataclass(frozen=True, slots=True)
class JsonTable(Table):
    """The table of one kind, with rows of (id, JSON text); `columns` are the fields that its
    documents must have."""

    def rows(self, documents: Sequence[Document]) -> list[Row]:
        """The documents as (id, JSON text)."""
        self.check(documents)
        return [(document["_id"], self._text(document)) for document in documents]

    def decoder(self) -> Any:
        ids = tuple(column.name for column in self.columns[1:] if column.type == "id")

        def decode(row: Row) -> Document:
            document: Document = orjson.loads(row[1])
            for name in ids:
                if (value := document[name]) is not None:
                    document[name] = bytes.fromhex(value)
            document["_id"] = row[0]
            return document

        return decode

    def _text(self, document: Document) -> str:
        rest = {name: value for name, value in document.items() if name != "_id"}
        try:
            text = orjson.dumps(rest, default=bytes.hex)
        except TypeError as error:
            raise EngineError(f"{self.name}: a value cannot be written as JSON: {error}") from error
        # What is not finite becomes null there.
        if b"null" in text:
            for name, value in rest.items():
                if isinstance(value, float) and not isfinite(value):
                    raise EngineError(f"{self.name}.{name}: JSON cannot hold {value}")
        return text.decode()


def make_json_tables(schema: Schema) -> dict[Kind, Table]:
    """The tables of a schema with documents as JSON; EngineError where an index names no field."""
    return {
        kind: JsonTable(kind, table.columns[:-1] if table.has_params else table.columns)
        for kind, table in make_tables(schema).items()
    }
