"""The same work for several servers at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


class FanOut:
    """One client's threads, at most one for each server; started when they are first needed."""

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._pool: ThreadPoolExecutor | None = None

    def run(self, servers: Sequence[int], work: Callable[[int], _Result]) -> list[_Result]:
        """`work` for each of the servers; the results in their order.

        The first one is done by the caller's thread. Waits for all before it raises the error of
        the first that failed, so that no connection is still busy when the caller goes on.
        """
        if len(servers) < 2:
            return [work(server) for server in servers]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._servers - 1, "storewise-server")
        others = [self._pool.submit(work, server) for server in servers[1:]]
        try:
            first = work(servers[0])
        finally:
            errors = [future.exception() for future in others]
        for error in errors:
            if error is not None:
                raise error
        return [first, *(future.result() for future in others)]

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
