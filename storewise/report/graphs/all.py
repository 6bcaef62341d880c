"""Which printed figure has an interactive one, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from storewise.report.graphs import rates, stores, times
from storewise.report.graphs.base import Drawing, Graph

GRAPHS: Mapping[str, Callable[[Drawing], Graph | None]] = {
    "throughput": rates.throughput,
    "over_time": rates.over_time,
    "latency": times.latency,
    "scaling": rates.scaling,
    "nodes": rates.nodes,
    "clients": times.clients,
    "latency_over_throughput": times.latency_over_throughput,
    "runtime": times.runtime,
    "plans": stores.plans,
    "storage": stores.storage,
    "costs": stores.costs,
    "capacity": stores.capacity,
    "published": stores.published,
}
