"""Conditions on fields (`Where`) as SQL.

Numbers are compared as numbers: a condition on a column of integers is put in integers, and one
on floats in floats, so that no store has to convert a column (which would keep it from its index)
and all agree where a number has no exact counterpart of the other type.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, inf, isinf
from typing import Any

from storewise.documents import Field
from storewise.engines.contract.queries import Where, check_condition
from storewise.engines.support.composite_keys import MAX_INT, NEVER
from storewise.engines.support.table import Table

_ALWAYS = "any"


def conditions(
    table: Table, where: Sequence[Where], mark: str = "?", *, infinite: bool = True
) -> tuple[list[str], list[Any]]:
    """Each condition as SQL, and the parameters of all.

    `infinite`: the store can hold and compare infinite floats. EngineError for an unknown field
    or operator and for a value of another type.
    """
    clauses: list[str] = []
    values: list[Any] = []
    for condition in where:
        clause, bound = _one(table, condition, mark, infinite)
        clauses.append(clause)
        values += bound
    return clauses, values


def check(table: Table, condition: Where) -> Field | None:
    """The column that a condition is about, None for a composite key's id; EngineError where the
    condition asks what the column cannot be asked."""
    of_key = table.composite is not None and condition.field == "_id"
    column = None if of_key else table.column(condition.field)
    check_condition(table.name, "id" if column is None else column.type, condition)
    return column


def _one(table: Table, condition: Where, mark: str, infinite: bool) -> tuple[str, list[Any]]:
    column = check(table, condition)
    if column is None:
        assert isinstance(condition.value, bytes)
        return table.key_compared(condition.op, condition.value, mark)
    name = table.expression(column)
    operator: str = condition.op
    value = condition.value
    if column.type in ("int", "float"):
        known = in_type(column, operator, value, infinite)
        if known is None:
            return NEVER, []
        operator, value = known
        if operator == _ALWAYS:
            return f"{name} IS NOT NULL", []
    return f"{name} {operator} {mark}", [table.bound(column, value)]


def in_type(
    column: Field, operator: str, value: float | str | bytes, infinite: bool = True
) -> tuple[str, Any] | None:
    """A comparison of a column with its value in the column's own type; None where it is never
    true, with the operator ``any`` where it is true of every value."""
    if column.type not in ("int", "float") or isinstance(value, str | bytes):
        return operator, value
    known = (_of_ints if column.type == "int" else in_floats)(operator, value)
    if known is not None and known[0] != _ALWAYS and not infinite and isinf(known[1]):
        return _true_or_false(known[0], known[1])
    return known


def _true_or_false(operator: str, value: float) -> tuple[str, float] | None:
    """The answer of a comparison with something beyond all numbers."""
    holds = operator in (("<", "<=") if value > 0 else (">", ">="))
    return (_ALWAYS, value) if holds else None


def _of_ints(operator: str, value: float) -> tuple[str, float] | None:
    """The same condition with an integer of 64 bits; None where it is never true."""
    if not -MAX_INT - 1 <= value <= MAX_INT:
        return _true_or_false(operator, value)
    if value == floor(value):
        return operator, int(value)
    if operator == "=":
        return None
    return operator, (ceil(value) if operator in ("<", ">=") else floor(value))


def in_floats(operator: str, value: float) -> tuple[str, float] | None:
    """The same condition with a float; None where it is never true."""
    try:
        near = float(value)
    except OverflowError:
        near = inf if value > 0 else -inf
    if near == value:
        return operator, near
    if operator == "=":
        return None
    # Between `near` and the next float: those up to one of them are on its side.
    if operator[0] == "<":
        return ("<" if near > value else "<="), near
    return (">" if near < value else ">="), near
