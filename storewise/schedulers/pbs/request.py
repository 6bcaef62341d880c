"""A Snakemake job as a request to PBS: pure functions from a jobscript to qsub's words and script,
and from qsub's answer to why PBS did not take the job.

Options of qsub: OpenPBS's manual page qsub(1B) (``-l select``, ``-l place``) and Torque's
``-l nodes=1:ppn=N``. Snakemake describes the job in a comment line of its jobscript.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storewise.errors import StorewiseError
from storewise.schedulers.pbs.options import (
    ALWAYS_EXPORTED,
    EXPORTED_PREFIX,
    NODE_CLASSES,
    SubmitOptions,
)
from storewise.study.host_classes import WORK
from storewise.yamlfile import nearest

PROPERTIES = "# properties = "
#: Longest job names: OpenPBS takes 230 characters, Torque and old PBS Pro 15.
NAME_LENGTH = {"openpbs": 60, "torque": 15}

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


class RequestError(StorewiseError):
    """A job that cannot be asked for; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a rule asks for. Memory and disk in MB, None where the rule names none."""

    name: str
    threads: int
    memory: int | None
    disk: int | None
    minutes: int | None
    node_class: str
    exclusive: bool


def _number(resources: Mapping[str, Any], key: str, rule: str) -> int | None:
    value = resources.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RequestError(f"rule {rule}, resource {key}: {value!r} is not a number")
    return int(value)


def read_job(jobscript: Path, classes: Sequence[str] = NODE_CLASSES) -> Job:
    """The job that a Snakemake jobscript describes; `classes` are those of the profile."""
    for line in jobscript.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        if line.startswith(PROPERTIES):
            return job_of(json.loads(line.removeprefix(PROPERTIES)), classes)
    raise RequestError(
        f"{jobscript}: no line that begins with {PROPERTIES!r}; expected a jobscript of Snakemake"
    )


def job_of(properties: Mapping[str, Any], classes: Sequence[str] = NODE_CLASSES) -> Job:
    """The job of a jobscript's properties (`snakemake.jobs.Job.properties`)."""
    rule = str(properties.get("rule") or properties.get("groupid") or "job")
    resources = properties.get("resources") or {}
    wildcards = (properties.get("wildcards") or {}).values()
    node_class = str(resources.get("node_class") or WORK)
    if node_class not in classes:
        raise RequestError(
            f"rule {rule}, resource node_class: {node_class!r} is not known"
            f"{nearest(node_class, list(classes))}; expected {' or '.join(classes)}"
        )
    return Job(
        name="-".join([rule, *map(str, wildcards)]),
        threads=max(1, int(properties.get("threads") or 1)),
        memory=_number(resources, "mem_mb", rule),
        disk=_number(resources, "disk_mb", rule),
        minutes=_number(resources, "runtime", rule),
        node_class=node_class,
        exclusive=bool(_number(resources, "exclusive", rule)),
    )


def clean_name(name: str, token: str, dialect: str) -> str:
    """A name that qsub takes: a letter first, no odd characters, not too long, with `token` at
    its end, so that the job can be found again by its name."""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    if not re.match(r"[A-Za-z]", clean):
        clean = f"j{clean}"
    return f"{clean[: NAME_LENGTH[dialect] - len(token) - 1]}-{token}"


def walltime(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def resource_words(job: Job, options: SubmitOptions) -> list[str]:
    """``-l`` words for the job's resources."""
    time_limit = walltime(job.minutes or options.walltime)
    chosen = options.select.get(job.node_class, "")
    if options.dialect == "torque":
        chunk = f"nodes=1:ppn={job.threads}" + (f":{chosen}" if chosen else "")
        words = ["-l", chunk]
        if job.memory is not None:
            words += ["-l", f"mem={job.memory}mb"]
        if job.disk is not None and options.disk:
            words += ["-l", f"{options.disk}={job.disk}mb"]
        words += ["-l", f"walltime={time_limit}"]
        # Torque's own word for a node of one's own.
        return [*words, "-n"] if job.exclusive else words
    chunk = f"select=1:ncpus={job.threads}"
    if job.memory is not None:
        chunk += f":mem={job.memory}mb"
    if job.disk is not None and options.disk:
        chunk += f":{options.disk}={job.disk}mb"
    if chosen:
        chunk += f":{chosen}"
    place = "excl" if job.exclusive else options.place.get(job.node_class, "free")
    return ["-l", chunk, "-l", f"walltime={time_limit}", "-l", f"place={place}"]


def qsub_words(job: Job, options: SubmitOptions, name: str, log: Path, script: Path) -> list[str]:
    """The whole command line of qsub; `log` and `script` are absolute."""
    # Never rerun by PBS: Snakemake and the session decide what is done again.
    words = ["qsub", "-N", name, "-r", "n", "-j", "oe", "-o", str(log)]
    words += resource_words(job, options)
    queue = options.queue.get(job.node_class, "")
    if queue:
        words += ["-q", queue]
    if options.account:
        words += ["-A", options.account]
    return [*words, *options.extra, str(script)]


def exported(environment: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The variables of `environment` that a job gets."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in names or name in ALWAYS_EXPORTED or name.startswith(EXPORTED_PREFIX)
    }


def wrapped(content: str, mark: Path, environment: Mapping[str, str]) -> str:
    """The jobscript as it is submitted.

    It writes its exit status to `mark`, for servers that keep no history of finished jobs, and
    gets its variables here and not by ``qsub -v``, which cannot carry every value.

    PBS sends SIGTERM to all processes of a job that it ends, and kills the rest as soon as the
    job's shell has gone: so the shells stay until their program has ended in order. A signal that
    is trapped, unlike an ignored one, comes to the programs as ever.
    """
    exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in environment.items())
    target = shlex.quote(str(mark))
    return (
        f"#!/bin/sh\ntrap : TERM\n{exports}(\ntrap : TERM\n{content.rstrip()}\n)\nstatus=$?\n"
        f"echo $status > {target}.tmp && mv {target}.tmp {target}\nexit $status\n"
    )


