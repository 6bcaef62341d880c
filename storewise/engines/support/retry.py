"""Waiting before a transaction is tried again."""

from __future__ import annotations

import random
import time


def step_aside(tried: int) -> None:
    """Wait before a transaction is tried again that stood in another one's way: at random and ever
    longer (to 0.2 s), or those that met would meet again."""
    time.sleep(random.uniform(0, min(0.2, 0.001 * 2**tried)))
