"""A second thread for what needs no attention: what is to come, and what is done with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


@contextmanager
def prefetch_one(things: Generator[T]) -> Iterator[Iterator[T]]:
    """Within, `things`, of which a thread makes the next while one is used.

    All of the generator runs in that thread, its end included, which does not outlive the context.
    """
    with ThreadPoolExecutor(1, "one-ahead") as pool:
        try:
            yield _ahead(pool, things)
        finally:
            pool.submit(things.close).result()


def _ahead(pool: ThreadPoolExecutor, things: Generator[T]) -> Iterator[T]:
    def following() -> Future[list[T]]:
        return pool.submit(lambda: list(islice(things, 1)))

    future = following()
    while thing := future.result():
        future = following()
        yield thing[0]


class BackgroundCall:
    """Calls that a thread makes one after the other; one is under way at most.

    At the end of the context the last one is done; errors of a call are raised by the next, or
    there.
    """

    def __enter__(self) -> BackgroundCall:
        self._pool = ThreadPoolExecutor(1, "storewise-background")
        self._last: Future[None] | None = None
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self._pool.shutdown()

    def do(self, call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Make a call when the one before it is done, for which this waits."""
        self.wait()
        self._last = self._pool.submit(call, *args, **kwargs)

    def wait(self) -> None:
        """Wait for the last call; raises its error."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()
