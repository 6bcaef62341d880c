"""A Snakemake job as a request to PBS: pure functions from resources to the arguments of qsub, and
from qsub's answer to what the user can change.

Options: OpenPBS's manual pages qsub(1B) and pbs_resources(7B).
"""

from __future__ import annotations

import math
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_executor_plugin_pbs.hosts import Host, walltime
from snakemake_executor_plugin_pbs.settings import ExecutorSettings


class RequestError(ValueError):
    """A resource of the wrong kind; the message is for the user."""


#: Most characters of a job's name, and random bytes at its end, by which the job is found.
NAME_LENGTH = 60
TOKEN_BYTES = 3


def unique_name(name: str) -> str:
    """A job name that qsub accepts (qsub(1B), ``-N``), with a random token at its end: the readable
    part comes first, because ``qstat`` shows 15 characters."""
    token = secrets.token_hex(TOKEN_BYTES)
    text = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "job"
    if not text[0].isalpha():
        text = f"j{text}"
    return f"{text[: NAME_LENGTH - len(token) - 1]}-{token}"


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for: `nodes` chunks, each on one host with `threads` CPUs, `memory` MB and
    `gpus` GPUs.

    `memory`, `minutes` and the texts are None if the rule does not set them. `name` is the job's
    readable name.
    """

    name: str
    threads: int
    memory: int | None
    minutes: int | None
    nodes: int
    gpus: int
    queue: str | None
    account: str | None
    select: str | None
    place: str | None
    extra: tuple[str, ...]

    @property
    def amounts(self) -> str:
        """CPUs, memory and GPUs for each host, for messages."""
        texts = [f"{self.threads} CPUs"]
        texts += [f"{self.memory} MB of memory"] if self.memory is not None else []
        texts += [f"{self.gpus} GPUs"] if self.gpus else []
        return " and ".join(texts)


def request_of(
    name: str, threads: int, resources: Mapping[str, Any], defaults: ExecutorSettings
) -> Request:
    """The request of a job. Raises RequestError for a resource of the wrong kind."""

    def number(key: str) -> int | None:
        value = resources.get(key)
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RequestError(f"job {name}, resource {key}: {value!r} is not a number")
        return math.ceil(value)

    def text(key: str) -> str | None:
        own = resources.get(f"pbs_{key}")
        return str(own) if own not in (None, "") else getattr(defaults, key) or None

    try:
        extra = tuple(shlex.split(text("extra") or ""))
    except ValueError as error:
        raise RequestError(f"job {name}, resource pbs_extra: {error}") from None
    threads = max(1, threads)
    memory, per_cpu = number("mem_mb"), number("mem_mb_per_cpu")
    select = text("select")
    # GPUs named in pbs_select replace the resource `gpu`.
    own_gpus = re.search(r"(^|:)n?gpus=", select or "") is not None
    return Request(
        name=str(resources.get("pbs_name") or name),
        threads=threads,
        memory=memory if per_cpu is None else per_cpu * threads,
        minutes=number("runtime"),
        nodes=max(1, number("nodes") or 1),
        gpus=0 if own_gpus else number("gpu") or 0,
        queue=text("queue"),
        account=text("account"),
        select=select,
        place=text("place"),
        extra=extra,
    )


def qsub_command(request: Request, name: str, log: Path, script: Path) -> list[str]:
    """The command line of qsub; paths are absolute."""
    chunk = f"select={request.nodes}:ncpus={request.threads}"
    if request.memory is not None:
        chunk += f":mem={request.memory}mb"
    if request.gpus:
        chunk += f":ngpus={request.gpus}"
    if request.select:
        chunk += f":{request.select}"
    # `-r n`: Snakemake decides what runs again. `-k oed`: the log is written while the job runs.
    # The script is for sh, whatever the login shell is.
    command = ["qsub", "-N", name, "-r", "n", "-m", "n", "-j", "oe", "-k", "oed"]
    command += ["-S", "/bin/sh", "-o", str(log), "-l", chunk]
    if request.minutes:
        command += ["-l", f"walltime={walltime(request.minutes)}"]
    place = request.place or ("scatter" if request.nodes > 1 else "free")
    command += ["-l", f"place={place}"]
    if request.queue:
        command += ["-q", request.queue]
    if request.account:
        command += ["-A", request.account]
    return [*command, *request.extra, str(script)]


def too_large(request: Request, hosts: Sequence[Host]) -> str | None:
    """Why no host can ever run a chunk of the job; None where one can, or where PBS does not say.

    PBS itself lets such a job wait for ever, and tells only where all hosts together are too small.
    """
    if not hosts or any(host.cpus is None or host.memory is None for host in hosts):
        return None
    memory = request.memory or 0
    if any((h.cpus or 0) >= request.threads and (h.memory or 0) >= memory for h in hosts):
        return None
    most_cpus = max(hosts, key=lambda host: host.cpus or 0)
    most_memory = max(hosts, key=lambda host: host.memory or 0)
    return (
        f"it asks for {request.amounts} on one host, which no host "
        f"of this PBS has: the most are {most_cpus.cpus} CPUs ({most_cpus.name}) and "
        f"{most_memory.memory} MB ({most_memory.name})"
    )


#: Errors of qsub after which the same request may be accepted: the server is busy, restarts, or
#: cannot be reached. All others (limits, unknown queue) are permanent.
_TEMPORARY = re.compile(
    r"connect|connection|busy|timed? ?out|try again|temporarily|shutting down|end of file"
    r"|premature end|server is down|not responding|communication|protocol|socket",
    re.IGNORECASE,
)
#: What a user can do, by what qsub says (lower case); the first that matches.
_ADVICE = {
    "no host of this pbs has": "ask for less (threads, mem_mb) in the rule or the profile",
    "resource limit": "`qstat -Qf` shows what each queue allows (rule: threads, mem_mb, runtime)",
    "unknown resource: ngpus": (
        "the rule's `gpu` is asked for as ngpus, which this PBS does not have: set gpu=0, and "
        "name in pbs_select what it calls its GPUs"
    ),
    "limit": "run fewer jobs at once (--jobs) or take another queue (pbs_queue)",
    "maximum number": "run fewer jobs at once (--jobs) or take another queue (pbs_queue)",
    "not on path": "run on a host from which jobs are submitted to PBS",
    "connect": "the server could not be reached for minutes; run again when `qstat -B` answers",
}
_OTHER_ADVICE = (
    "queue, account and resources come from the rule (pbs_queue, pbs_account, pbs_select, ...) or "
    "the settings --pbs-queue, --pbs-account, --pbs-select"
)


def temporary(error: str) -> bool:
    """Whether the same request may be accepted a little later."""
    return _TEMPORARY.search(error) is not None


def refusal(error: str, command: Sequence[str]) -> str:
    """Why a job was refused, the command, and what the user can do."""
    advice = next((text for said, text in _ADVICE.items() if said in error.lower()), _OTHER_ADVICE)
    return f"{error}. Command: {shlex.join(command)}; {advice}"
