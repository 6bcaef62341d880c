"""Waiting for what has no event: a look every few tenths of a second."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


def wait_for(
    done: Callable[[], object],
    seconds: float = math.inf,
    check: Callable[[], None] = lambda: None,
    *,
    poll: float = 0.2,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] | None = None,
) -> bool:
    """Look every `poll` s until `done` is true; false after `seconds`.

    `check` is called before each pause and ends the wait by raising. `clock` and `sleep` are in s.
    """
    until = clock() + seconds
    while not done():
        check()
        if clock() >= until:
            return False
        (sleep or time.sleep)(poll)
    return True
