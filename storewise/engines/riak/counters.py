"""Riak's own counters by HTTP (GET /stats), summed over the nodes.

Names: https://docs.riak.com/riak/kv/latest/developing/api/http/status/
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Mapping
from typing import Any

from storewise.engines.contract.engine import Endpoint

_SECONDS = 5.0
#: Counters since the start end so; what ends otherwise is of the last minute, or a size.
_TOTAL = "_total"
#: That end so too, and are sizes.
_NOT = ("memory_total", "sys_total")


def read_stats(endpoints: Iterable[Endpoint]) -> dict[str, float]:
    """Sums by name; `servers` is the number of nodes that are in them."""
    totals: dict[str, float] = {"servers": 0.0}
    for endpoint in endpoints:
        found = _stats(endpoint)
        if found is None:
            # A node that failed has no numbers; `servers` tells.
            continue
        totals["servers"] += 1
        for name, value in counters_of(found).items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


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


def _stats(endpoint: Endpoint) -> dict[str, Any] | None:
    connection = http.client.HTTPConnection(
        endpoint.address, endpoint.ports.get("http", 0), timeout=_SECONDS
    )
    try:
        connection.request("GET", "/stats", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        found = json.loads(text) if answer.status == http.client.OK else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) else None
