"""The same work for many things, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: Requests that are under way at a time; below `client.CONNECTIONS`, each has its own connection.
AT_ONCE = 16


def in_threads(
    work: Callable[[T], R], things: Iterable[T], at_once: int = AT_ONCE
) -> Iterator[tuple[T, R]]:
    """Each thing with what `work` makes of it, as they are done.

    `things` is read no further ahead than threads can take. The first error is raised when what
    was under way has ended; nothing else is begun then, nor where the caller stops to listen.
    """
    todo = iter(things)
    with ThreadPoolExecutor(at_once) as pool:
        running: dict[Future[R], T] = {}
        try:
            while True:
                for thing in islice(todo, 2 * at_once - len(running)):
                    running[pool.submit(work, thing)] = thing
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
