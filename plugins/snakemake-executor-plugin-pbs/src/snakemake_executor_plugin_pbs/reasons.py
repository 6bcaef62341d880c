"""Why a job ended or waits, in words: pure functions.

Negative exit statuses are PBS's own (JOB_EXEC_... in OpenPBS's ``src/include/job.h``); those above
256 are 256 + a signal.
"""

from __future__ import annotations

import re
import signal

from snakemake_executor_plugin_pbs.events import EXIT, Ending, lost_host
from snakemake_executor_plugin_pbs.hosts import megabytes, names_of
from snakemake_executor_plugin_pbs.qstat import JobState

#: What PBS writes into a job's log when it kills it (OpenPBS: src/resmom/mom_main.c).
_KILLED = re.compile(r"^=>> PBS: job killed: (.+)$", re.MULTILINE)
#: The line in which Snakemake (Python's `subprocess`) logs how a rule's command ended, and the
#: exit status of that Snakemake.
_COMMAND = re.compile(
    r" (?:returned non-zero exit status (?P<status>\d+)"
    r"|died with <Signals\.\w+: (?P<signal>\d+)>)\.$",
    re.MULTILINE,
)
_SNAKEMAKE_FAILED = 1
_HOST_DOWN = re.compile(r"execution node (\S+) down")
_BY = re.compile(r"(?:terminated by|deleted by) (\S+@\S+)")
_SUBSTATE_DELETED = "91"
_HOST_LOST = {
    -20: "PBS lost the connection to it",
    **dict.fromkeys((-4, -5, -6), "its PBS daemon was restarted"),
}
_LIMITS = {-24: "ncpus", -25: "ncpus", -26: "vmem", -27: "mem", -28: "cput", -29: "walltime"}
_STATUSES = {
    -1: "PBS could not start it (before its files were there)",
    -2: "PBS could not start it (after its files were there)",
    -3: "PBS could not start it and would have tried again",
    -7: "PBS could not restart it from a checkpoint",
    -10: "its user or group is not valid on its host",
    -13: "PBS could not start it: wrong password",
    **dict.fromkeys((-16, -17, -18, -19), "a hook of this PBS refused or deleted it"),
    -21: "the directory of PBS on its host is not safe",
    -22: "a hook of this PBS failed",
    -23: "it had no Kerberos credentials",
    -30: "PBS could not join its hosts together",
}


def deleted_by(state: JobState) -> str | None:
    """Who deleted a job, from its comment: it says so before the job has ended."""
    match = _BY.search(state.comment)
    return match[1] if match else None


def kill_reason(log_tail: str) -> str | None:
    """Why PBS killed a job, from the end of its log."""
    found: list[str] = _KILLED.findall(log_tail)
    return found[-1].strip() if found else None


def _command_status(status: int | None, log_tail: str) -> int | None:
    """The exit status of the rule's command, read from the log if the job's Snakemake failed."""
    if status != _SNAKEMAKE_FAILED or not (found := list(_COMMAND.finditer(log_tail))):
        return status
    return int(found[-1]["status"] or 128 + int(found[-1]["signal"]))


def ending(state: JobState | None, mark: int | None, log_tail: str) -> Ending:
    """Why a job did not end well.

    `state` is None where PBS does not know the job (any more), `mark` the exit status that its own
    script wrote, None where it could not.
    """
    killed = kill_reason(log_tail)
    if killed is not None:
        return Ending(f"was ended by PBS: {killed}")
    if state is None:
        code = _command_status(mark, log_tail)
        return Ending("is not known to PBS any more") if code is None else _exit(code)
    # PBS often learns of a job's end seconds after the job has said so itself.
    code = _command_status(state.exit_status if state.over else mark, log_tail)
    down = _HOST_DOWN.search(state.comment)
    if down is not None:
        return lost_host(down[1], state.comment)
    if state.over and state.exec_host and state.exit_status in _HOST_LOST:
        return lost_host(names_of(state.exec_host)[0], _HOST_LOST[state.exit_status])
    comment = f": {state.comment}" if state.comment else ""
    if code is not None and code in _LIMITS:
        return Ending(f"was ended by PBS: {_exceeded(state, _LIMITS[code])}")
    by = deleted_by(state)
    who = f" by {by}" if by else ""
    if not state.started:
        return Ending(f"was deleted{who} before it started{comment}")
    if by or state.substate == _SUBSTATE_DELETED:
        return Ending(f"was deleted{who}")
    if code is None:
        return Ending(f"ended without an exit status{comment}")
    if code < 0:
        return Ending(f"was ended by PBS: {_STATUSES.get(code, f'its status {code}')}{comment}")
    return _exit(code, state)


def _exceeded(state: JobState, resource: str) -> str:
    used, asked = state.used.get(resource), state.asked.get(resource)
    limit = f"its {resource} of {asked}" if asked else f"its limit of {resource}"
    return f"{limit} was exceeded" + (f" (used {used})" if used else "")


def _exit(code: int, state: JobState | None = None) -> Ending:
    """How the job's own program ended. A shell's 128 + N stands for signal N."""
    if code <= 128:
        return Ending(f"ended with exit status {code}", EXIT)
    memory = _memory(state) if state is not None else ""
    if code > 256:
        return Ending(f"was ended by a signal ({_signal(code - 256)}){memory}")
    how = f"ended with exit status {code} (signal {_signal(code - 128)})"
    return Ending(f"{how}{memory}") if memory else Ending(how, EXIT)


def _memory(state: JobState) -> str:
    """A hint where a job that was killed had used about all the memory that it asked for."""
    used, asked = megabytes(state.used.get("mem", "")), megabytes(state.asked.get("mem", ""))
    if used is None or not asked or used < 0.95 * asked:
        return ""
    return f"; it had used {used} MB of the {asked} MB that it asked for"


def _signal(number: int) -> str:
    try:
        return f"{number}, {signal.Signals(number).name}"
    except ValueError:
        return str(number)


def waits(state: JobState) -> str:
    """Why a job has not started, as far as PBS says."""
    if state.letter == "H" and "held" not in state.comment.lower():
        return f"held (Hold_Types = {state.hold})" if state.hold not in ("", "n") else "held"
    return state.comment


def can_never_run(comment: str) -> bool:
    """Whether the scheduler says that the job can never run as things are."""
    return comment.startswith("Can Never Run")


def without_numbers(comment: str) -> str:
    """A comment without what changes all the time: figures in brackets, times, ids."""
    return re.sub(r"\d+", "#", re.sub(r"\([^)]*\)", "", comment)).strip()
