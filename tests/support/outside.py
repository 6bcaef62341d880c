"""Detects what a unit test must not do: start a process, open a socket, sleep.

Imported by tests/conftest.py before any module of Storewise, so that a module which takes
``time.sleep`` as a default value takes the one that is heard.
"""

from __future__ import annotations

import platform
import sys
import time
from multiprocessing import util
from typing import Any

OUTSIDE = {
    "subprocess.Popen": "starts a process",
    "os.fork": "starts a process",
    "os.posix_spawn": "starts a process",
    "socket.bind": "opens a socket",
    "socket.connect": "opens a socket",
}
_sleep = time.sleep
_spawn = util.spawnv_passfds


class Listener:
    """What was done outside of the test since :meth:`start`."""

    def __init__(self) -> None:
        self.heard: set[str] = set()
        self.on = False

    def start(self) -> None:
        self.heard.clear()
        self.on = True

    def stop(self) -> None:
        self.on = False

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event in OUTSIDE:
            self.heard.add(f"{OUTSIDE[event]}: {arguments[:1]}")

    def sleep(self, seconds: float) -> None:
        """In place of time.sleep, of which Python itself tells from 3.13 on only."""
        if self.on:
            self.heard.add(f"sleeps: {seconds} s")
        _sleep(seconds)

    def spawn(self, path: bytes, arguments: list[bytes], descriptors: list[int]) -> int:
        """In place of the start of a process by multiprocessing, of which Python never tells."""
        if self.on:
            self.heard.add(f"starts a process: {arguments[:3]}")
        return _spawn(path, arguments, descriptors)


LISTENER = Listener()
time.sleep = LISTENER.sleep
util.spawnv_passfds = LISTENER.spawn
# Python's platform module runs uname once, whoever asks it first.
platform.processor()
sys.addaudithook(LISTENER.audit)
