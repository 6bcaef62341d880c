"""Questions of several documents to MongoDB: as commands, which the server can also explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64

from storewise.engines.contract.engine import Verb, Where
from storewise.engines.mongodb.documents import Form
from storewise.engines.sql.histogram import added_classes, checked_classes, in_integers
from storewise.engines.support.checks import check_limit
from storewise.errors import EngineError

#: A command of the server: https://www.mongodb.com/docs/manual/reference/command/find/ and
#: /aggregate/, without the name of the collection.
Command = dict[str, Any]


def get(form: Form, document_id: bytes) -> Command:
    return {"filter": {"_id": form.stored_id(document_id)}, "limit": 1}


def scan(form: Form, start: bytes, limit: int) -> Command:
    check_limit(limit)
    where = form.filter((Where("_id", ">=", start),))
    return {"filter": where, "sort": {"_id": 1}, "limit": limit}


def between(
    form: Form,
    field_name: str,
    low: float | str | None = None,
    high: float | str | None = None,
    limit: int | None = None,
) -> Command:
    check_limit(limit)
    form.table.column(field_name)
    bounds = ((">=", low), ("<=", high))
    where = tuple(
        Where(field_name, op, value)  # type: ignore[arg-type]
        for op, value in bounds
        if value is not None
    )
    return {"filter": form.filter(where, present=field_name), "limit": limit or 0}


def find(
    form: Form,
    where: Sequence[Where] = (),
    order_by: str | None = None,
    descending: bool = False,
    limit: int | None = None,
) -> Command:
    check_limit(limit)
    command: Command = {"filter": form.filter(where, present=order_by), "limit": limit or 0}
    if order_by is not None:
        form.table.column(order_by)
        command["sort"] = {order_by: -1 if descending else 1}
        if order_by != "_id":
            command["sort"]["_id"] = 1
    return command


def aggregate(form: Form, field_name: str, limit: int) -> Command:
    check_limit(limit)
    name = form.table.column(field_name).name
    return _pipeline(
        {"$match": {name: {"$ne": None}}},
        {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
        {"$sort": {"n": -1, "_id": 1}},
        {"$limit": limit},
    )


def count_where(form: Form, where: Sequence[Where]) -> Command:
    return _pipeline({"$match": form.filter(where)}, {"$group": {"_id": None, "n": {"$sum": 1}}})


def histogram(form: Form, field_name: str, width: float, where: Sequence[Where] = ()) -> Command:
    """Documents by the lower end of their class where that is exact in integers, else by class."""
    column = checked_classes(form.table, field_name, width)
    x = f"${column.name}"
    if in_integers(column, width):
        whole = Int64(width)
        rest = {"$mod": [{"$add": [{"$mod": [x, whole]}, whole]}, whole]}
        group: Any = {"$subtract": [x, rest]}
    else:
        # A quotient is rounded, so that near a limit its class may be the next one.
        size = float(width)
        limits = {
            "$switch": {
                "branches": [
                    {
                        "case": {"$gt": [{"$multiply": ["$$k", size]}, x]},
                        "then": {"$subtract": ["$$k", 1]},
                    },
                    {
                        "case": {"$lte": [{"$multiply": [{"$add": ["$$k", 1]}, size]}, x]},
                        "then": {"$add": ["$$k", 1]},
                    },
                ],
                "default": "$$k",
            }
        }
        group = {"$let": {"vars": {"k": {"$floor": {"$divide": [x, size]}}}, "in": limits}}
    return _pipeline(
        {"$match": form.filter(where, present=column.name)},
        {"$group": {"_id": group, "n": {"$sum": 1}}},
    )


def classes(
    form: Form, field_name: str, width: float, rows: Sequence[Mapping[str, Any]]
) -> dict[int, int]:
    """The answer to `histogram` by class."""
    column = form.table.column(field_name)
    if in_integers(column, width):
        return {int(row["_id"]) // int(width): int(row["n"]) for row in rows}
    return added_classes(form.table, field_name, width, [(row["_id"], row["n"]) for row in rows])


def _pipeline(*stages: dict[str, Any]) -> Command:
    return {"pipeline": list(stages), "cursor": {}, "allowDiskUse": True}


_COMMANDS: Mapping[Verb, Any] = {
    "get": get,
    "scan": scan,
    "range": between,
    "aggregate": aggregate,
    "find": find,
    "count_where": count_where,
    "histogram": histogram,
}


def to_explain(verb: Verb, form: Form, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The command ``explain`` of a verb with these arguments."""
    if verb not in _COMMANDS:
        raise EngineError(f"mongodb: explain knows {', '.join(_COMMANDS)}, not {verb!r}")
    try:
        command = _COMMANDS[verb](form, *arguments, **named)
    except TypeError as error:
        raise EngineError(f"mongodb: explain of {verb}: {error}") from error
    name = "aggregate" if "pipeline" in command else "find"
    return {
        "explain": {name: form.table.name, **command},
        "verbosity": "queryPlanner",
    }


def plan_of(answer: Mapping[str, Any]) -> str:
    """A plan as one line, the stage that answers first: ``FETCH < IXSCAN mv_1 {mv: (1, inf]}``.

    https://www.mongodb.com/docs/manual/reference/explain-results/
    """
    later: list[str] = []
    while "queryPlanner" not in answer:
        if "shards" in answer:
            answer = next(iter(answer["shards"].values()))
            continue
        first, *stages = answer["stages"]
        later += [next(iter(stage)) for stage in reversed(stages)]
        answer = first.get("$cursor") or first.get("$geoNearCursor") or {"queryPlanner": {}}
    planner = answer["queryPlanner"]
    plan = planner.get("winningPlan", {})
    return " < ".join([*later, *_stages(plan)]) or "no plan"


def _stages(plan: Mapping[str, Any]) -> list[str]:
    if "queryPlan" in plan:
        plan = plan["queryPlan"]
    words = [_stage(plan)] if "stage" in plan else []
    if plan.get("shards"):
        first = plan["shards"][0]
        return words + _stages(first.get("winningPlan", first))
    if "inputStage" in plan:
        return words + _stages(plan["inputStage"])
    inputs = [" < ".join(_stages(one)) for one in plan.get("inputStages", ())]
    return words + ([f"({' | '.join(inputs)})"] if inputs else [])


def _stage(plan: Mapping[str, Any]) -> str:
    words = [plan["stage"]]
    if "indexName" in plan:
        words.append(plan["indexName"])
    if "keyPattern" in plan and "indexBounds" in plan:
        bounds = plan["indexBounds"]
        if isinstance(bounds, Mapping) and "startKey" not in bounds:
            words.append(
                "{" + ", ".join(f"{name}: {', '.join(bounds[name])}" for name in bounds) + "}"
            )
    return " ".join(words)
