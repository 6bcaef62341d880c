"""Documents as rows: the id is the row key, and each other field is a cell.

Texts are UTF-8; numbers have eight bytes, as HBase's own class ``Bytes`` writes long and double.
A null has a cell, too, so that it replaces a value. Open fields are one cell with JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from storewise.documents import Document, FieldType
from storewise.engines.support.table import Table
from storewise.errors import EngineError

Cells = dict[bytes, bytes]
"""Values by qualifier, of the one column family."""

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
    """Conversion of the documents of one kind to rows."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.name = table.name.encode()
        """The table's name in HBase."""
        columns = table.columns[1:]
        self._writers = {c.name: (c.name.encode(), _WRITERS[c.type]) for c in columns}
        self._readers = [(c.name.encode(), _READERS[c.type]) for c in columns]
        self._decode = table.decoder()
        self.present = columns[0].name.encode()
        """A cell that every row has."""

    def rows(self, documents: Sequence[Document]) -> dict[bytes, Cells]:
        """Cells by id; of an id that comes more than once the last document counts.

        EngineError as in `Table.check`, and for a value that a field cannot hold.
        """
        writers = self._writers.values()
        try:
            return {
                row[0]: {
                    name: _NULL if value is None else write(value)
                    for (name, write), value in zip(writers, row[1:], strict=True)
                }
                for row in self.table.rows(documents)
            }
        except (struct.error, UnicodeEncodeError) as error:
            raise EngineError(f"a document of {self.table.name}: {error}") from error

    def cells(self, changes: Mapping[str, Any]) -> Cells:
        """The cells that an update writes; EngineError for changes that the kind does not allow."""
        self.table.check_changes(changes)
        cells = {}
        for name, value in changes.items():
            qualifier, write = self._writers[name]
            cells[qualifier] = _NULL if value is None else write(value)
        return cells

    def document(self, result: Any) -> Document:
        """The document of a ``TResult``, as it was inserted."""
        cells = {cell.qualifier: cell.value for cell in result.columnValues}
        values = [
            None if (value := cells[name]) == _NULL else read(value) for name, read in self._readers
        ]
        return self._decode((result.row, *values))
