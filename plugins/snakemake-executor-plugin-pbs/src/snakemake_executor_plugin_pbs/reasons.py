"""Why a job ended or waits, in words: pure functions.

Negative exit statuses are PBS's own: OpenPBS's ``src/include/job.h`` (JOB_EXEC_...), Torque's
manual, "Job exit status". Those above 256 are 256 + a signal.
"""

from __future__ import annotations

import re
import signal

from snakemake_executor_plugin_pbs import messages
from snakemake_executor_plugin_pbs.dialects import TORQUE
from snakemake_executor_plugin_pbs.nodes import names_of
from snakemake_executor_plugin_pbs.qstat import JobState
from snakemake_executor_plugin_pbs.script import AGAIN, AGAIN_WORDS
from snakemake_executor_plugin_pbs.sizes import megabytes, seconds

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
#: OpenPBS: the connection to the job's host was lost; the daemon there was started anew.
_HOST_LOST = {
    -20: "PBS lost the connection to it",
    -4: "the daemon of PBS there was started anew",
    -5: "the daemon of PBS there was started anew",
    -6: "the daemon of PBS there was started anew",
}
_LIMITS = {-24: "ncpus", -25: "ncpus", -26: "vmem", -27: "mem", -28: "cput", -29: "walltime"}
_TORQUE_LIMITS = {-10: "mem", -11: "walltime", -12: "cput"}
_OWN = {
    -1: "PBS could not start it (before its files were there)",
    -2: "PBS could not start it (after its files were there)",
    -3: "PBS could not start it and would have tried again",
    -7: "PBS could not restart it from a checkpoint",
    -10: "its user or group is not valid on its host",
    -13: "PBS could not start it: wrong password",
    -16: "a hook of this PBS refused it",
    -17: "a hook of this PBS refused it",
    -18: "a hook of this PBS sent it back",
    -19: "a hook of this PBS deleted it",
    -21: "the directory of PBS on its host is not safe",
    -22: "a hook of this PBS failed",
    -23: "it had no Kerberos credentials",
    -30: "PBS could not join its hosts together",
}


def deleted_by(state: JobState) -> str | None:
    """Who deleted a job, from its comment: it says so before the job has ended."""
    match = _BY.search(state.comment)
    return match[1] if match else None


def killed_of(log_tail: str) -> str | None:
    """Why PBS killed a job, from the end of its log."""
    found: list[str] = _KILLED.findall(log_tail)
    return found[-1].strip() if found else None


def _command_status(status: int | None, log_tail: str) -> int | None:
    """The exit status of the rule's command, read from the log if the job's Snakemake failed."""
    if status != _SNAKEMAKE_FAILED or not (found := list(_COMMAND.finditer(log_tail))):
        return status
    return int(found[-1]["status"] or 128 + int(found[-1]["signal"]))


def ending(state: JobState | None, mark: int | None, log_tail: str, dialect: str) -> str:
    """What became of a job that did not end well, for `messages.failed`.

    `state` is None where PBS knows nothing of the job (any more), `mark` the exit status that its
    own script wrote, None where it could not.
    """
    killed = killed_of(log_tail)
    if killed is not None:
        return f"was ended by PBS: {killed}"
    if mark == AGAIN and AGAIN_WORDS in log_tail:
        return f"was started twice: {AGAIN_WORDS}".rstrip(".")
    if state is None:
        code = _command_status(mark, log_tail)
        return "is not known to PBS any more" if code is None else _program(code, "")
    # PBS often learns of a job's end seconds after the job has said so itself.
    code = _command_status(state.exit_status if state.over else mark, log_tail)
    lost = _lost(state)
    if lost is not None:
        return lost
    limits = _TORQUE_LIMITS if dialect == TORQUE else _LIMITS
    if code is not None and code in limits:
        return f"was ended by PBS: {_exceeded(state, limits[code])}"
    by = deleted_by(state)
    who = f" by {by}" if by else ""
    if not state.started:
        return f"was deleted{who} before it started{_comment(state)}"
    if by or state.substate == "91":
        return f"was deleted{who}"
    if code is None:
        return f"ended without an exit status{_comment(state)}"
    if code < 0:
        return f"was ended by PBS: {_OWN.get(code, f'its status {code}')}{_comment(state)}"
    if code > 256 and _over_walltime(state):
        return f"was ended by PBS: {_exceeded(state, 'walltime')}"
    if code == 256 + signal.SIGTERM and dialect == TORQUE:
        return "was deleted"
    return _program(code, _memory(state))


def _lost(state: JobState) -> str | None:
    """In words that the job's host was lost, None where it was not."""
    named = _HOST_DOWN.search(state.comment)
    code = state.exit_status if state.over else None
    if named is not None:
        return messages.lost_host(named[1], state.comment)
    if code in _HOST_LOST and state.exec_host:
        return messages.lost_host(names_of(state.exec_host)[0], _HOST_LOST[code])
    return None


def _exceeded(state: JobState, name: str) -> str:
    used, asked = dict(state.used).get(name), dict(state.asked).get(name)
    words = f"its limit of {name} was exceeded"
    if asked:
        words = f"its {name} of {asked} was exceeded"
    return f"{words} (used {used})" if used else words


def _over_walltime(state: JobState) -> bool:
    used = seconds(dict(state.used).get("walltime", ""))
    asked = seconds(dict(state.asked).get("walltime", ""))
    return used is not None and asked is not None and used >= asked


def _memory(state: JobState) -> str:
    """A hint where a job that was killed had used about all the memory that it asked for."""
    used = megabytes(dict(state.used).get("mem", ""))
    asked = megabytes(dict(state.asked).get("mem", ""))
    if used is None or not asked or used < 0.95 * asked:
        return ""
    return f"; it had used {used} MB of the {asked} MB that it asked for"


def _signal(number: int) -> str:
    try:
        return f"{number}, {signal.Signals(number).name}"
    except ValueError:
        return str(number)


def _program(code: int, memory: str) -> str:
    """How the job's own program ended. A shell's 128 + N stands for signal N."""
    if code > 256:
        return f"was ended by a signal ({_signal(code - 256)}){memory}"
    if code > 128:
        return f"ended with exit status {code} (signal {_signal(code - 128)}){memory}"
    return f"ended with exit status {code}"


def _comment(state: JobState) -> str:
    return f": {state.comment}" if state.comment else ""


def waits(state: JobState) -> str:
    """Why a job has not started, as far as PBS says."""
    if state.letter == "H":
        held = f"held (Hold_Types = {state.hold})" if state.hold not in ("", "n") else "held"
        return state.comment if "held" in state.comment.lower() else held
    return state.comment


def never(comment: str) -> bool:
    """Whether the scheduler says that the job can never run as things are."""
    return comment.startswith("Can Never Run")


def essence(comment: str) -> str:
    """A comment without what changes all the time: figures in brackets, times, ids."""
    return re.sub(r"\d+", "#", re.sub(r"\([^)]*\)", "", comment)).strip()
