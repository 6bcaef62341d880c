"""Questions that a user has written in a store's own language."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from storewise.documents import Kind

Language = Literal["sql", "mongodb", "cql"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
#: Stands for a value: `:name`.
PLACEHOLDER = re.compile(r":([a-z_]\w*)")
#: Stands for a table in SQL and CQL: `{align}`.
TABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class OwnText:
    """A question in the language of a store, with its values by name."""

    kind: Kind
    language: Language
    text: Any
    values: Mapping[str, Any]


def placed(text: str, values: Mapping[str, Any], mark: str) -> tuple[str, list[Any]]:
    """A text with `mark` for each ``:name`` of `values`, and the values in their order."""
    found: list[Any] = []

    def place(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0]  # such as a cast, `::int`
        found.append(values[match[1]])
        return mark

    return PLACEHOLDER.sub(place, text), found


def filled(text: Any, values: Mapping[str, Any]) -> Any:
    """The pipeline with each string ``:name`` replaced by its value."""
    if isinstance(text, Mapping):
        return {key: filled(value, values) for key, value in text.items()}
    if isinstance(text, list):
        return [filled(value, values) for value in text]
    if isinstance(text, str) and (name := PLACEHOLDER.fullmatch(text)):
        return values.get(name[1], text)
    return text
