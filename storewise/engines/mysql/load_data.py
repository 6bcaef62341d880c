"""Rows as MariaDB and MySQL take them in bulk: the text of LOAD DATA, the values of a statement.

Both are made column by column, which in Python is about twice as fast as value by value. Formats:
https://mariadb.com/docs/server/reference/sql-statements/data-manipulation/inserting-loading-data/load-data-into-tables-or-index/load-data-infile
and https://dev.mysql.com/doc/refman/8.4/en/string-literals.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from storewise.documents import ID_BYTES, Field, FieldType
from storewise.engines.support.table import Row
from storewise.errors import EngineError

_Column = Sequence[Any]
_NONE = type(None)
#: What a column takes. The servers would make a number of a text, round a fraction and pad a short
#: id without a word.
_TAKES: Mapping[FieldType, frozenset[type]] = {
    "id": frozenset({bytes, _NONE}),
    "key": frozenset({bytes}),
    "int": frozenset({int, _NONE}),
    "float": frozenset({float, int, _NONE}),
    "str": frozenset({str, _NONE}),
}

_SPECIAL = re.compile(r"[\0\t\n\r\\]")
_FIELD = str.maketrans({"\0": "\\0", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"})
_QUOTABLE = re.compile(r"[\0\n\r\\']")
_LITERAL = str.maketrans({"\0": "\\0", "\n": "\\n", "\r": "\\r", "\\": "\\\\", "'": "\\'"})


def load_text(name: str, columns: Sequence[Field], rows: Sequence[Row]) -> bytes:
    r"""Rows as a LOAD DATA file: UTF-8, tabs between fields, ``\N`` for null, ids in hexadecimal.

    One line per row, at least one row. EngineError for a value that its column cannot hold.
    """
    texts = [
        _texts(name, field, values, null="\\N", of_id=bytes.hex, of_text=escaped)
        for field, values in _columns(columns, rows)
    ]
    return _bytes(name, "\n".join(map("\t".join, zip(*texts, strict=True))) + "\n")


def value_lists(name: str, columns: Sequence[Field], rows: Sequence[Row]) -> bytes:
    """Rows as the lists that follow VALUES in a statement, in UTF-8; at least one row.

    Escapes with backslashes, so the session must not have NO_BACKSLASH_ESCAPES. EngineError for a
    value that its column cannot hold.
    """
    texts = [
        _texts(name, field, values, null="NULL", of_id=_hexadecimal, of_text=_literal)
        for field, values in _columns(columns, rows)
    ]
    return _bytes(name, "(" + "),(".join(map(",".join, zip(*texts, strict=True))) + ")")


def _columns(columns: Sequence[Field], rows: Sequence[Row]) -> Iterable[tuple[Field, _Column]]:
    return zip(columns, zip(*rows, strict=True), strict=True)


def _texts(
    name: str,
    field: Field,
    values: _Column,
    *,
    null: str,
    of_id: Callable[[bytes], str],
    of_text: Callable[[str], str],
) -> list[str]:
    """The values of a column as texts, after a look at their types."""
    types = set(map(type, values))
    if not types <= _TAKES[field.type]:
        wrong = next(v for v in values if type(v) not in _TAKES[field.type])
        raise cannot_hold(name, field, wrong)
    has_null = _NONE in types
    if field.type == "id":
        if wrong := [v for v in values if v is not None and len(v) != ID_BYTES]:
            raise cannot_hold(name, field, wrong[0])
        if has_null and field.name == "_id":
            raise cannot_hold(name, field, None)
        convert: Callable[[Any], str] = of_id
    elif field.type == "key":
        convert = of_id
    elif field.type == "str":
        convert = of_text
    elif field.type == "int":
        convert = str
    else:
        if wrong := [v for v in values if v is not None and not _finite(v)]:
            raise cannot_hold(name, field, wrong[0])
        convert = repr
    if not has_null:
        return list(map(convert, values))
    return [null if value is None else convert(value) for value in values]


def _finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond what a float can be
        return False


def escaped(text: str) -> str:
    """A text as a field of a LOAD DATA file."""
    return text.translate(_FIELD) if _SPECIAL.search(text) else text


def _literal(text: str) -> str:
    return "'" + (text.translate(_LITERAL) if _QUOTABLE.search(text) else text) + "'"


def _hexadecimal(value: bytes) -> str:
    return f"x'{value.hex()}'"


def _bytes(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.end]
        raise EngineError(
            f"a document of {name} has a text that is not Unicode: {wrong!a} cannot be stored"
        ) from error


def cannot_hold(name: str, field: Field, value: Any) -> EngineError:
    """The error for a value that a column of the table called `name` does not take."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return EngineError(
        f"{name}.{field.name} is of type {field.type}; its column cannot hold {shown}"
    )
