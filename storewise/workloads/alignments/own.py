"""Questions that a user has written: conditions, or text in a store's language.

``:name`` is replaced by a value drawn from the stored data: from the field ``values[name]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from storewise.documents import KINDS, Kind
from storewise.documents import Field as DocumentField
from storewise.engines.contract.own_text import LANGUAGES, PLACEHOLDER, Language, OwnText
from storewise.engines.contract.queries import Find, Operator, Top, Where

#: Values that one question draws, at most.
MOST_VALUES = 4
_CONDITION = re.compile(r"\s*(\w+)\s*(=|<=|>=|<|>)\s*(.*?)\s*", re.S)
_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}


class OwnQuestion(BaseModel):
    """One question; either conditions (`where`, `order`, `group`, `limit`) or texts by language."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = Field(default="align", description="tasks, rna, gs or align")
    where: tuple[str, ...] = Field(
        default=(), description="conditions that all must hold: `e < 1e-10`, `q = :query`"
    )
    order: str | None = Field(default=None, description="field by which documents come; ties by id")
    group: str | None = Field(default=None, description="field whose values are counted")
    limit: int | None = Field(default=None, ge=1, description="the first ones only")
    values: dict[str, str] = Field(
        default_factory=dict, description="names with the fields that their values are drawn from"
    )
    sql: str | None = Field(default=None, description="`{align}` stands for the table")
    mongodb: list[dict[str, Any]] | None = Field(
        default=None, description="an aggregation pipeline"
    )
    cql: str | None = Field(default=None, description="`{align}` stands for the table")

    @model_validator(mode="after")
    def _fits(self) -> OwnQuestion:
        texts = [name for name in LANGUAGES if getattr(self, name) is not None]
        verbs = bool(self.where or self.order or self.group or self.limit)
        if verbs == bool(texts):
            raise ValueError(
                "give either conditions (where, order, group, limit) or a text for a store "
                f"({', '.join(LANGUAGES)})"
            )
        if self.order and self.group:
            raise ValueError("give order (of documents) or group (counts of values), not both")
        if len(self.values) > MOST_VALUES:
            raise ValueError(f"has {len(self.values)} values; {MOST_VALUES} is the most")
        for name in self.values.values():
            self.field(name)
        for chosen in (self.order, self.group):
            if chosen is not None:
                self.field(chosen)
        self.query({name: _example(self.field(field)) for name, field in self.values.items()})
        return self

    @property
    def of(self) -> Kind:
        """The kind of documents that the question asks for."""
        for kind in KINDS:
            if kind.table == self.kind:
                return kind
        raise ValueError(f"kind {self.kind!r} is none of {', '.join(k.table for k in KINDS)}")

    @property
    def languages(self) -> tuple[Language, ...]:
        """The languages that it has a text for; none of a question of conditions."""
        return tuple(name for name in LANGUAGES if getattr(self, name) is not None)

    def field(self, name: str) -> DocumentField:
        """The field `name` of the question's kind of documents; ValueError for an unknown one or an
        id."""
        known = [field for field in self.of.fields if field.type in _TYPES]
        for field in known:
            if field.name == name:
                return field
        names = ", ".join(field.name for field in known)
        raise ValueError(f"{self.kind} has no field {name!r}; it has {names}")

    def query(self, values: Mapping[str, Any]) -> Find | Top:
        """The query of its conditions with these values."""
        where = tuple(self._condition(text, values) for text in self.where)
        if self.group is not None:
            return Top(self.of, self.group, self.limit or 10, where)
        return Find(self.of, where, self.order, self.limit)

    def own_text(self, language: Language, values: Mapping[str, Any]) -> OwnText:
        """The question in a language, with these values."""
        return OwnText(self.of, language, getattr(self, language), values)

    def _condition(self, text: str, values: Mapping[str, Any]) -> Where:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ValueError(f"condition {text!r}: expected a field, an operator and a value")
        field, word = self.field(match[1]), match[3]
        operator = cast(Operator, match[2])
        if placeholder := PLACEHOLDER.fullmatch(word):
            name = placeholder[1]
            if name not in values:
                raise ValueError(f"condition {text!r}: `values` has no {name!r}")
            if self.field(self.values[name]).type != field.type:
                raise ValueError(
                    f"condition {text!r}: {name!r} is drawn from {self.values[name]}, "
                    f"which is not of type {field.type}, as {field.name} is"
                )
            return Where(field.name, operator, values[name])
        try:
            return Where(field.name, operator, _TYPES[field.type](word.strip("'\"")))
        except ValueError as error:
            raise ValueError(
                f"condition {text!r}: {word!r} is no {field.type}, as {field.name} is"
            ) from error


def _example(field: DocumentField) -> Any:
    return {"int": 1, "float": 1.0, "str": ""}[field.type]
