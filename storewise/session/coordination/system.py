"""What coordination asks of the host that it runs on: its name, its clocks, its processes.

All of it stands in one small object, so that tests can hand in hosts whose clocks differ and whose
processes are made.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

import psutil


class System:
    """This host, as a process of ours sees it."""

    def host(self) -> str:
        return socket.gethostname()

    def pid(self) -> int:
        """Of the process that asks."""
        return os.getpid()

    def time(self) -> float:
        """Unix time."""
        return time.time()

    def clock(self) -> float:
        """Seconds of a clock that nobody sets."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def started(self, pid: int) -> float | None:
        """When the process with this pid was started (Unix time); None where none runs."""
        try:
            process = psutil.Process(pid)
            started: float = process.create_time()
            return None if process.status() == psutil.STATUS_ZOMBIE else started
        except psutil.NoSuchProcess:
            return None

    def kill(self, pid: int) -> None:
        """SIGKILL to a process and all that it has started, if it is there."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()


#: What everybody uses but tests.
SYSTEM = System()
