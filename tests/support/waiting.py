"""Waiting for what other processes do. Limits only tell a hang: a busy machine gets more time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

#: `seconds` are those of an idle machine; a busy one gets so many times as many.
BUSY = 5


def wait_until(
    result: Callable[[], Any], seconds: float, what: str | Callable[[], str], pause: float = 0.05
) -> Any:
    """The first value that is not None or False, looked for every `pause` seconds.

    `what` is what did not happen within :data:`BUSY` times `seconds`, or says it.
    """
    end = time.monotonic() + BUSY * seconds
    while time.monotonic() < end:
        value = result()
        if value:
            return value
        time.sleep(pause)
    text = what if isinstance(what, str) else what()
    raise AssertionError(f"{text} did not happen within {BUSY * seconds} s")


def exit_code(process: subprocess.Popen[Any], seconds: float) -> int:
    """How a process ended, within :data:`BUSY` times `seconds`."""
    return process.wait(BUSY * seconds)
