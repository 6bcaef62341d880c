"""MongoDB's own counters (serverStatus), summed over the data nodes.

Fields: https://www.mongodb.com/docs/manual/reference/command/serverStatus/
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pymongo.errors import ConnectionFailure

from storewise.engines.contract.engine import Endpoint
from storewise.engines.mongodb.cluster import Connection
from storewise.engines.support.servers import sum_counters

_SELECT_MS = 2000
#: Sections whose numbers are taken as they are.
_SECTIONS = ("opcounters", "opcountersRepl", "network", "connections")
_METRICS = ("document", "queryExecutor", "operation")
#: WiredTiger's names, and ours.
_CACHE: Mapping[str, str] = {
    "bytes currently in the cache": "cache.bytes",
    "maximum bytes configured": "cache.bytes_maximum",
    "tracked dirty bytes in the cache": "cache.bytes_dirty",
    "bytes read into cache": "cache.bytes_read",
    "bytes written from cache": "cache.bytes_written",
    "pages read into cache": "cache.pages_read",
    "pages written from cache": "cache.pages_written",
    "unmodified pages evicted": "cache.pages_evicted",
    "modified pages evicted": "cache.pages_evicted_modified",
}
_LOG: Mapping[str, str] = {
    "log bytes written": "journal.bytes_written",
    "log sync operations": "journal.syncs",
}


class Counters:
    """Asks each data node itself: routers do not know these numbers."""

    def __init__(self, data: tuple[Endpoint, ...], connect: Callable[..., Connection]) -> None:
        self._data = data
        self._connect = connect
        self._lock = threading.Lock()
        self._opened: dict[Endpoint, Connection] = {}

    def read(self) -> dict[str, float]:
        """Sums by name; `servers` is the number of nodes that are in them."""
        return sum_counters(self._data, self._read, (ConnectionFailure,))

    def _read(self, endpoint: Endpoint) -> dict[str, float]:
        with self._lock:
            if endpoint not in self._opened:
                self._opened[endpoint] = self._connect(
                    (endpoint,), directConnection=True, serverSelectionTimeoutMS=_SELECT_MS
                )
        return dict(counters_of(self._opened[endpoint].admin.command("serverStatus")))

    def close(self) -> None:
        """A second call does nothing."""
        with self._lock:
            for connection in self._opened.values():
                connection.close()


def counters_of(status: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers that are kept of one server's status."""
    metrics = status.get("metrics", {})
    groups = {name: status.get(name, {}) for name in _SECTIONS}
    groups |= {name: metrics.get(name, {}) for name in _METRICS}
    for group, numbers in groups.items():
        for name, value in numbers.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield f"{group}.{name}", float(value)
    engine = status.get("wiredTiger", {})
    for section, names in (("cache", _CACHE), ("log", _LOG)):
        for theirs, ours in names.items():
            if theirs in engine.get(section, {}):
                yield ours, float(engine[section][theirs])
