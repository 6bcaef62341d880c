"""Prefetching and writing in a second thread."""

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
    """A context with an iterator over `things`: a thread makes the next one while one is used.

    The whole generator runs in that thread, which ends with the context.
    """
    with ThreadPoolExecutor(1, "storewise-prefetch") as pool:
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
    """Runs calls in a second thread, one at a time.

    The end of the context waits for the last call. The error of a call is raised by the next `do`
    or at the end of the context.
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
        """Wait for the previous call, then start this one in the thread."""
        self.wait()
        self._last = self._pool.submit(call, *args, **kwargs)

    def wait(self) -> None:
        """Wait for the last call; raises its error."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()
