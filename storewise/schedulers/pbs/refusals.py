"""Why PBS did not take a job, for the user: pure functions of qsub's words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from storewise.schedulers.pbs.request import Job, walltime

#: Words of qsub's errors where the same request may be taken a little later: the server is busy,
#: restarts, or cannot be reached. Anything else (limits, unknown queue) stays refused.
_PASSING = re.compile(
    r"connect|connection|busy|timed? ?out|try again|temporarily|shutting down|end of file"
    r"|premature end|server is down|not responding|communication|protocol|socket",
    re.IGNORECASE,
)
#: "Job violates queue and/or server resource limits": which resource is not said.
_RESOURCE_LIMIT = re.compile(r"resource limit", re.IGNORECASE)
#: "would exceed queue generic's per-user limit"
_JOB_LIMIT = re.compile(r"exceed|maximum number|limit", re.IGNORECASE)
#: What snakemake-executor-plugin-cluster-generic 1.0.9 says of a submit command that failed, and
#: what that printed.
_FAILED = re.compile(r"Error submitting jobscript \(exit code \d+\):\n(?P<why>.*)", re.DOTALL)


def passing(said: str) -> bool:
    """Whether the same request may be taken a little later."""
    return _PASSING.search(said) is not None


def first_words(text: str) -> str:
    """What qsub said, on one line, without the usage that follows a wrong option."""
    return " ".join(text.partition("\nusage:")[0].split())


def refused(job: Job, said: str, command: Sequence[str], default_minutes: int) -> str:
    """A message from qsub's words; `default_minutes` is for jobs whose rule names no runtime."""
    if _RESOURCE_LIMIT.search(said):
        advice = (
            f"it asks for a wall time of {walltime(job.minutes or default_minutes)}, "
            f"{job.threads} CPUs and {job.memory or 0} MB; `qstat -Qf` shows what each queue "
            "allows. The profile has the wall times (`session_walltime` for rules node and form, "
            "`walltime`, or `runtime` below set-resources) and the queues"
        )
    elif _JOB_LIMIT.search(said):
        advice = "fewer jobs at once (`jobs` in the profile) or another queue may be taken"
    else:
        advice = "queue, account and resources stand in the profile"
    return f"PBS did not take {job.name}: {said}. Asked: {shlex.join(command)}; {advice}"


def refusal(message: str) -> str | None:
    """Why PBS refused a job, if this message of Snakemake's executor tells it."""
    found = _FAILED.fullmatch(message.strip())
    return " ".join(found["why"].split()).removeprefix("storewise: ") if found else None
