"""How a process ended, in words for the user: by itself, or by which signal and whose."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

from storewise.metrics.memory_kills import MemoryKills
from storewise.session.coordination.liveness import Abort, members

#: How Snakemake tells of a script that failed: `subprocess.CalledProcessError` of its shell.
_SIGNAL = re.compile(r"' died with (?:<Signals\.\w+: |unknown signal )(\d+)")
_STATUS = re.compile(r"' returned non-zero exit status (\d+)\.")
#: A shell ends with 128 and the number of the signal that ended its command.
_SHELL = 128
#: What the kernel sends to a process for its own errors.
_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
NO_MEMORY = "the system gave no more memory (a limit such as `ulimit -v`, or a full host)"


def status_of(message: str) -> int | None:
    """The exit status that a message of Snakemake tells, or minus the signal; None where it tells
    of no script that failed."""
    if found := _SIGNAL.search(message):
        return -int(found[1])
    if found := _STATUS.search(message):
        status = int(found[1])
        return _SHELL - status if _name(status - _SHELL) else status
    return None


def how_it_ended(status: int, before: MemoryKills, pid: int | None = None) -> str:
    """ "was ended by SIGKILL: ...", from an exit status or minus a signal.

    `before` was counted when the process started; `pid` is its own, where it is known.
    """
    name = _name(-status)
    if name is None:
        return f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
    if -status in _CRASHES:
        return f"was ended by {name}, as a program is that crashes"
    if -status != signal.SIGKILL:
        return f"was ended by {name}"
    if lack := before.since(pid):
        return f"was ended by SIGKILL: {lack}; give it more memory (mem_mb), or use fewer processes"
    if before.host is not None:
        return (
            "was ended by SIGKILL, which the kernel did not send for lack of memory: a user, an "
            "administrator or a batch system did"
        )
    return (
        "was ended by SIGKILL; if nobody did it, the kernel did for lack of memory: use fewer "
        "processes"
    )


def killed_job(directory: Path, name: str, status: int, before: MemoryKills, log: str) -> Abort:
    """Why the trial of a live directory ends when a signal has ended a job of it on this host.

    A terminal's Ctrl-C reaches jobs too that do not listen yet: not the trial's failure.
    """
    job = members(directory).get(name)
    how = how_it_ended(status, before, job.pid if job is not None and job.is_here() else None)
    reason = f"{name} on host {socket.gethostname()} {how}"
    return Abort(reason, own=status != -signal.SIGINT, log=log)


def _name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


#: What stores print where a disk is full: the system's words, its number, or MariaDB's own.
NO_SPACE = re.compile(
    r"no space left on device|disk is full|disk full|err(?:or|no|code)(?: number)?[ :=]+28\b",
    re.IGNORECASE,
)
