"""What qstat says of jobs of OpenPBS, PBS Pro and Torque: pure functions of its answers.

Sources: recorded answers of OpenPBS; its manual pages qstat(1B) and pbs_job_attributes(7B);
Torque's qstat(1). Exit codes of qstat are PBS error numbers modulo 256 (15001, unknown job: 153).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snakemake_executor_plugin_pbs.dialects import TORQUE

#: Over: F (OpenPBS, with history), C (Torque), X (a task of an array).
OVER = frozenset("FCX")
#: Running, ending, suspended: it has started.
STARTED = frozenset("REBSU")
NO_HISTORY = "not configured to maintain job history"
#: What is said of ids that the server does not know (any more), in OpenPBS and in Torque.
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
    used: tuple[tuple[str, str], ...] = ()
    asked: tuple[tuple[str, str], ...] = ()

    @property
    def over(self) -> bool:
        return self.letter in OVER

    @property
    def started(self) -> bool:
        """Whether it runs or has run. A task that was deleted before it started shows the exit
        status of its array, so a host tells."""
        return self.letter in STARTED or (self.over and bool(self.exec_host))


def number_of(job_id: str) -> str:
    """The part of a job id that the server counts: ids come with and without a domain."""
    return job_id.partition(".")[0]


def array_of(job_id: str) -> str | None:
    """The id of the array that a task belongs to (``19[3].server``: ``19[].server``), None for
    another job."""
    match = re.fullmatch(r"(\d+)\[\d+\](.*)", job_id)
    return f"{match[1]}[]{match[2]}" if match else None


def task_of(array_id: str, index: int) -> str:
    """The id of a task of an array (``19[].server``)."""
    return array_id.replace("[]", f"[{index}]", 1)


def query(
    dialect: str, ids: Sequence[str], *, history: bool = True, as_json: bool = False
) -> list[str]:
    """The command that asks for many jobs at once; ids of arrays bring all their tasks.

    In OpenPBS ``-x`` includes finished jobs, and a server without a job history refuses it for
    every job. In Torque it would mean XML, and finished jobs are listed anyway.
    """
    words = ["qstat", *(["-x"] if history and dialect != TORQUE else []), "-f"]
    words += ["-F", "json"] if as_json else []
    words += ["-t"] if any("[]" in job_id for job_id in ids) else []
    return [*words, *ids]


def no_history(stderr: str) -> bool:
    """Whether the server says that it keeps no job history (`job_history_enable` is off, the
    default of OpenPBS). qstat ends with 0 then."""
    return NO_HISTORY in stderr.lower()


_JOB = re.compile(r"^Job Id: *(\S+) *$", re.MULTILINE)
_LINE = re.compile(r"^ {1,8}([A-Za-z_]+(?:\.[A-Za-z_]+)?) = (.*)$", re.MULTILINE)


def parse_text(text: str) -> dict[str, JobState]:
    """Job states by job id: ``Job Id: ID``, then indented ``name = value`` lines, and an empty
    line. ValueError where the text is not that.

    A value that is wider than the screen goes on in lines that begin with a tab. It may hold line
    ends of its own (``qsub -V`` exports functions of a shell), so the first line of a name counts.
    """
    if text.strip() and not text.endswith("\n\n"):
        raise ValueError("qstat's answer is cut off: no empty line at its end")
    start, *parts = _JOB.split(text.replace("\n\t", ""))
    if start.strip():
        raise ValueError("qstat's answer does not begin with 'Job Id:'")
    states = {}
    for job_id, body in zip(parts[::2], parts[1::2], strict=True):
        lines: dict[str, str] = {}
        # A value with line ends is Variable_List's; what a job has comes before and after it.
        for name, value in _LINE.findall(_without_variables(body)):
            lines.setdefault(name.lower(), value.strip())
        if "job_state" not in lines:
            raise ValueError(f"qstat's answer is cut off: no job_state of job {job_id}")
        states[job_id] = _state(lines)
    return states


def _without_variables(body: str) -> str:
    """A job's lines without those of its environment: from ``Variable_List`` up to the first of
    the attributes that follow it. In all recorded answers that is the comment or the time `etime`;
    where neither comes, the environment is last."""
    before, name, after = body.partition("\n    Variable_List = ")
    if not name:
        return body
    follows = re.search(
        r"^    (?:comment|etime|eligible_time|run_count|Exit_status|exit_status|Submit_arguments"
        r"|submit_args|start_time) = (?!.*,$)",
        after,
        re.MULTILINE,
    )
    return before + "\n" + (after[follows.start() :] if follows else "")


def parse_json(text: str) -> dict[str, JobState]:
    """Job states by job id from ``qstat -f -F json``. ValueError where the text is not that."""
    jobs = json.loads(text, strict=False).get("Jobs", {})
    states = {}
    for job_id, job in jobs.items():
        values: dict[str, str] = {}
        for name, value in job.items():
            if isinstance(value, dict):
                if name != "Variable_List":
                    values |= {f"{name}.{key}".lower(): str(one) for key, one in value.items()}
            else:
                values[name.lower()] = str(value)
        if "job_state" not in values:
            raise ValueError(f"qstat's answer has no job_state of job {job_id}")
        states[job_id] = _state(values)
    return states


def _state(values: Mapping[str, Any]) -> JobState:
    def group(name: str) -> tuple[tuple[str, str], ...]:
        start = f"{name}."
        return tuple(
            (key.removeprefix(start), value)
            for key, value in values.items()
            if key.startswith(start)
        )

    code = values.get("exit_status", "")
    return JobState(
        values["job_state"],
        int(code) if re.fullmatch(r"-?\d+", code) else None,
        values.get("exec_host", ""),
        values.get("comment", ""),
        values.get("hold_types", ""),
        values.get("substate", ""),
        group("resources_used"),
        group("resource_list"),
    )


def unknown_of(stderr: str, ids: Iterable[str]) -> set[str]:
    """The ids that the server says it does not know."""
    numbers = {number_of(job_id): job_id for job_id in ids}
    unknown = set()
    for line in stderr.splitlines():
        if any(word in line.lower() for word in UNKNOWN):
            unknown |= {numbers[n] for n in re.findall(r"\d+(?:\[\d*\])?", line) if n in numbers}
    return unknown


def matched(states: Mapping[str, JobState], ids: Iterable[str]) -> dict[str, JobState]:
    """Of an answer, what was asked for, under the ids that qsub printed."""
    by_number = {number_of(job_id): state for job_id, state in states.items()}
    return {
        job_id: by_number[number_of(job_id)] for job_id in ids if number_of(job_id) in by_number
    }
