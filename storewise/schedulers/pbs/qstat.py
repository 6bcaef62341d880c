"""What qstat says of jobs of OpenPBS, PBS Pro and Torque: pure functions of its answers.

Sources: recorded answers of OpenPBS (tests/data/openpbs), its manual pages qstat(1B) and
pbs_job_attributes(7B); Torque's qstat(1) and its "Job states". Exit codes of qstat are PBS error
numbers modulo 256 (15001, unknown job: 153).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from storewise.schedulers.job_registry import PBS_UNKNOWN

RUNNING, SUCCESS, FAILED = "running", "success", "failed"
#: Over, with history: F (OpenPBS), C (Torque); X is a subjob that has ended.
OVER = frozenset("FCX")
NO_HISTORY = "not configured to maintain job history"


@dataclass(frozen=True, slots=True)
class JobState:
    """A job's state letter and its exit status, None where it has none (yet)."""

    letter: str
    exit_status: int | None = None

    @property
    def verdict(self) -> str:
        """What Snakemake is told. A job that is over without an exit status was deleted before it
        started; a negative one is PBS's own (-29: killed at its wall time)."""
        if self.letter not in OVER:
            return RUNNING
        return SUCCESS if self.exit_status == 0 else FAILED


def number_of(job_id: str) -> str:
    """The part of a job id that the server counts: ids come with and without a domain."""
    return job_id.partition(".")[0]


def query(dialect: str, ids: Sequence[str], history: bool = True) -> list[str]:
    """The command that asks for many jobs at once, in the text form: as JSON, OpenPBS built from
    its main branch since December 2023 prints the first job only (its issue 2672).

    In OpenPBS ``-x`` includes finished jobs, and a server without a job history refuses it for
    every job. In Torque it would mean XML, and finished jobs are listed anyway.
    """
    finished = ["-x"] if history and dialect != "torque" else []
    return ["qstat", *finished, "-f", *ids]


def no_history(stderr: str) -> bool:
    """Whether the server says that it keeps no job history (`job_history_enable` is off, the
    default of OpenPBS). qstat ends with 0 then."""
    return NO_HISTORY in stderr.lower()


_JOB = re.compile(r"^Job Id: *(\S+) *$", re.MULTILINE)
_STATE = re.compile(r"^ {1,8}job_state = ([A-Z])\s*$", re.MULTILINE)
#: OpenPBS writes Exit_status, Torque exit_status.
_EXIT = re.compile(r"^ {1,8}exit_status = (-?\d+)\s*$", re.MULTILINE | re.IGNORECASE)


def parse(text: str) -> dict[str, JobState]:
    """Job states by job id: ``Job Id: ID``, then indented ``name = value`` lines, and an empty
    line. ValueError where the text is not that.

    A value that is wider than the screen goes on in lines that begin with a tab. It may hold line
    ends of its own (``qsub -V`` exports functions of a shell), so only whole lines count.
    """
    if text.strip() and not text.endswith("\n\n"):
        raise ValueError("qstat's answer is cut off: no empty line at its end")
    start, *parts = _JOB.split(text.replace("\n\t", ""))
    if start.strip():
        raise ValueError("qstat's answer does not begin with 'Job Id:'")
    states = {}
    for job_id, body in zip(parts[::2], parts[1::2], strict=True):
        letter, code = _STATE.search(body), _EXIT.search(body)
        if letter is None:
            raise ValueError(f"qstat's answer is cut off: no job_state of job {job_id}")
        states[job_id] = JobState(letter[1], None if code is None else int(code[1]))
    return states


def unknown_of(stderr: str, ids: Iterable[str]) -> set[str]:
    """The ids that the server says it does not know."""
    numbers = {number_of(job_id): job_id for job_id in ids}
    unknown = set()
    for line in stderr.splitlines():
        if any(word in line.lower() for word in PBS_UNKNOWN):
            unknown |= {numbers[n] for n in re.findall(r"\d+(?:\[\d*\])?", line) if n in numbers}
    return unknown


def matched(states: Mapping[str, JobState], ids: Iterable[str]) -> dict[str, JobState]:
    """Of an answer, what was asked for, under the ids that qsub printed."""
    by_number = {number_of(job_id): state for job_id, state in states.items()}
    return {
        job_id: by_number[number_of(job_id)] for job_id in ids if number_of(job_id) in by_number
    }
