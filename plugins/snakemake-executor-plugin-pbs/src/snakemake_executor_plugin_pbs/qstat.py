"""What ``qstat -f`` prints of jobs: pure functions.

Sources: recorded answers of OpenPBS; its manual pages qstat(1B) and pbs_job_attributes(7B). The
text is read and not JSON: ``qstat -f -F json`` of OpenPBS's main branch since December 2023 prints
only the first of several jobs (its issue 2672).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Running, ending, suspended.
STARTED = frozenset("REBSU")
#: The answer of a server whose `job_history_enable` is off, the default. qstat ends with 0 then.
NO_HISTORY = "not configured to maintain job history"
#: The answers for ids that the server does not know (any more).
UNKNOWN = ("unknown job", "job has finished", "does not exist")


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as the server sees it. `exit_status` is None where it has none (yet); the texts are
    empty where the server says nothing. `used` and `asked` are resources by name."""

    letter: str
    exit_status: int | None = None
    exec_host: str = ""
    comment: str = ""
    hold: str = ""
    substate: str = ""
    used: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.letter == "F"

    @property
    def started(self) -> bool:
        """Whether it runs or has run."""
        return self.letter in STARTED or (self.over and bool(self.exec_host))


def number_of(job_id: str) -> str:
    """The part of a job id before the server's name: ids come with and without a domain."""
    return job_id.partition(".")[0]


_JOB = re.compile(r"^Job Id: *(\S+) *$", re.MULTILINE)
_LINE = re.compile(r"^ {1,8}([A-Za-z_]+(?:\.[A-Za-z_]+)?) = (.*)$", re.MULTILINE)


def parse(text: str) -> dict[str, JobState]:
    """Job states by job id: ``Job Id: ID``, then indented ``name = value`` lines, and an empty
    line. Raises ValueError for anything else.

    A value that is wider than the screen goes on in lines that begin with a tab.
    """
    if text.strip() and not text.endswith("\n\n"):
        raise ValueError("qstat's answer is cut off: no empty line at its end")
    start, *parts = _JOB.split(text.replace("\n\t", ""))
    if start.strip():
        raise ValueError("qstat's answer does not begin with 'Job Id:'")
    states = {}
    for job_id, body in zip(parts[::2], parts[1::2], strict=True):
        values: dict[str, str] = {}
        for name, value in _LINE.findall(body):
            values.setdefault(name.lower(), value.strip())
        if "job_state" not in values:
            raise ValueError(f"qstat's answer is cut off: no job_state of job {job_id}")
        states[job_id] = _state(values)
    return states


def _state(values: Mapping[str, str]) -> JobState:
    def group(prefix: str) -> dict[str, str]:
        return {
            key.removeprefix(prefix): value
            for key, value in values.items()
            if key.startswith(prefix)
        }

    code = values.get("exit_status", "")
    return JobState(
        values["job_state"],
        int(code) if re.fullmatch(r"-?\d+", code) else None,
        values.get("exec_host", ""),
        values.get("comment", ""),
        values.get("hold_types", ""),
        values.get("substate", ""),
        group("resources_used."),
        group("resource_list."),
    )


def unknown_ids(stderr: str, ids: Iterable[str]) -> set[str]:
    """The ids that the server says it does not know."""
    numbers = {number_of(job_id): job_id for job_id in ids}
    unknown = set()
    for line in stderr.splitlines():
        if any(words in line.lower() for words in UNKNOWN):
            unknown |= {numbers[n] for n in re.findall(r"\d+", line) if n in numbers}
    return unknown


def matched(states: Mapping[str, JobState], ids: Iterable[str]) -> dict[str, JobState]:
    """States under the ids that qsub printed."""
    by_number = {number_of(job_id): state for job_id, state in states.items()}
    return {
        job_id: by_number[number_of(job_id)] for job_id in ids if number_of(job_id) in by_number
    }
