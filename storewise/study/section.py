"""Sections of the files that users write, and pydantic's complaints about them in YAML's words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from storewise.yamlfile import Place, shown, suggestion

#: pydantic's words for Python types, and the words that a YAML file's author knows.
_WORDS = (
    (r"^Value error, ", ""),
    (r"^(List|Dictionary) should have at least 1 item after validation, not 0", "is empty"),
    (r"a valid dictionary", "a mapping of keys to values"),
    (r"a valid integer.*", "a whole number"),
    (r"a valid boolean", "true or false"),
    (r"a valid string", "text"),
)


class Section(BaseModel):
    """A part of a file: unknown keys and values of another type are errors."""

    # Strict: `repeats: true` is a slip, not one repeat.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def as_list(value: Any) -> Any:
    """One value is a list of one."""
    return value if isinstance(value, list) else [value]


def complaint(
    error: ValidationError,
    model: type[BaseModel],
    *,
    noun: str = "key",
    more: Sequence[str] = (),
    hidden: Sequence[str] = (),
    explained_in: str = "config/README.md",
) -> tuple[Place, str]:
    """The first complaint about the values of a model: the key, and what is wrong with it.

    `noun` is what a key of the model is called; at the top users may write the keys `more` too,
    and not the keys `hidden`.
    """
    # A misspelt key also makes the right one missing: name the misspelt one.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    place = tuple(first["loc"])
    if first["type"] == "extra_forbidden":
        known = _keys_at(model, place[:-1])
        if len(place) == 1:
            known = [*sorted({*known} - {*hidden}), *more]
        return place, (f"is not a known {noun}{suggestion(str(place[-1]), known, 'known here')}")
    if first["type"] == "missing":
        return place, f"is missing; {explained_in} explains it"
    message = first["msg"]
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    value = first.get("input")
    end = f"; found {shown(value)}" if not isinstance(value, dict) else ""
    return place, message[:1].lower() + message[1:] + end


def _keys_at(model: type[BaseModel], place: Place) -> list[str]:
    """The keys of the mapping that a model has at a place."""
    whole = model.model_json_schema()

    def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        for one in schema.get("anyOf", [schema]):
            if "$ref" in one:
                return resolved(whole["$defs"][one["$ref"].rpartition("/")[2]])
        return schema

    here: Mapping[str, Any] = whole
    for part in place:
        inside = here.get("properties", {}).get(part) or here.get("items")
        here = resolved(inside or here.get("additionalProperties") or {})
    return sorted(here.get("properties", {}))
