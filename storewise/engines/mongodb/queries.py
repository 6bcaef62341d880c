"""Questions of several documents to MongoDB: as commands, which the server can also explain."""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from typing import Any

from storewise.engines.contract.queries import Count, Find, Get, Histogram, Query, Scan, Top
from storewise.engines.mongodb.documents import Form

#: A command of the server: https://www.mongodb.com/docs/manual/reference/command/find/ and
#: /aggregate/, without the name of the collection.
Command = dict[str, Any]


def command_of(form: Form, query: Query) -> Command:
    """The command that answers a query; EngineError for fields that the collection lacks."""
    match query:
        case Get():
            return {"filter": {"_id": form.stored_id(query.document_id)}, "limit": 1}
        case Scan():
            return {"filter": form.filter(query.where), "sort": {"_id": 1}, "limit": query.limit}
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
            name = form.table.column(query.field).name
            quotient = {"$divide": [f"${name}", float(query.width)]}
            return _pipeline(
                {"$match": form.filter(query.where)},
                # Neither null nor infinite.
                {"$match": {name: {"$gte": -float_info.max, "$lte": float_info.max}}},
                {"$group": {"_id": {"$floor": quotient}, "n": {"$sum": 1}}},
            )


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
