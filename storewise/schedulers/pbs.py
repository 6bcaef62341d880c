"""What snakemake-executor-plugin-pbs says of a run's jobs, and what the profile says to it.

The sentences are those of its module `messages`, which promises them to programs that watch a run.
They are read here without the plugin: Storewise also runs where it is not installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from storewise.errors import ConfigError

#: What Snakemake's remote executors append to each error.
_APPENDED = "For further error details see the cluster/cloud log"
_JOB = r"PBS job (?P<id>\S+) \((?P<name>[^\s()]+)\)"
_SUBMITTED = re.compile(rf"Job (?P<jobid>\S+) was submitted as {_JOB}; log: \S.*")
_FAILED = re.compile(rf"{_JOB} (?P<what>\S.*?)\. Its log: (?P<log>\S.*)")
_BY_ITSELF = re.compile(r"ended with exit status \d+( \(signal [^)]+\))?")
_LOST = re.compile(r"lost its host (?P<host>\S+): .+")
_REFUSED = re.compile(r"PBS did not take \S+?: .+")
_NOTICE = re.compile(
    rf"{_JOB} waits: \S.*|PBS does not answer \(.+|PBS answers again\."
    r"|The resource `\w+` \(of job \S+\) is ignored: .+"
)


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that did not end well: what came of it in words, and where its output is."""

    what: str
    log: str

    @property
    def lost_host(self) -> str:
        """The host that PBS cannot reach any more; empty where that is not why."""
        match = _LOST.fullmatch(self.what)
        return match["host"] if match else ""

    @property
    def cause(self) -> str:
        """Why PBS has ended it; empty where it has ended by itself."""
        if _BY_ITSELF.fullmatch(self.what):
            return ""
        return f"PBS says: {self.what.removeprefix('was ended by PBS: ')}"


def submitted_job(message: str) -> tuple[str, str] | None:
    """Snakemake's id of a job that was submitted (of a group job its group's) and PBS's, if this
    message tells of one."""
    match = _SUBMITTED.fullmatch(message.strip())
    return (match["jobid"], match["id"]) if match else None


def failed_job(message: str) -> Failed | None:
    """The job that has failed, if this message tells of one."""
    match = _FAILED.fullmatch(_own(message))
    return Failed(match["what"], match["log"]) if match else None


def refusal(message: str) -> str | None:
    """The sentence with which PBS's refusal of a job is told, if this message is one."""
    match = _REFUSED.fullmatch(_own(message))
    return match[0] if match else None


def notice(line: str) -> str | None:
    """The line itself if a waiting user should see it, else None: why a job does not start, that
    the PBS server does not answer or answers again, or that a resource is ignored."""
    match = _NOTICE.fullmatch(line.strip())
    return match[0] if match else None


def _own(message: str) -> str:
    return " ".join(message.partition(_APPENDED)[0].split())


def parse_selects(text: str) -> dict[str, str]:
    """More for the chunk of ``-l select`` by class of hosts: ``CLASS=WORDS`` with commas between
    them, such as ``data=host_type=small, large=host_type=big:ngpus=0``.

    Raises ConfigError that names the part of the text that cannot be read.
    """
    selects = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, words = (part.strip() for part in entry.partition("="))
        if not name or not words or " " in words:
            raise ConfigError(
                f"node_selects of the profile: {entry!r} cannot be read; expected CLASS=WORDS of "
                "-l select, such as large=host_type=big"
            )
        selects[name] = words
    return selects