@dataclass(frozen=True, slots=True)
class Host:
    """What a PBS node has; None where the server does not say. Memory in MB."""

    name: str
    cpus: int | None
    memory: int | None


_UNITS = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "pb": 2**50}


def megabytes(text: str) -> int | None:
    """A size of PBS (``263770364kb``) in MB, None where it is none."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)([bw]?)", text.strip().lower())
    if match is None:
        return None
    scale = _UNITS[f"{match[2]}b"] * (8 if match[3] == "w" else 1)
    return int(match[1]) * scale // 2**20


def hosts_of(text: str) -> list[Host]:
    """Nodes of ``pbsnodes -a -F json`` (OpenPBS); ValueError where it is none."""
    hosts = []
    for name, node in json.loads(text, strict=False).get("nodes", {}).items():
        has = node.get("resources_available", {})
        cpus = has.get("ncpus")
        hosts.append(
            Host(
                name,
                int(cpus) if str(cpus).isdigit() else None,
                megabytes(str(has["mem"])) if "mem" in has else None,
            )
        )
    return hosts


def too_large(job: Job, hosts: list[Host]) -> str | None:
    """Why no node can ever run the job, None where one can or it cannot be told."""
    if not hosts or any(host.cpus is None or host.memory is None for host in hosts):
        return None
    if any((h.cpus or 0) >= job.threads and (h.memory or 0) >= (job.memory or 0) for h in hosts):
        return None
    most_cpus = max(hosts, key=lambda host: host.cpus or 0)
    most_memory = max(hosts, key=lambda host: host.memory or 0)
    return (
        f"{job.name} asks for {job.threads} CPUs and {job.memory or 0} MB of memory on one node, "
        f"which no node of this PBS has: the most are {most_cpus.cpus} CPUs ({most_cpus.name}) and "
        f"{most_memory.memory} MB ({most_memory.name}); ask for less in the study, or with "
        "set-threads and set-resources in the profile"
    )


def passing(message: str) -> bool:
    """Whether the same request may be taken a little later."""
    return _PASSING.search(message) is not None


def first_words(text: str) -> str:
    """What qsub printed, on one line, without the usage that follows a wrong option."""
    return " ".join(text.partition("\nusage:")[0].split())


def refused(job: Job, message: str, command: Sequence[str], default_minutes: int) -> str:
    """A message from qsub's words; `default_minutes` is for jobs whose rule names no runtime."""
    if _RESOURCE_LIMIT.search(message):
        advice = (
            f"it asks for a wall time of {walltime(job.minutes or default_minutes)}, "
            f"{job.threads} CPUs and {job.memory or 0} MB; `qstat -Qf` shows what each queue "
            "allows. The profile has the wall times (`session_walltime` for rules node and form, "
            "`walltime`, or `runtime` below set-resources) and the queues"
        )
    elif _JOB_LIMIT.search(message):
        advice = "fewer jobs at once (`jobs` in the profile) or another queue may be taken"
    else:
        advice = "queue, account and resources stand in the profile"
    return f"PBS did not take {job.name}: {message}. Asked: {shlex.join(command)}; {advice}"


def refusal(message: str) -> str | None:
    """Why PBS refused a job, if this message of Snakemake's executor tells it."""
    match = _FAILED.fullmatch(message.strip())
    return " ".join(match["why"].split()).removeprefix("storewise: ") if match else None
