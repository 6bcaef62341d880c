"""Documents as rows: the id is the row key, and each other field is a cell.

Texts are UTF-8; numbers have eight bytes, as HBase's own class ``Bytes`` writes long and double.
A null has a cell, too, so that it replaces a value. Open fields are one cell with JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from storewise.documents import Document, Field, FieldType
from storewise.engines.hbase.connection import Cells
from storewise.engines.support.table import Table
from storewise.errors import EngineError

#: Neither UTF-8 nor a number, and no id is so short.
_NULL = b"\xff"
_LONG, _DOUBLE = struct.Struct(">q"), struct.Struct(">d")
_WRITERS: Mapping[FieldType, Callable[[Any], bytes]] = {
    "id": bytes,
    "key": bytes,
    "int": _LONG.pack,
    "float": _DOUBLE.pack,
    "str": str.encode,
}
_READERS: Mapping[FieldType, Callable[[bytes], Any]] = {
    "id": bytes,
    "key": bytes,
    "int": lambda value: _LONG.unpack(value)[0],
    "float": lambda value: _DOUBLE.unpack(value)[0],
    "str": bytes.decode,
}


class RowFormat:
    """How documents of one kind become rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.name = table.name.encode()
        """Of the table in HBase."""
        columns = table.columns[1:]
        self._writers = [(c.name.encode(), _WRITERS[c.type]) for c in columns]
        self._readers = [(c.name.encode(), _READERS[c.type]) for c in columns]
        self._fields: Mapping[str, Field] = {c.name: c for c in columns}
        self.present = columns[0].name.encode()
        """A cell that every row has."""
        self._decode = table.decoder()

    def rows(self, documents: Sequence[Document]) -> dict[bytes, Cells]:
        """Cells by id; of an id that comes more than once the last document counts.

        EngineError for a document with other fields than its kind, or with a value that a field
        cannot hold.
        """
        try:
            return {
                row[0]: {
                    name: _NULL if value is None else write(value)
                    for (name, write), value in zip(self._writers, row[1:], strict=True)
                }
                for row in self.table.rows(documents)
            }
        except (struct.error, UnicodeEncodeError) as error:
            raise EngineError(f"a document of {self.table.name}: {error}") from error

    def document(self, row: bytes, cells: Cells) -> Document:
        """The document as it was inserted."""
        values = [
            None if (value := cells[name]) == _NULL else read(value) for name, read in self._readers
        ]
        return self._decode((row, *values))

    def cells(self, changes: Mapping[str, Any]) -> Cells:
        """The cells that an update writes; EngineError for changes that the kind does not allow."""
        self.table.check_changes(changes)
        return {
            name.encode(): _NULL if value is None else _WRITERS[self._fields[name].type](value)
            for name, value in changes.items()
        }
