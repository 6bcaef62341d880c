"""The factors that every study knows, and which levels each may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from storewise.study.host_classes import is_class_name
from storewise.study.sweep import MOST_CLIENTS

#: Factors of engines with servers, and their levels where the study names none.
SERVER_FACTORS: dict[str, list[Any]] = {
    "nodes": [1],
    "replicas": [1],
    "routers": [0],
    "node_threads": [1],
    "node_memory_mb": [1024],
}
#: A class of hosts, as the profile names it (`storewise.study.host_classes`). Without a default: a
#: study that does not name it has not this factor, so that its trials keep their ids.
NODE_CLASS = "node_class"
#: All factors that only engines with servers have.
OF_SERVERS = (*SERVER_FACTORS, NODE_CLASS)
#: Factors that every workload has, besides `engine` and dotted ones (`write.batch_size`).
PLAIN_FACTORS = (
    *("workers", "processes", "threads", "consistency", "index", "volume"),
    *OF_SERVERS,
)


def _whole(least: int, most: int) -> tuple[Callable[[Any], bool], str]:
    return (
        lambda level: type(level) is int and least <= level <= most,
        f"whole numbers from {least} to {most:,}",
    )


#: Which levels a factor may have, and that in words. More than the most is a slip of the pen.
LEVELS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "workers": _whole(1, 10_000),
    "processes": _whole(1, 10_000),
    "threads": _whole(1, MOST_CLIENTS),
    "nodes": _whole(1, 10_000),
    "replicas": _whole(1, 100),
    "routers": _whole(0, 10_000),
    "node_threads": _whole(1, 10_000),
    "node_memory_mb": _whole(64, 1 << 30),
    "volume": (
        lambda level: type(level) in (int, float) and 0 < level <= 1,
        "above 0 and at most 1",
    ),
    "index": (lambda level: level in ("none", "before", "after"), "none, before, after"),
    "consistency": (lambda level: isinstance(level, str), "words, such as durable"),
    NODE_CLASS: (
        lambda level: isinstance(level, str) and is_class_name(level),
        "names of classes of hosts, such as data",
    ),
}
