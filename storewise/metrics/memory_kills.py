"""Whether the kernel has killed processes for lack of memory (OOM killer), by its counts and log.

Nobody can ask the kernel who sent SIGKILL. But it counts what it kills itself, for each cgroup
(cgroups(7)) and for the host (``/proc/vmstat``), and names each process in its log, which mostly
only root can read.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: Where cgroups are mounted, by convention (file-hierarchy(7)).
CGROUPS = Path("/sys/fs/cgroup")
#: Where the kernel counts for the whole host, what it kills in cgroups included.
HOST = Path("/proc/vmstat")
#: Of Linux's ``mm/oom_kill.c``: "Out of memory: Killed process 7 (name) ..." and, for a cgroup,
#: "Memory cgroup out of memory: Killed process 7 (name) ...".
_KILLED = re.compile(r"ut of memory[^:]*: Killed process (\d+) \(")
_DMESG_SECONDS = 10.0
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _count(path: Path | None) -> int | None:
    """The number of processes killed for lack of memory that a file of the kernel counts."""
    count = _COUNT.search(_text(path)) if path is not None else None
    return int(count[1]) if count else None


def cgroup_file(lines: str, mounted: Path = CGROUPS) -> Path | None:
    """The file with the OOM kill count of a process's cgroup, given its ``/proc/PID/cgroup``.

    With version 2 of cgroups that is ``memory.events``, with version 1 ``memory.oom_control``.
    """
    groups = [line.split(":", 2) for line in lines.splitlines() if line.count(":") >= 2]
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            return mounted / "memory" / path.lstrip("/") / "memory.oom_control"
    for number, controllers, path in groups:
        if number == "0" and not controllers:
            return mounted / path.lstrip("/") / "memory.events"
    return None


def _own_cgroup() -> Path | None:
    return cgroup_file(_text(Path("/proc/self/cgroup")))


def kernel_log() -> str:
    """The kernel log, newest line last; empty if this user may not read it."""
    try:
        done = subprocess.run(["dmesg"], capture_output=True, timeout=_DMESG_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """The counts at one moment, in this process's cgroup and on its host; None where unknown."""

    file: Path | None
    cgroup: int | None
    host: int | None

    @classmethod
    def now(cls) -> MemoryKills:
        file = _own_cgroup()
        return cls(file, _count(file), _count(HOST))

    def since(self, pid: int | None = None) -> str:
        """Evidence of OOM kills since then, as a sentence; empty if there is none. The kernel's log
        shows whether it killed the process `pid`."""
        host = _grown(self.host, _count(HOST))
        cgroup = _grown(self.cgroup, _count(self.file))
        if not host and not cgroup:
            return ""
        if pid is not None and str(pid) in _KILLED.findall(kernel_log()):
            return "the kernel killed it for lack of memory, says its log"
        number, where, file = (
            (cgroup, "its cgroup", self.file) if cgroup else (host, "this host", HOST)
        )
        processes = "a process" if number == 1 else f"{number} processes"
        return (
            f"the kernel killed {processes} of {where} for lack of memory meanwhile "
            f"(oom_kill in {file})"
        )


def _grown(before: int | None, now: int | None) -> int:
    return max(0, now - before) if before is not None and now is not None else 0
