"""Whether the kernel has killed processes for lack of memory, by its counts and its log.

Nobody can ask the kernel who sent SIGKILL, and a process that gets it can say nothing. But the
kernel counts what it kills itself, for each cgroup (cgroups(7)) and for the host
(``/proc/vmstat``), and names each in its log, which mostly only root can read.
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
_SECONDS = 10.0
_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def _count(path: Path | None) -> int | None:
    """The number of processes killed for lack of memory that a file of the kernel tells."""
    if path is None:
        return None
    try:
        count = _COUNT.search(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return int(count[1]) if count else None


def cgroup_file(lines: str, mounted: Path = CGROUPS) -> Path | None:
    """The file that counts for a process's cgroup, from what its ``/proc/PID/cgroup`` says.

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
    try:
        return cgroup_file(Path("/proc/self/cgroup").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def kernel_log() -> str:
    """What the kernel has logged, newest last; empty where this user may not read it."""
    try:
        done = subprocess.run(["dmesg"], capture_output=True, timeout=_SECONDS, check=False)
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
        """What is known of lack of memory since then, in words; empty where nothing points to it.

        With the process that was killed it can be certain.
        """
        host = _grown(self.host, _count(HOST))
        cgroup = _grown(self.cgroup, _count(self.file))
        if not host and not cgroup:
            return ""
        if pid is not None and str(pid) in _KILLED.findall(kernel_log()):
            return "the kernel killed it for lack of memory, says its log"
        if cgroup and self.file is not None:
            return (
                f"the kernel killed {_processes(cgroup)} of its cgroup for lack of memory meanwhile"
                f" (oom_kill in {self.file})"
            )
        return (
            f"the kernel killed {_processes(host)} of this host for lack of memory meanwhile "
            f"(oom_kill in {HOST})"
        )


def _grown(before: int | None, now: int | None) -> int:
    return max(0, now - before) if before is not None and now is not None else 0


def _processes(number: int) -> str:
    return "a process" if number == 1 else f"{number} processes"
