"""Queued and running cluster jobs, and their end: PBS and Slurm by their commands.

A job has a *kind*: ``pbs``, ``slurm``, or ``slurm-run``. The id of the last is the name that all
jobs of a run of Snakemake's Slurm plugin share: it covers also jobs whose ids nobody has seen.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from storewise.processes import clean_environment

PBS, SLURM, SLURM_RUN = "pbs", "slurm", "slurm-run"
COMMAND_TIMEOUT = 30.0
#: Ids on one command line.
MAX_IDS = 200
#: States of PBS in which a job is over: F finished (history), X finished subjob.
_PBS_ENDED = {"F", "X"}
#: What qstat says of ids that it does not know (any more).
_PBS_UNKNOWN = ("unknown job", "job has finished")


def run_command(command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """A command of a scheduler, and what it printed. Raises OSError where there is no such program,
    TimeoutExpired after `timeout` seconds."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        env=clean_environment(),
    )


def present(kind: str, ids: Sequence[str]) -> set[str] | None:
    """The ids that are queued or running; None if the scheduler gave no answer."""
    ask = {PBS: _in_qstat, SLURM: _in_squeue}[kind]
    found: set[str] = set()
    for first in range(0, len(ids), MAX_IDS):
        try:
            some = ask(ids[first : first + MAX_IDS])
        except (OSError, subprocess.TimeoutExpired):
            return None
        if some is None:
            return None
        found |= some
    return found


def _in_qstat(ids: Sequence[str]) -> set[str] | None:
    # The short table: job id, name, user, time, state, queue; an id may be cut on its right side.
    # Without -t there is one line for a whole array.
    arrays = ["-t"] if any("[" in job_id for job_id in ids) else []
    answer = run_command(["qstat", *arrays, *ids], COMMAND_TIMEOUT)
    errors = [line for line in answer.stderr.lower().splitlines() if line.strip()]
    unknown = all(any(words in line for words in _PBS_UNKNOWN) for line in errors)
    if answer.returncode and not (errors and unknown):
        return None
    numbers = {job_id.partition(".")[0]: job_id for job_id in ids}
    rows = [row for row in map(str.split, answer.stdout.splitlines()) if len(row) >= 5]
    found = {numbers.get(row[0].partition(".")[0]) for row in rows if row[-2] not in _PBS_ENDED}
    return {job_id for job_id in found if job_id is not None}


def _in_squeue(ids: Sequence[str]) -> set[str] | None:
    command = ["squeue", "--noheader", "--format=%i", f"--jobs={','.join(ids)}"]
    answer = run_command(command, COMMAND_TIMEOUT)
    # A single id that squeue has forgotten is an error, several of them are an empty list.
    if answer.returncode and "invalid job id" not in answer.stderr.lower():
        return None
    lines = [line.strip() for line in answer.stdout.splitlines()]
    # For a task of a job array also the array's id.
    return set(ids) & {*lines, *(line.split("_")[0] for line in lines)}


def cancel(kind: str, ids: Sequence[str], *, force: bool = False) -> list[str]:
    """Cancel jobs; a sentence for each command that the scheduler has not accepted.

    With `force` also jobs whose host does not answer: PBS takes them out of its books.
    """
    if kind == PBS:
        # One id a call: a server of OpenPBS 23.06 without a job history dies of `qdel ID1 ID2`
        # where the first waits and the second has ended.
        commands = [["qdel", *(["-W", "force"] if force else []), job_id] for job_id in ids]
    elif kind == SLURM_RUN:
        commands = [["scancel", f"--name={name}"] for name in ids]
    else:
        some = [ids[first : first + MAX_IDS] for first in range(0, len(ids), MAX_IDS)]
        kill = [["scancel", "--signal=KILL", *few] for few in some if force]
        commands = [*kill, *(["scancel", *few] for few in some)]
    refused: list[str] = []
    for command in commands:
        try:
            answer = run_command(command, COMMAND_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            return [*refused, f"{' '.join(command)}: {error}"]  # the others would wait as long
        if answer.returncode and not _has_ended(answer.stderr):
            refused.append(f"{' '.join(command)}: {answer.stderr.strip()}")
    return refused


def _has_ended(words: str) -> bool:
    # PBS says the second of a job that is exiting.
    over = (*_PBS_UNKNOWN, "invalid for state of job", "invalid job id")
    return any(known in words.lower() for known in over)
