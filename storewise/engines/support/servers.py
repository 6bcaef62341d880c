"""Servers: their endpoints by number, waiting for them, files beside an engine's modules."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files

from storewise.engines.contract.engine import Cluster, Endpoint
from storewise.errors import EngineError


def numbered_nodes(cluster: Cluster) -> tuple[Endpoint, ...]:
    """The data nodes of a cluster, sorted by number."""
    nodes = (endpoint for endpoint in cluster.endpoints if endpoint.role == "data")
    return tuple(sorted(nodes, key=lambda endpoint: endpoint.index))


def wait_until(
    pending_reason: Callable[[], str | None],
    seconds: float,
    complaint: str,
    raise_if_aborted: Callable[[], None] = lambda: None,
    *,
    poll: float = 0.2,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Poll every `poll` s until `pending_reason` returns None; it returns what is still missing.

    `raise_if_aborted` is called before each poll. EngineError with the complaint and the last
    reason after `seconds`.
    """
    end = time.monotonic() + seconds
    while True:
        raise_if_aborted()
        reason = pending_reason()
        if reason is None:
            return
        if time.monotonic() > end:
            raise EngineError(f"{complaint} within {seconds:g} s: {reason}")
        sleep(poll)


def resource(package: str, name: str) -> str:
    """The text of a file that lies beside the modules of a package."""
    return (files(package) / name).read_text(encoding="utf-8")
