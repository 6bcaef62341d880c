"""What qstat says of jobs, in the formats of OpenPBS, PBS Pro and Torque.

Sources: OpenPBS's manual pages qstat(1B) and pbs_job_attributes(7B); Torque's qstat(1) and its
"Job states". Exit codes of qstat are PBS error numbers modulo 256 (15001, unknown job: 153).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from storewise.session.cluster_jobs import PBS_UNKNOWN

RUNNING, SUCCESS, FAILED = "running", "success", "failed"
#: Over, with history: F (OpenPBS), C (Torque); X is a subjob that has ended.
OVER = frozenset("FCX")


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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def number_of(job_id: str) -> str:
    """The part of a job id that the server counts: ids come with and without a domain."""
    return job_id.partition(".")[0]


def query(dialect: str, ids: Sequence[str]) -> list[str]:
    """The command that asks for many jobs at once. In OpenPBS ``-x`` includes finished jobs; in
    Torque it would mean XML, and finished jobs are listed anyway."""
    if dialect == "torque":
        return ["qstat", "-f", *ids]
    return ["qstat", "-x", "-f", "-F", "json", *ids]


def parse(text: str) -> dict[str, JobState]:
    """Job states by job id from either format. ValueError where the text is none of them."""
    start = text.lstrip()
    if start.startswith("{"):
        return parse_json(start)
    return parse_text(text)


def parse_json(text: str) -> dict[str, JobState]:
    """``qstat -f -F json``: ``{"Jobs": {id: {"job_state": "R", "Exit_status": 0, ...}}}``."""
    try:
        data = json.loads(text, strict=False)
    except json.JSONDecodeError:
        # Versions before 22.05 do not escape what users put into names and variables.
        return _parse_broken_json(text)
    jobs = data.get("Jobs", {})
    return {
        job_id: _state(job["job_state"], job.get("Exit_status")) for job_id, job in jobs.items()
    }


_JOB = re.compile(r'^\s*"(\d[^"\s]*)"\s*:\s*\{\s*$')
_FIELD = re.compile(r'^\s*"(job_state|Exit_status)"\s*:\s*"?([A-Z]|-?\d+)"?\s*,?\s*$')


def _parse_broken_json(text: str) -> dict[str, JobState]:
    """One field a line, as OpenPBS prints it; lines that are no JSON are of no interest here."""
    fields: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        if (job := _JOB.match(line)) is not None:
            current = fields.setdefault(job[1], {})
        elif (found := _FIELD.match(line)) is not None:
            current.setdefault(found[1], found[2])
    if not text.rstrip().endswith("}") or not all("job_state" in one for one in fields.values()):
        raise ValueError("qstat's answer is cut off")
    return {job: _state(one["job_state"], one.get("Exit_status")) for job, one in fields.items()}


def parse_text(text: str) -> dict[str, JobState]:
    """``qstat -f``: ``Job Id: ID``, then indented ``name = value`` lines; a value goes on in lines
    that begin with a tab."""
    found: dict[str, JobState] = {}
    for block in re.split(r"^Job Id:", text, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        fields = dict(re.findall(r"^ {1,8}(job_state|exit_status) = (.*)$", body, re.M | re.I))
        fields = {key.lower(): value.strip() for key, value in fields.items()}
        if "job_state" not in fields:
            raise ValueError(f"no job_state of job {head.strip()}: qstat's answer is cut off")
        found[head.strip()] = _state(fields["job_state"], fields.get("exit_status"))
    if not found and text.strip():
        raise ValueError("qstat's answer has neither JSON nor a line that begins with 'Job Id:'")
    return found


def _state(letter: str, exit_status: Any) -> JobState:
    return JobState(str(letter), None if exit_status is None else int(exit_status))


def unknown_of(stderr: str, ids: Iterable[str]) -> set[str]:
    """The ids that the server says it does not know."""
    numbers = {number_of(job_id): job_id for job_id in ids}
    unknown = set()
    for line in stderr.splitlines():
        if any(word in line.lower() for word in PBS_UNKNOWN):
            unknown |= {numbers[n] for n in re.findall(r"\d+(?:\[\d*\])?", line) if n in numbers}
    return unknown


def matched(found: Mapping[str, JobState], ids: Iterable[str]) -> dict[str, JobState]:
    """Of an answer, what was asked for, under the ids that qsub printed."""
    by_number = {number_of(job_id): state for job_id, state in found.items()}
    return {
        job_id: by_number[number_of(job_id)] for job_id in ids if number_of(job_id) in by_number
    }
