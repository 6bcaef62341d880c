"""Riak's own counters by HTTP (GET /stats), summed over the nodes.

Names: https://docs.riak.com/riak/kv/latest/developing/api/http/status/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from storewise.engines.contract.engine import Endpoint
from storewise.engines.support.servers import get_json, sum_counters

_SECONDS = 5.0
#: Counters since the start end so; what ends otherwise is of the last minute, or a size.
_TOTAL = "_total"
#: That end so too, and are sizes.
_NOT = ("memory_total", "sys_total")


def read_stats(endpoints: Iterable[Endpoint]) -> dict[str, float]:
    """Sums by name; `servers` is the number of nodes that are in them."""

    def read(endpoint: Endpoint) -> dict[str, float]:
        port = endpoint.ports.get("http", 0)
        return counters_of(get_json(endpoint.address, port, "/stats", _SECONDS))

    return sum_counters(endpoints, read, (OSError, ValueError, AttributeError))


def counters_of(stats: Mapping[str, Any]) -> dict[str, float]:
    """The numbers that are kept of one node's answer."""
    return {
        name: float(value)
        for name, value in stats.items()
        if name.endswith(_TOTAL)
        and name not in _NOT
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    }
