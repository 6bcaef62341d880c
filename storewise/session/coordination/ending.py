"""The end of a process, in words for the user: by itself, or by which signal and whose, and the
reason that a server printed."""

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
#: What stores print where a disk is full: the system's words, its number, or MariaDB's own.
NO_SPACE = re.compile(
    r"no space left on device|disk is full|disk full|err(?:or|no|code)(?: number)?[ :=]+28\b",
    re.IGNORECASE,
)
#: Reasons of which no store is to blame: a host was lost or taken back, the scheduler refused or
#: ended a job, a program is not installed, or somebody killed a process.
_OF_HOST = re.compile(
    r"EC2 takes back host|lost its host|its host could not be started|was refused: |did not take|"
    r"cancelled it|took its place|wall time|deadline|never started|was it killed|"
    r"was ended by SIG(HUP|INT|KILL|TERM)|\(looked on PATH"
)
#: Of lack of memory the store is to blame: others had no more.
_OF_MEMORY = re.compile(r"lack of memory(, says| meanwhile)|more memory than")
_TAIL_LINES, _TAIL_BYTES = 12, 32768
#: Some servers write lines of thousands of characters; what matters comes first.
_TAIL_WIDTH = 300
_THROWN_AT = re.compile(r"\s+(at [\w.$/@<>-]+\(.*\).*|\.\.\. \d+ (more|common frames omitted))")
#: Log levels of errors and of information: Riak and MariaDB ("[error]"), Cassandra and HBase
#: ("ERROR"). PostgreSQL's FATAL does not count: it also marks errors of clients.
_ERROR_LINE = re.compile(r"\[(error|critical|alert|emergency)\]|^(ERROR|FATAL)\s", re.IGNORECASE)
_INFO_LINE = re.compile(r"\[(info|notice|note|debug)\]|^(INFO|DEBUG)\s", re.IGNORECASE)
_MAX_ERROR_LINES = 3


def status_of(message: str) -> int | None:
    """The exit status of a script in a message of Snakemake, or minus the signal that ended it;
    None if the message is not of a failed script."""
    if match := _SIGNAL.search(message):
        return -int(match[1])
    if match := _STATUS.search(message):
        status = int(match[1])
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


def host_fault(reason: str) -> bool:
    """Whether a trial failed because of its host or scheduler, by the reason's text."""
    return bool(_OF_HOST.search(reason)) and not _OF_MEMORY.search(reason)


def killed_job(directory: Path, name: str, status: int, before: MemoryKills, log: str) -> Abort:
    """The reason to abort a trial when a signal has ended one of its jobs on this host.

    Ctrl-C in a terminal can end a job that has no handler yet: that is no failure of the trial.
    """
    job = members(directory).get(name)
    how = how_it_ended(status, before, job.pid if job is not None and job.is_here() else None)
    reason = f"{name} on host {socket.gethostname()} {how}"
    return Abort(reason, failure=status != -signal.SIGINT, log=log, killed=name)


def _name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def log_tail(path: Path) -> str:
    """The last lines of a server's log; long lines are shortened, and stack traces of Java left
    out.

    If the log has lines marked as errors, the first of them precede the last lines, because they
    often are the cause of the later ones; informational lines are then left out.
    """
    lines = _last_lines(path)
    tail = lines[-_TAIL_LINES:]
    if any(map(_ERROR_LINE.search, lines)):
        before = lines[: -len(tail)]
        explaining = [line for line in before if _ERROR_LINE.search(line)][:_MAX_ERROR_LINES]
        told = (line for line in tail if not _INFO_LINE.search(line) or _ERROR_LINE.search(line))
        tail = [*explaining, *told]
    return "\n".join(map(_shortened, tail))


def disk_full_line(path: Path) -> str:
    """The first of a log's last lines that reports a full disk, shortened; empty if none does."""
    return next((_shortened(line) for line in _last_lines(path) if NO_SPACE.search(line)), "")


def _last_lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return [line for line in lines if not _THROWN_AT.fullmatch(line)]


def _shortened(line: str) -> str:
    return line if len(line) <= _TAIL_WIDTH else f"{line[:_TAIL_WIDTH]} ..."
