"""Aggregation pipelines, and what MongoDB says of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import float_info
from typing import Any

from storewise.engines.contract.queries import Histogram, Top
from storewise.engines.mongodb.codec import BsonCodec

#: https://www.mongodb.com/docs/manual/reference/aggregation/
Pipeline = list[dict[str, Any]]


def top_pipeline(codec: BsonCodec, query: Top) -> Pipeline:
    """Counts the values of a field."""
    name = codec.table.column(query.field).name
    return [
        {"$match": {name: {"$ne": None}}},
        {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
        {"$sort": {"n": -1, "_id": 1}},
        {"$limit": query.limit},
    ]


def histogram_pipeline(codec: BsonCodec, query: Histogram) -> Pipeline:
    """Counts documents by bin."""
    name = codec.table.column(query.field).name
    # Neither null nor infinite.
    finite = {name: {"$gte": -float_info.max, "$lte": float_info.max}}
    quotient = {"$divide": [f"${name}", float(query.width)]}
    return [
        {"$match": codec.filter(query.where, finite)},
        {"$group": {"_id": {"$floor": quotient}, "n": {"$sum": 1}}},
    ]


def stages_of(plan: Any) -> Iterator[str]:
    """The stages of a plan with their indexes, the one that answers first: ``FETCH``,
    ``IXSCAN mv_1``.

    The shape of a plan depends on the command and the server's version:
    https://www.mongodb.com/docs/manual/reference/explain-results/
    """
    if isinstance(plan, list):
        for part in plan:
            yield from stages_of(part)
    elif isinstance(plan, Mapping):
        if "stage" in plan:
            yield " ".join(plan[name] for name in ("stage", "indexName") if name in plan)
        for name, part in plan.items():
            if name not in ("rejectedPlans", "slotBasedPlan"):
                yield from stages_of(part)
