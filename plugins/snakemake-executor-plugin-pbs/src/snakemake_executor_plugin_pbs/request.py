"""A Snakemake job as a request to PBS: pure functions from resources to the words of qsub, and
from qsub's answer to why PBS did not take the job.

Options: OpenPBS's manual pages qsub(1B) and pbs_resources(7B); Torque's qsub(1).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from snakemake_executor_plugin_pbs import messages
from snakemake_executor_plugin_pbs.dialects import TORQUE
from snakemake_executor_plugin_pbs.nodes import Host, matches, short
from snakemake_executor_plugin_pbs.sizes import walltime


class RequestError(ValueError):
    """Resources that cannot be asked for; the message is for the user."""


class Defaults(Protocol):
    """The settings that hold for jobs whose rule says nothing else."""

    queue: str | None
    account: str | None
    select: str | None
    place: str | None
    extra: str | None


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


@dataclass(frozen=True, slots=True)
class Form:
    """How requests are written for this PBS.

    `direct` is whether logs are written to their place while jobs run (``-k oed``; Torque does
    not know it). `tasks` is the number of an array's jobs, 0 for a single job.
    """

    dialect: str
    direct: bool = True
    host: str | None = None
    tasks: int = 0


#: Resources that other executors know and that have no equivalent in PBS.
_IGNORED = (
    "clusters",
    "constraint",
    "cpus_per_gpu",
    "cpus_per_task",
    "gpu_manufacturer",
    "gpu_model",
    "gres",
    "qos",
    "reservation",
    "tasks",
    "tasks_per_gpu",
    "tasks_per_node",
)


def ignored_resources(resources: Mapping[str, Any]) -> list[str]:
    """The resources a rule sets that have no equivalent in PBS."""
    asked = [name for name in _IGNORED if resources.get(name) not in (None, "")]
    # Each chunk (node) runs one task: as many tasks as nodes need no warning.
    same = resources.get("tasks") == (resources.get("nodes") or 1)
    return [name for name in asked if not (name == "tasks" and same)]


def _number(resources: Mapping[str, Any], key: str, name: str) -> int | None:
    value = resources.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"job {name}, resource {key}: {value!r} is not a number")
    return math.ceil(value)


def request_of(
    name: str, threads: int, resources: Mapping[str, Any], defaults: Defaults
) -> Request:
    """The request of a job. RequestError where a resource is of the wrong kind."""

    def text(key: str) -> str | None:
        own = resources.get(f"pbs_{key}")
        return str(own) if own not in (None, "") else getattr(defaults, key) or None

    try:
        extra = tuple(shlex.split(text("extra") or ""))
    except ValueError as error:
        raise RequestError(f"job {name}, resource pbs_extra: {error}") from None
    threads = max(1, threads)
    memory = _number(resources, "mem_mb", name)
    per_cpu = _number(resources, "mem_mb_per_cpu", name)
    select = text("select")
    # GPUs named in pbs_select replace the resource `gpu`.
    own_gpus = re.search(r"(^|:)n?gpus=", select or "") is not None
    return Request(
        name=str(resources.get("pbs_name") or name),
        threads=threads,
        memory=memory if per_cpu is None else per_cpu * threads,
        minutes=_number(resources, "runtime", name),
        nodes=max(1, _number(resources, "nodes", name) or 1),
        gpus=0 if own_gpus else _number(resources, "gpu", name) or 0,
        queue=text("queue"),
        account=text("account"),
        select=select,
        place=text("place"),
        extra=extra,
    )


def _resources(request: Request, form: Form) -> list[str]:
    """The words of ``-l``."""
    limit = ["-l", f"walltime={walltime(request.minutes)}"] if request.minutes else []
    if form.dialect == TORQUE:
        chunk = f"nodes={form.host or request.nodes}:ppn={request.threads}"
        chunk += f":gpus={request.gpus}" if request.gpus else ""
        words = ["-l", f"{chunk}:{request.select}" if request.select else chunk]
        if request.memory is not None:
            # Torque's `mem` is of the whole job.
            words += ["-l", f"mem={request.memory * request.nodes}mb"]
        # Torque's own word for hosts that are shared with nobody.
        alone = ["-n"] if "excl" in (request.place or "") else []
        return [*words, *limit, *alone]
    chunk = f"select={request.nodes}:ncpus={request.threads}"
    if request.memory is not None:
        chunk += f":mem={request.memory}mb"
    if request.gpus:
        chunk += f":ngpus={request.gpus}"
    if request.select:
        chunk += f":{request.select}"
    if form.host:
        chunk += f":host={form.host}"
    place = request.place or ("scatter" if request.nodes > 1 else "free")
    return ["-l", chunk, *limit, "-l", f"place={place}"]


def qsub_words(request: Request, form: Form, name: str, log: Path, script: Path) -> list[str]:
    """The whole command line of qsub; `log` and `script` are absolute paths.

    PBS never runs a job again by itself: Snakemake decides that. OpenPBS takes no array that may
    not run again ("cannot submit non-rerunable Array Job"), so there the tasks' scripts refuse it.
    """
    torque = form.dialect == TORQUE
    again = "y" if form.tasks and not torque else "n"
    words = ["qsub", "-N", name, "-r", again, "-m", "n", "-j", "oe"]
    if form.direct and not torque:
        words += ["-k", "oed"]
    # The script is for sh, whatever the login shell is.
    words += ["-S", "/bin/sh", "-o", str(log), *_resources(request, form)]
    if form.tasks:
        words += ["-t" if torque else "-J", f"0-{form.tasks - 1}"]
    if request.queue:
        words += ["-q", request.queue]
    if request.account:
        words += ["-A", request.account]
    return [*words, *request.extra, str(script)]


def too_large(request: Request, hosts: Sequence[Host]) -> str | None:
    """Why no host can ever run a chunk of the job, None where one can or it cannot be told."""
    if not hosts or any(host.cpus is None or host.memory is None for host in hosts):
        return None
    memory = request.memory or 0
    if any((h.cpus or 0) >= request.threads and (h.memory or 0) >= memory for h in hosts):
        return None
    most_cpus = max(hosts, key=lambda host: host.cpus or 0)
    most_memory = max(hosts, key=lambda host: host.memory or 0)
    return (
        f"it asks for {_amounts(request)} on one host, which no host "
        f"of this PBS has: the most are {most_cpus.cpus} CPUs ({most_cpus.name}) and "
        f"{most_memory.memory} MB ({most_memory.name})"
    )


def _amounts(request: Request) -> str:
    """The CPUs, memory and GPUs that a job asks for on each host, as text for messages."""
    words = [f"{request.threads} CPUs"]
    words += [f"{request.memory} MB of memory"] if request.memory is not None else []
    words += [f"{request.gpus} GPUs"] if request.gpus else []
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def other_host(request: Request, hosts: Sequence[Host], lost: frozenset[str]) -> str | None:
    """A host for a job that must not go to one that this run has lost, the one with the most free
    CPUs; None where PBS may choose.

    PBS has no word for "any host but that one". It gives no jobs to hosts that are down, so a host
    is only named when a lost one is up again. Jobs of several chunks, jobs that name a host
    themselves and hosts that belong to a queue are left to PBS.
    """
    named = re.search(r"(^|:)v?(host|node)=", request.select or "")
    if request.nodes > 1 or named or not any(h.up and short(h.name) in lost for h in hosts):
        return None
    gpus = f"ngpus={request.gpus}" if request.gpus else None
    fitting = [
        host
        for host in hosts
        if host.up
        and short(host.name) not in lost
        and not host.reserved
        and (host.cpus or 0) >= request.threads
        and (host.memory is None or host.memory >= (request.memory or 0))
        and matches(host, ":".join(filter(None, (gpus, request.select))))
    ]
    best = max(fitting, key=lambda host: (host.free_cpus, host.name), default=None)
    return best.name if best else None


#: Words of qsub's errors where the same request may be taken a little later: the server is busy,
#: restarts, or cannot be reached. Anything else (limits, unknown queue) stays refused.
_PASSING = re.compile(
    r"connect|connection|busy|timed? ?out|try again|temporarily|shutting down|end of file"
    r"|premature end|server is down|not responding|communication|protocol|socket",
    re.IGNORECASE,
)


def passing(message: str) -> bool:
    """Whether the same request may be taken a little later."""
    return _PASSING.search(message) is not None


def first_words(text: str) -> str:
    """What qsub printed, on one line, without the usage that follows a wrong option."""
    return " ".join(text.partition("\nusage:")[0].split())


def no_direct(message: str) -> bool:
    """Whether qsub does not know the letters of ``-k oed``: they are newer than ``-k`` itself."""
    return re.search(r"illegal -k value|invalid option -- '?k", message) is not None


def refused(request: Request, words: str, command: Sequence[str]) -> str:
    """The message of a job that PBS did not take, with what may help."""
    message = words.lower()
    limit = f", for {walltime(request.minutes)}" if request.minutes else ""
    if "no host of this pbs has" in message:
        advice = (
            "ask for less in the rule (threads, mem_mb), or with --set-threads, --set-resources"
        )
    elif "resource limit" in message:
        advice = (
            f"it asks for {_amounts(request)}{limit}; `qstat -Qf` shows what each queue allows "
            "(rule: threads, mem_mb, runtime, pbs_queue)"
        )
    elif "unknown resource: ngpus" in message:
        advice = (
            "the rule's `gpu` is asked for as ngpus, which this PBS does not have: set gpu=0, and "
            "name in pbs_select what it calls its GPUs"
        )
    elif re.search(r"exceed|maximum number|limit", message):
        advice = "fewer jobs at once (--jobs) or another queue (pbs_queue) may be taken"
    elif passing(words):
        advice = "the server could not be reached for minutes; run again when `qstat -B` answers"
    elif "not on path" in message:
        advice = "run on a host from which jobs are submitted to PBS"
    else:
        advice = (
            "queue, account and resources come from the rule (pbs_queue, pbs_account, pbs_select, "
            "...) or the settings --pbs-queue, --pbs-account, --pbs-select"
        )
    name = re.sub(r"[\s:]+", "_", request.name)
    return messages.refused(name, words, shlex.join(command), advice)
