"""What a scheduler has in its queue, and taking jobs out of it: PBS and Slurm by their commands.

A job has a *kind*: ``pbs``, ``slurm``, or ``slurm-run``, whose ids are names that all jobs of a run
of Snakemake's Slurm plugin share (one entry covers also those whose ids nobody has seen).
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from storewise.processes import clean_environment

COMMAND_TIMEOUT = 30.0
#: The run waits for this answer before it ends a trial.
HOST_TIMEOUT = 5.0
#: Ids on one command line.
BATCH = 200
#: Seconds after a first accepted cancel before it is forced, where the scheduler can.
FORCE_AFTER = 45.0
PBS, SLURM, SLURM_RUN = "pbs", "slurm", "slurm-run"


@dataclass(frozen=True, slots=True)
class _Kind:
    cancel: tuple[str, ...]
    force: tuple[str, ...]
    present: Callable[[Sequence[str]], set[str] | None]
    host: Callable[[str], str]
    names: bool = False
    """Ids are names that several jobs share, and more may come: one by one, in each round."""
    single: bool = False
    """One id on each command line."""


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


def note(text: str) -> None:
    """A line of the log of a process that cancels jobs."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def _ask(
    command: Sequence[str], timeout: float = COMMAND_TIMEOUT
) -> subprocess.CompletedProcess[str] | None:
    try:
        return run_command(command, timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        note(f"{command[0]}: {error}")
        return None


#: States of PBS in which a job is over: F finished (history), X finished subjob, C (Torque).
_PBS_OVER = {"F", "X", "C"}
#: What qstat says of ids that it does not know (any more), in OpenPBS and in Torque.
_PBS_UNKNOWN = ("unknown job", "job has finished", "does not exist")
_PBS_HOST = re.compile(r"^ {1,8}exec_host = ([^/\s.]+)", re.MULTILINE)


def _pbs_present(ids: Sequence[str]) -> set[str] | None:
    # The short table: job id, name, user, time, state, queue; an id may be cut on its right side.
    # Without -t there is one line for a whole array.
    arrays = ["-t"] if any("[" in job_id for job_id in ids) else []
    answer = _ask(["qstat", *arrays, *ids])
    if answer is None:
        return None
    errors = [line for line in answer.stderr.lower().splitlines() if line.strip()]
    if answer.returncode and not (
        errors and all(any(word in line for word in _PBS_UNKNOWN) for line in errors)
    ):
        note(f"qstat: {answer.stderr.strip()}")
        return None
    numbers = {job_id.partition(".")[0]: job_id for job_id in ids}
    present = set()
    for line in answer.stdout.splitlines():
        fields = line.split()
        job_id = numbers.get(fields[0].partition(".")[0]) if len(fields) >= 5 else None
        if job_id is not None and fields[-2] not in _PBS_OVER:
            present.add(job_id)
    return present


def _pbs_host(job_id: str) -> str:
    answer = _ask(["qstat", "-f", job_id], HOST_TIMEOUT)
    match = _PBS_HOST.search(answer.stdout) if answer is not None else None
    return match[1] if match else ""


def _squeue_present(option: str, column: str, ids: Sequence[str]) -> set[str] | None:
    answer = _ask(["squeue", "--noheader", f"--format={column}", f"--{option}={','.join(ids)}"])
    if answer is None:
        return None
    # A single id that squeue has forgotten is an error, several of them are an empty list.
    if answer.returncode and "invalid job id" not in answer.stderr.lower():
        note(f"squeue: {answer.stderr.strip()}")
        return None
    lines = [line.strip() for line in answer.stdout.splitlines()]
    # Of a job array's tasks the id of the array.
    return set(ids) & {*lines, *(line.split("_")[0] for line in lines)}


def _slurm_host(job_id: str) -> str:
    command = ["squeue", "--noheader", "--states=all", "--format=%N", f"--jobs={job_id}"]
    answer = _ask(command, HOST_TIMEOUT)
    return answer.stdout.strip() if answer is not None and answer.returncode == 0 else ""


_KINDS = {
    # `-W force` takes a job out of the server's books even where its host does not answer.
    # One id a call: a server of OpenPBS 23.06 without a job history dies of `qdel ID1 ID2` where
    # the first waits and the second has ended.
    PBS: _Kind(("qdel",), ("qdel", "-W", "force"), _pbs_present, _pbs_host, single=True),
    SLURM: _Kind(
        *(("scancel",), ("scancel", "--signal=KILL")),
        *(partial(_squeue_present, "jobs", "%i"), _slurm_host),
    ),
    SLURM_RUN: _Kind(
        *(("scancel", "--name"), ("scancel", "--name")),
        *(partial(_squeue_present, "name", "%j"), lambda name: ""),
        names=True,
    ),
}


def present(kind: str, ids: Sequence[str]) -> set[str] | None:
    """Those of the ids that are queued or running; None where the scheduler gave no answer."""
    found: set[str] = set()
    for batch in _batches(ids, 1 if _KINDS[kind].names else BATCH):
        some = _KINDS[kind].present(batch)
        if some is None:
            return None
        found |= some
    return found


def host_of(kind: str, job_id: str) -> str:
    """The (first) host of a running job; empty where the scheduler does not say it."""
    return _KINDS[kind].host(job_id)


def delete_by_force(kind: str, ids: Sequence[str]) -> None:
    """Take running jobs out of the queue, also where their host does not answer."""
    for command in (_KINDS[kind].force, *([_KINDS[kind].cancel] if kind == SLURM else [])):
        _delete(_KINDS[kind], command, ids)


@dataclass
class Cancelling:
    """Asks a scheduler to take jobs out of its queue, again and again."""

    _since: dict[str, float] = field(default_factory=dict)
    """When a job's cancel was first asked for."""
    _accepted: set[str] = field(default_factory=set)

    def round(self, kind: str, ids: Sequence[str]) -> set[str]:
        """Ask once more for what is late, by force, and for what the scheduler has not accepted
        yet; returns the ids that have gone."""
        over: set[str] = set()
        for batch in _batches(ids, 1 if _KINDS[kind].names else BATCH):
            self._cancel(_KINDS[kind], batch)
            left = _KINDS[kind].present(batch)
            over |= set() if left is None else set(batch) - left
        return over

    def _cancel(self, kind: _Kind, ids: Sequence[str]) -> None:
        now = time.monotonic()
        late = [job_id for job_id in ids if now - self._since.setdefault(job_id, now) > FORCE_AFTER]
        done = set() if kind.names else self._accepted
        new = [job_id for job_id in ids if job_id not in done and job_id not in late]
        for command, some in ((kind.cancel, new), (kind.force, late)):
            self._accepted |= _delete(kind, command, some)


def _delete(kind: _Kind, command: Sequence[str], ids: Sequence[str]) -> set[str]:
    """The ids of which the scheduler has taken the command."""
    taken: set[str] = set()
    for part in _batches(ids, 1 if kind.single else BATCH):
        answer = _ask([*command, *part])
        if answer is None:
            break  # no answer, or no program: the others would wait as long
        if answer.returncode == 0:
            taken.update(part)
        else:
            note(f"{' '.join(command)}: {answer.stderr.strip()}")
    return taken


def _batches(ids: Sequence[str], size: int) -> list[Sequence[str]]:
    return [ids[first : first + size] for first in range(0, len(ids), size)]
