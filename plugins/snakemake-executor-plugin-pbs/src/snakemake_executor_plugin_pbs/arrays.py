"""Which ready jobs go to PBS as one array: pure functions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def chunks(jobs: Iterable[tuple[T, Hashable | None]], limit: int) -> tuple[list[T], list[list[T]]]:
    """Single jobs, and arrays of 2 to `limit` jobs whose keys are equal; a job with the key None
    is never in an array. The order of the jobs stays."""
    single: list[T] = []
    alike: dict[Hashable, list[T]] = {}
    for job, key in jobs:
        if key is None:
            single.append(job)
        else:
            alike.setdefault(key, []).append(job)
    arrays = []
    for group in alike.values():
        for first in range(0, len(group), limit):
            part = group[first : first + limit]
            if len(part) == 1:
                single.extend(part)
            else:
                arrays.append(part)
    return single, arrays
