"""Tables of ClickHouse: their definition, and values as literals.

Table engine: https://clickhouse.com/docs/engines/table-engines/mergetree-family/replacingmergetree;
indexes: https://clickhouse.com/docs/optimize/skipping-indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storewise.documents import Document, Field, FieldType, Kind
from storewise.engines.contract.engine import Schema
from storewise.engines.support.table import Row, Table, make_tables, quoted
from storewise.errors import EngineError

TYPES: Mapping[FieldType, str] = {
    # Not FixedString(12): ClickHouse fills it up with zeros when it compares, and an id of another
    # length would be equal to one that ends in zeros.
    "id": "String",
    "key": "String",
    "int": "Int64",
    "float": "Float64",
    "str": "String",
}
#: Columns of our own. Of rows with one id and one version that which was inserted last counts. All
#: versions are 0: ClickHouse wants them where rows can be marked as deleted.
VERSION, DELETED = "storewise_version", "storewise_deleted"
_HIDDEN = f"{VERSION} UInt8 DEFAULT 0, {DELETED} UInt8 DEFAULT 0"


@dataclass(frozen=True, slots=True)
class ChdbTable(Table):
    """The table of one kind; ClickHouse gives texts as bytes, like ids."""

    def value(self, column: Field, stored: Any) -> Any:
        return stored.decode() if column.type == "str" and stored is not None else stored

    def document(self, row: Row) -> Document:
        return Table.document(self, _with_texts(self._texts, row))

    def decoder(self) -> Any:
        if self.has_params:
            return self.document
        texts, decode = self._texts, Table.decoder(self)
        return lambda row: decode(_with_texts(texts, row))

    @property
    def _texts(self) -> tuple[int, ...]:
        return tuple(n for n, column in enumerate(self.columns) if column.type == "str")


def _with_texts(places: tuple[int, ...], row: Row) -> Row:
    values = list(row)
    for place in places:
        if values[place] is not None:
            values[place] = values[place].decode()
    return tuple(values)


def chdb_tables(tables: Mapping[Kind, Table]) -> dict[Kind, Table]:
    """The same tables as ClickHouse gives their values."""
    return {
        kind: ChdbTable(kind, table.columns, composite=table.composite)
        for kind, table in tables.items()
    }


def tables_of(schema: Schema) -> dict[Kind, Table]:
    """The tables of a schema; EngineError where an index names no column."""
    return chdb_tables(make_tables(schema, composite=True))


def definition(table: Table, indexes: Iterable[str], settings: Mapping[str, object]) -> str:
    """What follows the name in CREATE TABLE or ATTACH TABLE."""
    columns = []
    for column in table.columns:
        name = TYPES[column.type]
        columns.append(
            f"{quoted(column.name)} {name if column.name in table.key else f'Nullable({name})'}"
        )
    for name in indexes:
        columns += [f"INDEX {index}" for index in index_definitions(table, name)]
    options = ", ".join(f"{name} = {value}" for name, value in settings.items())
    return (
        f"({', '.join(columns)}, {_HIDDEN}) ENGINE = ReplacingMergeTree({VERSION}, {DELETED}) "
        f"ORDER BY ({table.key_list}) SETTINGS {options}"
    )


def index_definitions(table: Table, name: str) -> list[str]:
    """The data-skipping indexes of a field: its limits in each granule for ranges, a Bloom filter
    for equality.

    Not for floats, of which 0.0 and -0.0 are equal and have different bits."""
    column = table.column(name)
    index = f"{table.name}_{name}"
    kinds = {index: "minmax"}
    if column.type != "float":
        kinds[f"{index}_equal"] = "bloom_filter"
    return [
        f"{quoted(called)} {quoted(name)} TYPE {kind} GRANULARITY 1"
        for called, kind in kinds.items()
    ]


def literal(value: Any) -> str:
    """A value in SQL. Each byte of a text is written as its number, so that no text can end the
    literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise TypeError(f"{value!r} is no value of a document")


def with_values(sql: str, mark: str, values: Sequence[Any]) -> str:
    """A statement with its parameters in the places of its marks; EngineError for values that no
    column has."""
    if not values:
        return sql
    parts = sql.split(mark)
    try:
        texts = list(map(literal, values))
    except (TypeError, UnicodeError) as error:
        raise EngineError(f"chdb: {error}") from error
    return "".join([parts[0], *(t + p for t, p in zip(texts, parts[1:], strict=True))])
