"""Slurm's jobs of a run of Snakemake, and those among them that can never start."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from storewise.errors import StorewiseError
from storewise.schedulers.queue import run_command

#: What snakemake-executor-plugin-slurm 2.8 says when it starts, before it submits anything
#: (``Executor.__post_init__``). The id is the ``--job-name`` of all its jobs.
_RUN_ID = re.compile(r"SLURM run ID: (?P<name>[\w-]+)")
#: ... and when sbatch has taken a job, or refuses it (``Executor.run_job``).
_SUBMITTED = re.compile(r"Job (?P<jobid>\S+) has been submitted with SLURM jobid (?P<id>\d+) \(.+")
_REFUSED = re.compile(r"SLURM sbatch failed\. The error message was '(?P<why>.*?)'\.\n", re.DOTALL)
#: ... and when a job has failed, or its host is gone (``Executor.check_active_jobs``).
_ENDED = re.compile(r"^SLURM-job '(?P<job>\w+)' failed, SLURM status is: '(?P<state>\w+)")
_LOST = re.compile(r"SLURM-job '\w+' failed due to a node failure")

#: Job states of squeue(1), "JOB STATE CODES", that say more than that a job has failed.
STATES = {
    "BOOT_FAIL": "its host could not be started",
    "CANCELLED": "somebody cancelled it",
    "DEADLINE": "it had not ended at its deadline",
    "OUT_OF_MEMORY": "it used more memory than it asked for: give its rule more mem_mb",
    "PREEMPTED": "another job took its place",
    "TIMEOUT": "it had not ended in its wall time: give its rule more runtime",
}
#: Reasons of squeue(1), "JOB REASON CODES", for which a job waits until somebody changes it or the
#: cluster, and what to look at.
NEVER = {
    "AccountNotAllowed": "slurm_account",
    "BadConstraints": "constraint",
    "DependencyNeverSatisfied": "slurm_extra",
    "InvalidAccount": "slurm_account",
    "InvalidQOS": "slurm-qos",
    "PartitionConfig": "threads, mem_mb and slurm_partition",
    "PartitionNodeLimit": "slurm_partition",
    "PartitionTimeLimit": "runtime and slurm_partition",
    "QOSNotAllowed": "slurm-qos",
}
#: Looks in a row that must agree: a controller that has just started may not know all its hosts.
LOOKS = 3
TIMEOUT = 30.0


def run_name(message: str) -> str | None:
    """The name that all Slurm jobs of a run share, if this message of the plugin tells it."""
    match = _RUN_ID.fullmatch(message.strip())
    return match["name"] if match else None


def submitted_job(message: str) -> tuple[str, str] | None:
    """Snakemake's id of a job that was submitted and Slurm's, if this message of the plugin tells
    of one."""
    match = _SUBMITTED.fullmatch(message.strip())
    return (match["jobid"], match["id"]) if match else None


def refusal(message: str) -> str | None:
    """Why sbatch refused a job, if this message of the plugin tells it."""
    match = _REFUSED.search(message)
    return " ".join(match["why"].split()) if match else None


def host_was_lost(message: str) -> bool:
    """Whether this message of the plugin tells of a job whose host Slurm has lost."""
    return _LOST.search(message) is not None


def end_of_job(message: str) -> tuple[str, bool]:
    """How Slurm says that a job has ended, if this message of the plugin tells it, and whether
    Slurm or a user has ended it, not the job itself."""
    match = _ENDED.search(message)
    if match is None:
        return "", False
    why = STATES.get(match["state"], "without a message of its own; its log may say more")
    return f"Slurm says {match['state']} of job {match['job']}, {why}", match["state"] in STATES


def number_of_hosts(job_id: str) -> int:
    """The number of hosts of a job; StorewiseError with squeue's error if it gives none."""
    command = ["squeue", "--noheader", f"--jobs={job_id}", "--format=%D"]
    try:
        answer = run_command(command, TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorewiseError(f"cannot get the number of hosts of job {job_id}: {error}") from error
    text = answer.stdout.strip()
    if answer.returncode or not text.isdigit():
        words = answer.stderr.strip() or text or "no output"
        raise StorewiseError(
            f"squeue does not say on how many hosts job {job_id} runs, so its workers cannot be "
            f"started: {words}"
        )
    return int(text)


def _output(command: Sequence[str]) -> str:
    """The output of a Slurm command; empty if it fails or times out."""
    try:
        answer = run_command(command, TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


@dataclass
class Waiting:
    """Looks at a run's waiting jobs for those that Slurm will never start.

    Slurm accepts a job that asks for more time or processors than its partition allows, and lets
    it wait without end.
    """

    name: str
    _seen: dict[str, int] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    def never_starting(self) -> dict[str, str]:
        """Job id -> why the job will never start, once per job. Empty without squeue's answer."""
        options = ("--states=PENDING", f"--name={self.name}", "--format=%i|%r|%P|%k")
        stuck = {}
        for line in _output(["squeue", "--noheader", *options]).splitlines():
            # A comment may have several lines.
            job_id, reason, partition, comment = (*line.split("|", 3), "", "", "")[:4]
            if reason in NEVER:
                rule, _, wildcards = comment.removeprefix("rule_").partition("_wildcards_")
                stuck[job_id] = (
                    f"Slurm would never start job {job_id} ({rule} {wildcards}".rstrip()
                    + f") in partition {partition}: {reason}. Change {NEVER[reason]} of `{rule}` "
                    "in the profile (set-resources, set-threads) or in the study"
                )
        self._seen = {job_id: self._seen.get(job_id, 0) + 1 for job_id in stuck}
        new = {
            job_id: sentence
            for job_id, sentence in stuck.items()
            if self._seen[job_id] >= LOOKS and job_id not in self._reported
        }
        self._reported |= new.keys()
        return new

    def cancel(self) -> None:
        """Cancel the pending jobs that `never_starting` has reported, so that the run sees them
        fail. A job that scancel fails to cancel is tried again at the next call."""
        if left := sorted(self._reported & self._seen.keys()):
            _output(["scancel", *left])
