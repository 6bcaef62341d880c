"""Questions of several documents to MongoDB: as commands, which the server can also explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bson.int64 import Int64

from storewise.engines.contract.queries import Count, Find, Get, Histogram, Query, Scan, Top, Where
from storewise.engines.mongodb.documents import Form
from storewise.engines.sql.histogram import added_classes, checked_classes, in_integers

#: A command of the server: https://www.mongodb.com/docs/manual/reference/command/find/ and
#: /aggregate/, without the name of the collection.
Command = dict[str, Any]


def command_of(form: Form, query: Query) -> Command:
    """The command that answers a query; EngineError for what a field cannot be asked.

    A histogram gives documents by the lower end of their class where that is exact in integers,
    else by class."""
    match query:
        case Get():
            return {"filter": {"_id": form.stored_id(query.document_id)}, "limit": 1}
        case Scan():
            where = form.filter((Where("_id", ">=", query.start),))
            return {"filter": where, "sort": {"_id": 1}, "limit": query.limit}
        case Find():
            command: Command = {
                "filter": form.filter(query.where, present=query.order_by),
                "limit": query.limit or 0,
            }
            if query.order_by is not None:
                form.table.column(query.order_by)
                # Ties by id, of which there are none where the id is the order.
                command["sort"] = {query.order_by: -1 if query.descending else 1}
                command["sort"].setdefault("_id", 1)
            return command
        case Count():
            return _pipeline(
                {"$match": form.filter(query.where)}, {"$group": {"_id": None, "n": {"$sum": 1}}}
            )
        case Top():
            name = form.table.column(query.field).name
            return _pipeline(
                {"$match": {name: {"$ne": None}}},
                {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
                {"$sort": {"n": -1, "_id": 1}},
                {"$limit": query.limit},
            )
        case Histogram():
            return _histogram(form, query)


def _histogram(form: Form, query: Histogram) -> Command:
    column = checked_classes(form.table, query)
    width = query.width
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
        {"$match": form.filter(query.where, present=column.name)},
        {"$group": {"_id": group, "n": {"$sum": 1}}},
    )


def classes(form: Form, query: Histogram, rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The answer to a histogram by class."""
    width = query.width
    if in_integers(form.table.column(query.field), width):
        return {int(row["_id"]) // int(width): int(row["n"]) for row in rows}
    return added_classes(form.table, query, [(row["_id"], row["n"]) for row in rows])


def _pipeline(*stages: dict[str, Any]) -> Command:
    return {"pipeline": list(stages), "cursor": {}, "allowDiskUse": True}


def to_explain(form: Form, query: Query) -> Command:
    """The command ``explain`` of a query."""
    command = command_of(form, query)
    name = "aggregate" if "pipeline" in command else "find"
    return {"explain": {name: form.table.name, **command}, "verbosity": "queryPlanner"}


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
