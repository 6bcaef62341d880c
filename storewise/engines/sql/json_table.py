"""Tables that keep a document as JSON: the id and one column ``document``.

JSON has no bytes and no infinite numbers: ids are written as 24 hexadecimal digits (in the order
of their bytes), and a float that is not finite is an error. Integers have up to 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import orjson

from storewise.documents import Document, Field, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.support.table import Row, Table, check_names, make_tables
from storewise.errors import EngineError

DOCUMENT_COLUMN = "document"


@dataclass(frozen=True, slots=True)
class JsonTable(Table):
    """The table of one kind; `columns` are the fields that its documents must have."""

    json_value: Callable[[Field], str]
    """SQL of a field of the column ``document``, typed; SQL null for a JSON null."""

    @property
    def has_params(self) -> bool:
        """Whether documents may have more fields than `columns`."""
        return self.kind.open_fields

    @property
    def takes_columns(self) -> bool:
        return False

    @property
    def select(self) -> str:
        return f'"_id", "{DOCUMENT_COLUMN}"'

    def expression(self, column: Field) -> str:
        return '"_id"' if column.name == "_id" else self.json_value(column)

    def value(self, column: Field, stored: Any) -> Any:
        return bytes.fromhex(stored) if _is_hex(column) else stored

    def bound(self, column: Field, value: Any) -> Any:
        return value.hex() if _is_hex(column) else value

    def rows(self, documents: Sequence[Document]) -> list[Row]:
        """The documents as (id, JSON text)."""
        self.check(documents)
        names = frozenset(self.names)
        for document in documents:
            if document.keys() != names:
                check_names(self.kind, names, document)
        return [(document["_id"], self._text(document)) for document in documents]

    def json_texts(self, changes: Mapping[str, Any]) -> dict[str, str]:
        """Each field of `changes` as a JSON text."""
        return {name: self._dump({name: value}, value) for name, value in changes.items()}

    def decoder(self) -> Any:
        ids = tuple(c.name for c in self.columns if _is_hex(c))
        floats = tuple(c.name for c in self.columns if c.type == "float")

        def decode(row: Row) -> Document:
            document: Document = orjson.loads(row[1])
            for name in ids:
                if (value := document[name]) is not None:
                    document[name] = bytes.fromhex(value)
            for name in floats:
                # Stores may write 1.0 as 1.
                if document[name].__class__ is int:
                    document[name] = float(document[name])
            document["_id"] = row[0]
            return document

        return decode

    def document(self, row: Row) -> Document:
        document: Document = self.decoder()(row)
        return document

    def _text(self, document: Document) -> str:
        rest = {name: value for name, value in document.items() if name != "_id"}
        return self._dump(rest, rest)

    def _dump(self, named: Document, value: Any) -> str:
        try:
            text = orjson.dumps(value, default=bytes.hex)
        except TypeError as error:
            raise EngineError(f"{self.name}: a value cannot be written as JSON: {error}") from error
        # What is not finite becomes null there.
        if b"null" in text:
            for name, part in named.items():
                if isinstance(part, float) and not isfinite(part):
                    raise EngineError(f"{self.name}.{name}: JSON cannot hold {part}")
        return text.decode()


def _is_hex(column: Field) -> bool:
    return column.type == "id" and column.name != "_id"


def make_json_tables(schema: Schema, json_value: Callable[[Field], str]) -> dict[Kind, Table]:
    """The tables of a schema in the layout ``json``; EngineError where an index names no field."""
    return {
        kind: JsonTable(
            kind,
            table.columns[:-1] if table.has_params else table.columns,
            json_value,
        )
        for kind, table in make_tables(schema).items()
    }
