"""Answers of several stores as one."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from storewise.documents import Document


def merge_scans(parts: Iterable[list[Document]], limit: int) -> list[Document]:
    """The first `limit` documents by id of lists that are each in the order of ids."""
    merged = heapq.merge(*parts, key=itemgetter("_id"))
    return [document for document, _ in zip(merged, range(limit), strict=False)]


def merge_found(
    parts: Iterable[list[Document]], order_by: str, descending: bool, limit: int | None
) -> list[Document]:
    """The first `limit` documents in the order of a field, ties by id."""
    documents = [document for part in parts for document in part]
    documents.sort(key=itemgetter("_id"))
    documents.sort(key=itemgetter(order_by), reverse=descending)
    return documents if limit is None else documents[:limit]


def merge_counts(parts: Iterable[Iterable[tuple[Any, int]]], limit: int) -> list[tuple[Any, int]]:
    """The `limit` most frequent values over the stores' full tallies, ties by value."""
    totals: dict[Any, int] = {}
    for part in parts:
        for value, number in part:
            totals[value] = totals.get(value, 0) + number
    return heapq.nsmallest(limit, totals.items(), key=lambda item: (-item[1], item[0]))
