"""The sentences that the executor says of PBS jobs, and what reads them back.

Programs that watch a run may rely on these sentences: each function that says one has a parser
beside it, and the two are tested together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What Snakemake's remote executors append to every error. It is cut off where a message is read.
_APPENDED = "For further error details see the cluster/cloud log"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that PBS has taken. `jobid` is Snakemake's (of a group job, its group's id)."""

    jobid: str
    id: str
    name: str
    log: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A PBS job that did not end well, `what` came of it in words, and where its log is."""

    id: str
    name: str
    what: str
    log: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that PBS did not take: its words, the command that was tried, and what may help."""

    name: str
    words: str
    command: str
    advice: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that has not started, and what PBS says about that."""

    id: str
    name: str
    comment: str


@dataclass(frozen=True, slots=True)
class LostHost:
    """A host that PBS could not reach any more, and how that is known."""

    host: str
    words: str


def _line(text: str) -> str:
    """`text` in one line."""
    return " ".join(text.split())


def submitted(jobid: str, job_id: str, name: str, log: str) -> str:
    """Said when PBS has taken a job."""
    return f"Job {jobid} was submitted as PBS job {job_id} ({name}); log: {log}"


_SUBMITTED = re.compile(
    r"Job (?P<jobid>\S+) was submitted as PBS job (?P<id>\S+) \((?P<name>[^\s()]+)\); "
    r"log: (?P<log>\S.*)"
)


def submitted_of(text: str) -> Submitted | None:
    """The submission that a line tells of, None where it tells of none."""
    match = _SUBMITTED.fullmatch(text.strip())
    return Submitted(**match.groupdict()) if match else None


def failed(job_id: str, name: str, what: str, log: str) -> str:
    """Said when a job is given up or has ended with an error."""
    return f"PBS job {job_id} ({name}) {_line(what)}. Its log: {log}"


_FAILED = re.compile(
    r"PBS job (?P<id>\S+) \((?P<name>[^\s()]+)\) (?P<what>\S.*?)\. Its log: (?P<log>\S.*)"
)


def failed_of(text: str) -> Failed | None:
    """The failure that a message tells of, None where it tells of none."""
    match = _FAILED.fullmatch(text.partition(_APPENDED)[0].strip())
    return Failed(**match.groupdict()) if match else None


def lost_host(host: str, words: str) -> str:
    """What became of a job whose host was lost, for `failed`."""
    return f"lost its host {host}: {_line(words)}"


_LOST = re.compile(r"lost its host (?P<host>\S+): (?P<words>.+)")


def lost_host_of(text: str) -> LostHost | None:
    """The host that was lost, from a message of `failed` or from its `what` alone."""
    whole = failed_of(text)
    match = _LOST.fullmatch(whole.what if whole else text.strip())
    return LostHost(**match.groupdict()) if match else None


def refused(name: str, words: str, command: str, advice: str) -> str:
    """Said when PBS did not take a job; `command` is the line of qsub."""
    return f"PBS did not take {name}: {_line(words)}. Asked: {_line(command)}; {advice}"


_REFUSED = re.compile(
    r"PBS did not take (?P<name>[^\s:]+): (?P<words>\S.*?)\. "
    r"Asked: (?P<command>\S.*); (?P<advice>\S.*?)"
)


def refused_of(text: str) -> Refused | None:
    """The refusal that a message tells of, None where it tells of none."""
    match = _REFUSED.fullmatch(text.partition(_APPENDED)[0].strip())
    return Refused(**match.groupdict()) if match else None


def waiting(job_id: str, name: str, comment: str) -> str:
    """Said of a job that has waited for a while."""
    return f"PBS job {job_id} ({name}) waits: {_line(comment)}"


_WAITING = re.compile(r"PBS job (?P<id>\S+) \((?P<name>[^\s()]+)\) waits: (?P<comment>\S.*)")


def waiting_of(text: str) -> Waiting | None:
    """The waiting job that a line tells of, None where it tells of none."""
    match = _WAITING.fullmatch(text.strip())
    return Waiting(**match.groupdict()) if match else None


def ignored_resource(resource: str, name: str) -> str:
    """Warn, once per run, of a rule's resource that has no equivalent in PBS."""
    return (
        f"The resource `{resource}` (of job {name}) is ignored: PBS has no equivalent. "
        "Ask for it with pbs_select or pbs_extra."
    )


def silent(words: str, pause: float) -> str:
    """Said once when the server stops to answer; `pause` is in seconds."""
    return (
        f"PBS does not answer ({_line(words)}); asking again every {pause:.0f} s. "
        "No job is lost by it."
    )


#: Said when the server answers again.
ANSWERS_AGAIN = "PBS answers again."
