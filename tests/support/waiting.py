"""Waiting for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_until(
    found: Callable[[], Any], seconds: float, what: str | Callable[[], str], pause: float = 0.05
) -> Any:
    """The first value that is not None or False, looked for every `pause` seconds.

    The limit only tells a hang: `seconds` are an idle machine's, a busy one gets five times as
    many. `what` is what did not happen then, or says it.
    """
    end = time.monotonic() + 5 * seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(pause)
    text = what if isinstance(what, str) else what()
    raise AssertionError(f"{text} did not happen within {5 * seconds} s")
