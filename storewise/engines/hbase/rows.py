"""Documents as cells of a row: one with JSON, or one for each field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from storewise.documents import ID_BYTES, PARAMS_COLUMN, Document, FieldType, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.hbase.connection import Cells
from storewise.engines.sql.json_table import make_json_tables
from storewise.engines.support.table import Table, make_tables
from storewise.errors import EngineError

JSON_CELL = b"j"
#: Stands for null: neither UTF-8 nor a number, and no id is so short.
_NULL = b"\xff"
_MOST = 1 << 63
#: What a field's text is read by; None for what is no text.
_READERS: Mapping[FieldType, Callable[[bytes], Any] | None] = {
    "id": None,
    "key": None,
    "int": int,
    "float": float,
    "str": bytes.decode,
}


class Layout:
    """How documents of one kind become rows: one cell with JSON, atomic in every respect."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._decode = table.decoder()

    def rows(self, documents: Sequence[Document]) -> dict[bytes, Cells]:
        """Cells by id; of an id that comes more than once the last document counts.

        EngineError for a document that the layout cannot hold.
        """
        rows = self._rows(documents)
        size = self.table.kind.id_bytes
        for document_id in rows if size is not None else ():
            if not isinstance(document_id, bytes) or len(document_id) != size:
                raise EngineError(f"{self.table.name}: {document_id!r} is no id of {size} bytes")
        return rows

    def _rows(self, documents: Sequence[Document]) -> dict[bytes, Cells]:
        return {key: {JSON_CELL: text.encode()} for key, text in self.table.rows(documents)}

    def document(self, row: bytes, cells: Cells) -> Document:
        """The document as it was inserted."""
        return cast(Document, self._decode((row, cells[JSON_CELL])))

    def changed(self, row: bytes, old: Cells, changes: Mapping[str, Any]) -> Cells:
        """The cells of a row that an update writes."""
        return self.rows([{**self.document(row, old), **changes}])[row]

    def guard(self, new: Cells) -> bytes:
        """The cell that an update, which writes `new`, expects to be unchanged."""
        return JSON_CELL

    def unconditional_update(self, changes: Mapping[str, Any]) -> tuple[bytes, Cells] | None:
        """A cell that every document has, and the new cells of an update; None if they depend on
        stored values."""
        return None


class ColumnLayout(Layout):
    """A cell for each field but the id; a null has one, too, so that it replaces a value."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._columns = [(c.name, c.name.encode(), c.type) for c in table.columns[1:]]
        self._by_name = {c.name: c for c in table.columns[1:]}
        self._readers = [(c.name.encode(), _READERS[c.type]) for c in table.columns[1:]]

    def _rows(self, documents: Sequence[Document]) -> dict[bytes, Cells]:
        return {
            row[0]: {
                name: self._stored(field, value, kind)
                for (field, name, kind), value in zip(self._columns, row[1:], strict=True)
            }
            for row in self.table.rows(documents)
        }

    def _stored(self, field: str, value: Any, kind: FieldType) -> bytes:
        if value is None:
            return _NULL
        if kind == "str" and isinstance(value, str):
            try:
                return value.encode()
            except UnicodeEncodeError as error:
                raise EngineError(f"{self.table.name}.{field}: {error}") from error
        if kind == "int" and type(value) is int and -_MOST <= value < _MOST:
            return b"%d" % value
        if kind == "float" and type(value) in (int, float):
            return repr(float(value)).encode()
        if kind == "id" and isinstance(value, bytes) and len(value) == ID_BYTES:
            return value
        if kind == "key" and isinstance(value, bytes) and value.isascii():
            return value
        raise EngineError(f"{self.table.name}.{field} is of type {kind} and cannot hold {value!r}")

    def document(self, row: bytes, cells: Cells) -> Document:
        values = [
            None if (v := cells[name]) == _NULL else v if read is None else read(v)
            for name, read in self._readers
        ]
        return cast(Document, self._decode((row, *values)))

    def changed(self, row: bytes, old: Cells, changes: Mapping[str, Any]) -> Cells:
        new = super().changed(row, old, changes)
        names = {name.encode() for name in changes}
        if not names <= new.keys():
            names.add(PARAMS_COLUMN.encode())
        return {name: value for name, value in new.items() if name in names}

    def unconditional_update(self, changes: Mapping[str, Any]) -> tuple[bytes, Cells] | None:
        if not changes.keys() <= self._by_name.keys():
            return None
        cells = {
            name.encode(): self._stored(name, value, self._by_name[name].type)
            for name, value in changes.items()
        }
        return self._columns[0][1], cells

    def guard(self, new: Cells) -> bytes:
        # What holds several fields is made from what was read; other cells are written whole.
        params = PARAMS_COLUMN.encode()
        return params if params in new else self._columns[0][1]


def layout_of(kind: Kind, layout: str | None) -> str:
    """The layout of a kind's table: the setting `layout`, else the kind's default."""
    return layout or ("columns" if kind.id_bytes is None else "json")


def make_layouts(schema: Schema, layout: str | None) -> dict[Kind, Layout]:
    """How each kind of a schema is kept; EngineError where an index names no field."""
    # The SQL of a field, which a JSON table asks for, is of no use here.
    tables, columns = make_json_tables(schema, lambda field: field.name), make_tables(schema)
    return {
        kind: ColumnLayout(columns[kind])
        if layout_of(kind, layout) == "columns"
        else Layout(tables[kind])
        for kind in columns
    }
