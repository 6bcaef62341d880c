"""Documents as JSON texts, kept under their ids: for Riak, and for stores of other packages.

JSON has no bytes and no infinite numbers: ids are written as 24 hexadecimal digits (in the order
of their bytes), and a float that is not finite is an error. Integers have up to 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import orjson

from storewise.documents import Document
from storewise.engines.support.table import Table
from storewise.errors import EngineError


def to_json(table: Table, documents: Sequence[Document]) -> dict[bytes, bytes]:
    """Id -> JSON text; the last document wins for equal ids. EngineError as in `Table.check`, and
    for values that JSON cannot hold."""
    table.check(documents)
    return {document["_id"]: _text(table, document) for document in documents}


def _text(table: Table, document: Document) -> bytes:
    rest = {name: value for name, value in document.items() if name != "_id"}
    try:
        text = orjson.dumps(rest, default=bytes.hex)
    except TypeError as error:
        raise EngineError(f"{table.name}: a value cannot be written as JSON: {error}") from error
    # JSON encodes numbers that are not finite as null.
    if b"null" in text:
        for name, value in rest.items():
            if isinstance(value, float) and not isfinite(value):
                raise EngineError(f"{table.name}.{name}: JSON cannot hold {value}")
    return text


def from_json(table: Table, document_id: bytes, text: bytes) -> Document:
    """Decode the document of an id."""
    document: Document = orjson.loads(text)
    for column in table.fields[1:]:
        if column.type == "id" and (value := document[column.name]) is not None:
            document[column.name] = bytes.fromhex(value)
    document["_id"] = document_id
    return document
