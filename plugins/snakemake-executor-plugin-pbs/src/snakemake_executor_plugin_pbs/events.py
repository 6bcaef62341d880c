"""What the executor reports of jobs: a message for the user, and the same as data for programs.

A log handler reads the data, a dict with the keys of `Event` and ``message``, from the attribute
``pbs`` of a log record; of a failed job from ``aux["pbs"]`` of Snakemake's error record.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SUBMITTED, FAILED, REFUSED, WAITING = "submitted", "failed", "refused", "waiting"
#: Causes of a failure: the job's own exit status, its host was lost, PBS or a person ended it.
EXIT, HOST, PBS = "exit", "host", "pbs"
ANSWERS_AGAIN = "PBS answers again."


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a job did not end well. `host` is the lost one, empty with any other cause."""

    reason: str
    cause: str = PBS
    host: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One report of a job.

    `jobid` is Snakemake's id (of a group job, its group's), `id` that of PBS; a refused job has
    none. `reason` is what PBS or the executor says; `cause` and `host` are set for failures.
    """

    event: str
    name: str
    jobid: str
    id: str = ""
    log: str = ""
    reason: str = ""
    cause: str = ""
    host: str = ""

    @property
    def message(self) -> str:
        """The message for the user, on one line."""
        job = f"PBS job {self.id} ({self.name})"
        reason = one_line(self.reason)
        if self.event == SUBMITTED:
            return f"Job {self.jobid} was submitted as {job}; log: {self.log}"
        if self.event == FAILED:
            return f"{job} {reason}. Its log: {self.log}"
        if self.event == WAITING:
            return f"{job} waits: {reason}"
        return f"PBS did not accept {self.name}: {reason}"

    @property
    def data(self) -> dict[str, Any]:
        return {**asdict(self), "message": self.message}


def one_line(text: str) -> str:
    return " ".join(text.split())


def lost_host(host: str, how: str) -> Ending:
    """The end of a job whose host was lost; `how` says how that is known."""
    return Ending(f"lost its host {host}: {one_line(how)}", HOST, host)


def no_answer(error: str, pause: float) -> str:
    """A warning when the server stops answering; `pause` is in seconds."""
    return (
        f"PBS does not answer ({one_line(error)}); asking again every {pause:.0f} s. "
        "No job is lost by it."
    )
