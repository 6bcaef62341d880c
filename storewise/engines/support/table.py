"""The table of a kind: its columns, its key, documents to rows and back.

Only the standard library and pydantic are imported here: workers are started hundreds of times, and
one whose documents are dicts must not pay for Arrow.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from operator import itemgetter
from pathlib import Path
from typing import Any

from storewise.documents import (
    ID_BYTES,
    KEY_BYTES,
    PARAMS_COLUMN,
    Document,
    Field,
    FieldType,
    Kind,
    fields,
)
from storewise.engines.contract.engine import Schema
from storewise.engines.contract.queries import Where
from storewise.errors import EngineError

Row = tuple[Any, ...]
#: Where servers keep a schema (`describe`): one row of JSON, for those who connect later.
SCHEMA_TABLE = "storewise_schema"

_PARAMS_FIELD = Field(PARAMS_COLUMN, "str", "the search's pg_* and mp_* values as a JSON object")
#: The largest integer of a column: the stores' have a sign.
MAX_INT = (1 << 63) - 1
#: Cannot be encoded as UTF-8.
_SURROGATE = re.compile("[\ud800-\udfff]")
#: Column type -> a function that tells whether such a column can hold a value.
CAN_HOLD: Mapping[FieldType, Callable[[Any], bool]] = {
    "id": lambda v: type(v) is bytes and len(v) == ID_BYTES,
    "key": lambda v: type(v) is bytes and 0 < len(v) <= KEY_BYTES and v.isascii(),
    "int": lambda v: type(v) is int and -MAX_INT - 1 <= v <= MAX_INT,
    "float": lambda v: type(v) is float or type(v) is int,
    "str": lambda v: type(v) is str and (v.isascii() or not _SURROGATE.search(v)),
}
#: Column type -> the type of most values, and a function that tells whether such a column can hold
#: a whole list of this type: a third of the time that single values take.
_CAN_HOLD_ALL: Mapping[FieldType, tuple[type, Callable[[Sequence[Any]], bool]]] = {
    "id": (bytes, lambda values: set(map(len, values)) == {ID_BYTES}),
    "int": (int, lambda values: min(values) >= -MAX_INT and max(values) <= MAX_INT),
    "float": (float, lambda values: True),
    "str": (str, lambda values: "".join(values).isascii()),
}
#: Width of a number in bytes -> its code in `struct`.
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


def quoted(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class CompositeKey:
    """Packs and unpacks the numbers of composite ids (`Kind.key`), faster than `Kind.pack`."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.names = tuple(name for name, _ in kind.key)
        packer = struct.Struct(">" + "".join(_CODES[width] for _, width in kind.key))
        self.pack: Callable[..., bytes] = packer.pack
        """The id of these numbers; called with each as an argument."""
        self._unpack, self._size = packer.unpack, packer.size
        self._no_row = (-1,) * len(self.names)

    def values(self, document_id: bytes) -> tuple[int, ...]:
        """The numbers of an id; -1, which no row has, for an impossible id."""
        if len(document_id) != self._size:
            return self._no_row
        numbers = self._unpack(document_id)
        return numbers if max(numbers) <= MAX_INT else self._no_row

    def compared(self, operator: str, document_id: bytes, mark: str) -> tuple[str, list[int]]:
        """SQL and parameters of a comparison of the key with an id, column by column."""
        numbers = self.values(document_id)
        if numbers == self._no_row:
            raise EngineError(f"{self._kind.table}: no document can have the id {document_id!r}")
        names = [quoted(name) for name in self.names]
        if operator == "=":
            return " AND ".join(f"{name} = {mark}" for name in names), list(numbers)
        clause, values = f"{names[-1]} {operator} {mark}", [numbers[-1]]
        for name, number in zip(names[-2::-1], numbers[-2::-1], strict=True):
            clause = f"({name} {operator[0]} {mark} OR ({name} = {mark} AND {clause}))"
            values = [number, number, *values]
        # A redundant condition on the first column, for planners that use nothing else.
        return f"({names[0]} {operator[0]}= {mark} AND {clause})", [numbers[0], *values]

    def check(self, document: Document) -> None:
        """Raise EngineError if the document's id is not that of its key."""
        numbers = [document[name] for name in self.names]
        try:
            right = self.pack(*numbers)
        except struct.error:
            right = b""
        if document["_id"] != right:
            raise EngineError(
                f"a document of {self._kind.table} has the id {document['_id']!r}, but its key "
                f"({', '.join(self.names)}) = ({', '.join(map(str, numbers))}) has another id"
            )


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one kind: its columns in storage order, ``_id`` first.

    With `composite` there is no column ``_id``: the fields that it packs are the primary key.
    """

    kind: Kind
    columns: tuple[Field, ...]
    composite: CompositeKey | None = dataclass_field(default=None, compare=False, kw_only=True)
    by_name: Mapping[str, Field] = dataclass_field(init=False, compare=False, repr=False)
    fields: tuple[Field, ...] = dataclass_field(init=False, compare=False, repr=False)
    """The columns that every document has."""

    def __post_init__(self) -> None:
        by_name = {column.name: column for column in self.columns}
        names = {"_id", *by_name}
        object.__setattr__(self, "by_name", by_name)
        object.__setattr__(self, "fields", tuple(f for f in self.kind.fields if f.name in names))

    @property
    def name(self) -> str:
        return self.kind.table

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def has_params(self) -> bool:
        return self.kind.open_fields

    @property
    def takes_columns(self) -> bool:
        """Whether whole columns can be loaded; not for composite ids and ids of text, which are
        checked one by one."""
        return not self.kind.key and self.kind.fields[0].type == "id"

    @property
    def select(self) -> str:
        """The columns as a SQL select list."""
        return ", ".join(quoted(name) for name in self.names)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self.composite.names if self.composite else ("_id",)

    @property
    def key_list(self) -> str:
        """The primary key as SQL, for PRIMARY KEY and ORDER BY."""
        return ", ".join(quoted(name) for name in self.key)

    def key_clause(self, mark: str = "?") -> str:
        """WHERE clause of one row; its parameters are `key_values`."""
        return " AND ".join(f"{quoted(name)} = {mark}" for name in self.key)

    def key_values(self, document_id: bytes) -> tuple[Any, ...]:
        """The primary key of an id."""
        return self.composite.values(document_id) if self.composite else (document_id,)

    def conditions(self, where: Sequence[Where], mark: str = "?") -> tuple[list[str], list[Any]]:
        """Each condition as SQL, and the parameters of all."""
        clauses: list[str] = []
        values: list[Any] = []
        for condition in where:
            if self.composite and condition.field == "_id":
                document_id: Any = condition.value
                clause, numbers = self.composite.compared(condition.op, document_id, mark)
                values += numbers
            else:
                clause = f"{quoted(self.column(condition.field).name)} {condition.op} {mark}"
                values.append(condition.value)
            clauses.append(clause)
        return clauses, values

    def key_of_row(self) -> Callable[[Row], Any]:
        """A function that gives the primary key of a row, which sorts as ids do."""
        return itemgetter(*map(self.names.index, self.key))

    def id_of_row(self) -> Callable[[Row], bytes]:
        """A function that gives the id of a row."""
        key = self.key_of_row()
        if self.composite is None:
            return key
        pack = self.composite.pack
        return lambda row: pack(*key(row))

    def column(self, name: str) -> Field:
        """The column `name`; EngineError with the existing columns if there is none."""
        column = self.by_name.get(name)
        if column is not None and name != PARAMS_COLUMN:
            return column
        known = ", ".join(n for n in self.names if n != PARAMS_COLUMN)
        raise EngineError(f"{self.name} has no column {name!r}; it has {known}")

    def rows(self, documents: Sequence[Document]) -> list[Row]:
        """The documents as tuples in the order of the columns; EngineError as in `check`."""
        self.check(documents)
        if self.has_params:
            return [self._params_row(document) for document in documents]
        return list(map(itemgetter(*self.names), documents))

    def check(self, documents: Sequence[Document]) -> None:
        """Raise EngineError for fields that the table does not have, which would be lost silently;
        for values that a column cannot hold, which some stores would convert silently; and for
        composite ids that differ from their fields."""
        for field in self.fields:
            name, can_hold, is_id = field.name, CAN_HOLD[field.type], field.name == "_id"
            try:
                values = [document[name] for document in documents]
            except KeyError as error:
                raise EngineError(f"a document of {self.name} lacks the field {error}") from error
            usual, can_hold_all = _CAN_HOLD_ALL.get(field.type, (None, bool))
            if set(map(type, values)) != {usual} or not can_hold_all(values):
                for value in values:
                    if not can_hold(value) and (value is not None or is_id):
                        raise self._cannot_hold(field, value)
        if not self.has_params and sum(map(len, documents)) != len(documents) * len(self.fields):
            names = {name for document in documents for name in document}
            extra = ", ".join(sorted(names - {field.name for field in self.fields}))
            raise EngineError(f"a document of {self.name} has unknown fields: {extra}")
        if self.kind.key:
            key = self.composite or CompositeKey(self.kind)
            for document in documents:
                key.check(document)

    def _cannot_hold(self, column: Field, value: Any) -> EngineError:
        return EngineError(
            f"{self.name}.{column.name} is of type {column.type} and cannot hold {value!r}"
        )

    def _params_row(self, document: Document) -> Row:
        rest = dict(document)
        values = [rest.pop(name) for name in self.names[:-1]]
        try:
            params = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise EngineError(f"{self.name}: a value cannot be written as JSON: {error}") from error
        return (*values, params)

    def document(self, row: Row) -> Document:
        """The document of a row, as it was inserted."""
        return self.decoder()(row)

    def decoder(self) -> Callable[[Row], Document]:
        """`document` as a function for hot paths, its look-ups done once."""
        names = self.names
        if self.has_params:
            return lambda row: dict(zip(names[:-1], row)) | json.loads(row[-1])  # noqa: B905
        if self.composite:
            every, id_of = ("_id", *names), self.id_of_row()
            return lambda row: dict(zip(every, (id_of(row), *row)))  # noqa: B905
        return lambda row: dict(zip(names, row))  # noqa: B905 - a row of our own select

    def check_changes(self, changes: Mapping[str, Any]) -> None:
        """Raise EngineError for changes that no document of this table can take."""
        if not changes:
            raise EngineError(f"update of {self.name}: no field is named")
        if "_id" in changes:
            raise EngineError(f"update of {self.name}: an id cannot be changed")
        if self.kind.key and (part := [n for n, _ in self.kind.key if n in changes]):
            raise EngineError(f"update of {self.name}: {part[0]} is part of the id")
        for name, value in changes.items():
            column = self.column(name)
            if value is not None and not CAN_HOLD[column.type](value):
                raise self._cannot_hold(column, value)


def make_table(kind: Kind, *, study_fields: bool, composite: bool = False) -> Table:
    """The table of a kind, with the JSON column where the kind has open fields.

    `composite`: a composite key is its columns in place of ``_id``."""
    columns = fields(kind, study_fields=study_fields)
    if kind.open_fields:
        columns = (*columns, _PARAMS_FIELD)
    if not composite or not kind.key:
        return Table(kind, columns)
    return Table(kind, columns[1:], composite=CompositeKey(kind))


def make_tables(schema: Schema, *, composite: bool = False) -> dict[Kind, Table]:
    """The tables of a schema; EngineError where an index names no column."""
    tables = {
        kind: make_table(kind, study_fields=schema.study_fields, composite=composite)
        for kind in schema.kinds
    }
    for kind, field_name in schema.indexes:
        if kind not in tables:
            raise EngineError(f"index on {kind.table}.{field_name}: no such table is created")
        tables[kind].column(field_name)
    return tables


def describe(schema: Schema) -> str:
    """A schema as the JSON text that the stores keep."""
    return json.dumps(
        {
            "kinds": [kind.table for kind in schema.kinds],
            "study_fields": schema.study_fields,
            "index_time": schema.index_time,
            "indexes": [[kind.table, name] for kind, name in schema.indexes],
        }
    )


def described(text: str, kinds: Sequence[Kind]) -> Schema:
    """The inverse of `describe`, of a workload that has these `kinds`.

    EngineError for tables of another workload."""
    content = json.loads(text)
    known = {kind.table: kind for kind in kinds}
    if foreign := ", ".join(name for name in content["kinds"] if name not in known):
        raise EngineError(
            f"the store has tables of another workload: {foreign}; this one has "
            f"{', '.join(known)}: load into an empty store"
        )
    return Schema(
        kinds=tuple(known[name] for name in content["kinds"]),
        indexes=tuple((known[table], name) for table, name in content["indexes"]),
        index_time=content["index_time"],
        study_fields=content["study_fields"],
    )


def table_from_names(kind: Kind, names: Sequence[str], where: Path) -> Table:
    """The table that a store's own column names describe, as a reader finds it."""
    for study_fields in (False, True):
        table = make_table(kind, study_fields=study_fields, composite=True)
        if table.names == tuple(names):
            return table
    expected = make_table(kind, study_fields=False, composite=True).names
    raise EngineError(
        f"{where}: {kind.table} has the columns {', '.join(names)}; expected {', '.join(expected)}"
    )


def create_table(table: Table, types: Mapping[FieldType, str], name: str = "") -> str:
    """CREATE TABLE, which leaves a table that is there; `name` is SQL, by default the kind's."""
    columns = [
        f"{quoted(c.name)} {types[c.type]}" + (" NOT NULL" if c.name in table.key else "")
        for c in table.columns
    ]
    return (
        f"CREATE TABLE IF NOT EXISTS {name or quoted(table.name)} "
        f"({', '.join(columns)}, PRIMARY KEY ({table.key_list}))"
    )
