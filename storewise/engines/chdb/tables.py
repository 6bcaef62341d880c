"""Tables of ClickHouse: their definition, and values as literals.

Table engine: https://clickhouse.com/docs/engines/table-engines/mergetree-family/replacingmergetree;
indexes: https://clickhouse.com/docs/optimize/skipping-indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from storewise.documents import FieldType
from storewise.engines.support.table import Table, quoted

TYPES: Mapping[FieldType, str] = {
    "id": "FixedString(12)",
    "key": "String",
    "int": "Int64",
    "float": "Float64",
    "str": "String",
}


def definition(table: Table, indexes: Iterable[str], settings: Mapping[str, object]) -> str:
    """The SQL after the table's name in CREATE TABLE or ATTACH TABLE."""
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
        f"({', '.join(columns)}) ENGINE = ReplacingMergeTree "
        f"ORDER BY ({table.key_list}) SETTINGS {options}"
    )


def index_definitions(table: Table, name: str) -> list[str]:
    """The data-skipping indexes of a field: minimum and maximum per granule, for ranges; a Bloom
    filter, for equality.

    Floats have no Bloom filter: 0.0 and -0.0 are equal, but their bits differ."""
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
    """The SQL literal of a value. Each byte of a text is escaped as its number, so that no text can
    end the literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'"
    return repr(value)


def with_values(sql: str, mark: str, values: Sequence[Any]) -> str:
    """The statement with each `mark` replaced by the literal of its parameter."""
    if not values:
        return sql
    first, *parts = sql.split(mark)
    return first + "".join(literal(v) + part for v, part in zip(values, parts, strict=True))
