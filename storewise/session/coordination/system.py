"""The host of a job: its name, its clocks, its processes.

All of it stands in one small object, so that tests can hand in hosts whose clocks differ and whose
processes are made.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil


class System:
    """Name, clocks, process ids and signals of the host of a job."""

    def host(self) -> str:
        return socket.gethostname()

    def pid(self) -> int:
        """Id of the calling process."""
        return os.getpid()

    def time(self) -> float:
        """Unix time."""
        return time.time()

    def clock(self) -> float:
        """Seconds of a clock that nobody sets."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def boot(self) -> str:
        """The kernel's boot id and this process's PID namespace: a pid is valid only within both.

        Two containers may have the same host name. Empty if the system has no /proc.
        """
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
        except OSError:
            return ""

    def started(self, pid: int) -> float | None:
        """The start time of a process, in clock ticks since boot; None if no such process runs.

        Setting the system's clock does not change it. Source: fields 3 (state) and 22 (starttime)
        of proc_pid_stat(5).
        """
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The program's name, in parentheses, may itself contain blanks and parentheses.
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else float(fields[19])

    def kill(self, pid: int) -> None:
        """SIGKILL to a process and all that it has started, if it is there."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()


#: What everybody uses but tests.
SYSTEM = System()
