"""The result files of a study's trials, their conditions, and warnings about missing files.

A trial's directory has one part per phase and worker and one for the verification; with a server
also one per node of its session and one for the session itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from storewise.analysis.common.engines import title
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import Quarantined
from storewise.layout import PACK

_PART = re.compile(r"(?P<phase>[a-z][a-z0-9_]*)\.(?P<worker>\d+)\.parquet")
_NODE = re.compile(r"node\.(?P<node>[A-Za-z0-9_-]+)\.parquet")
_LOG = re.compile(r"(?P<phase>[a-z][a-z0-9_]*)\.(?P<worker>\d+)\.hlog")
#: Files of a trial that hold no samples: the write workers' lists of what they wrote.
_NO_PARTS = ("written",)
#: Bytes that a log counts for: reading its sums takes as long as this much of parts.
_LOG_BYTES = 4_000
#: Start of the warning of a session whose nodes share a host.
_SHARED = "nodes share a host"
VERIFY = "verify"
#: Phase of what nodes measure: a session spans all phases of its trial.
SESSION = "session"


# A named tuple, as HdrLog: processes that read hand back a hundred thousand of them, and to pickle
# a dataclass takes five times as long.
class Part(NamedTuple):
    """One result file. Only parts of workers have `worker`, only those of nodes have `node`; the
    session's own part has neither.

    Parts of one trial share equal values of `conditions`: do not modify them.
    """

    directory: Path
    name: str
    trial: str
    phase: str
    worker: int | None
    conditions: Mapping[str, Any]
    node: str | None = None

    @property
    def factors(self) -> Mapping[str, Any]:
        """The levels of the trial's factors."""
        return self.conditions.get("factors") or {}


class HdrLog(NamedTuple):
    """One worker's Hdr interval log of one phase."""

    directory: Path
    name: str
    trial: str
    phase: str
    worker: int

    @property
    def path(self) -> Path:
        return self.directory / self.name


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """The result files of one trial, listed but not read.

    `parts` maps file name to phase, worker and node, sorted by name; `size` is about the number of
    bytes to read, in bytes of parts.
    """

    directory: Path
    parts: Mapping[str, tuple[str, int | None, str | None]]
    logs: Sequence[HdrLog]
    size: int

    @property
    def trial(self) -> str:
        return self.directory.name


def trial_files(directory: Path) -> TrialFiles:
    """The result files in a trial's directory."""
    with os.scandir(directory) as listing:
        entries = {entry.name: entry for entry in listing}
    logs = [
        HdrLog(directory, log[0], directory.name, log["phase"], int(log["worker"]))
        for log in filter(None, map(_LOG.fullmatch, sorted(entries)))
    ]
    parts = {name: place for name in sorted(entries) if (place := _place_of(name)) is not None}
    if PACK in entries:
        # Of packed samples a byte holds about four times as many.
        size = 4 * entries[PACK].stat().st_size
    else:
        size = sum(entries[name].stat().st_size for name in parts) + _LOG_BYTES * len(logs)
    return TrialFiles(directory, parts, logs, size)


def _place_of(name: str) -> tuple[str, int | None, str | None] | None:
    """Phase, worker and node of a part by its file name; None if the file is no part."""
    if name in (f"{VERIFY}.parquet", f"{SESSION}.parquet"):
        return name.removesuffix(".parquet"), None, None
    if node := _NODE.fullmatch(name):
        return SESSION, None, node["node"]
    part = _PART.fullmatch(name)
    if part is None or part["phase"] in _NO_PARTS:
        return None
    return part["phase"], int(part["worker"]), None


def threads_of(part: Part) -> int:
    """Client threads of each process in the part's first step (a load has only one)."""
    steps = part.conditions.get("steps") or [{}]
    return int(steps[0].get("threads", part.factors.get("threads", 1)))


def processes_of(part: Part) -> int:
    """Client processes of each worker."""
    return int(part.factors.get("processes", 1))


def steps_of(parts: Iterable[Part]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """(trial, phase) -> the parameters of its steps, from its first worker's part."""
    steps: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for part in parts:
        stored = part.conditions.get("steps")
        if part.worker is not None and isinstance(stored, list):
            steps.setdefault((part.trial, part.phase), stored)
    return steps


def missing_parts(parts: Sequence[Part], logs: Sequence[HdrLog]) -> Iterator[StudyWarning]:
    """Warnings about phases that lack a worker's file, so that their sums would be too low."""
    again = "run the study again: it measures what is missing"
    logged = {(log.trial, log.phase, log.worker) for log in logs}
    for part in parts:
        if part.worker is not None and (part.trial, part.phase, part.worker) not in logged:
            lost = f"worker {part.worker} has no Hdr log; its latencies are left out"
            yield StudyWarning("missing_worker", part.trial, f"phase {part.phase}: {lost}", again)
    for (trial, phase), missing in _missing_workers(parts).items():
        if missing:
            lost = f"no result of worker {', '.join(map(str, missing))}"
            lost += "; the phase is left out of all figures"
            yield StudyWarning("missing_worker", trial, f"phase {phase}: {lost}", again)


def whole_phases(parts: Sequence[Part]) -> set[tuple[str, str]]:
    """The (trial, phase) pairs that have every worker's part."""
    return {phase for phase, missing in _missing_workers(parts).items() if not missing}


def _missing_workers(parts: Sequence[Part]) -> dict[tuple[str, str], list[int]]:
    """(trial, phase) -> the workers whose parts are missing."""
    present: dict[tuple[str, str], set[int]] = {}
    workers: dict[tuple[str, str], int] = {}
    for part in parts:
        if part.worker is not None:
            levels = {**part.factors, **(part.conditions.get("trial") or {})}
            workers[part.trial, part.phase] = int(levels.get("workers", 1))
            present.setdefault((part.trial, part.phase), set()).add(part.worker)
    return {key: sorted({*range(workers[key])} - numbers) for key, numbers in present.items()}


def mixed(parts: Sequence[Part]) -> Iterator[StudyWarning]:
    """Warnings about conditions that should be equal in all trials and differ.

    Hosts are compared per role and `node_class`: stores, clients and node classes may well have
    different hosts.
    """
    versions: dict[str, set[str]] = {}
    systems: dict[str, set[str]] = {}
    for part in parts:
        for name, version in part_versions(part):
            versions.setdefault(name, set()).add(version)
        if part.phase != SESSION or part.node is not None:
            level = part.factors.get("node_class")
            nodes = f"nodes of class {level}" if level else "nodes"
            jobs = "trials" if part.node is None else nodes
            systems.setdefault(jobs, set()).add(host_of(part.conditions)[1])
    for name, different in sorted(versions.items()):
        if len(different) > 1:
            text = f"{name} differs between trials: {', '.join(sorted(different))}"
            remedy = "delete the trials of the older version and measure them again"
            yield StudyWarning("mixed_versions", "", text, remedy)
    for jobs, kinds in sorted(systems.items()):
        if len(kinds) > 1:
            text = f"{jobs} ran on different kinds of hosts: {'; '.join(sorted(kinds))}"
            remedy = "compare engines only within one kind; ask the scheduler for one node type"
            yield StudyWarning("mixed_hosts", "", text, remedy)


def part_versions(part: Part) -> list[tuple[str, str]]:
    """(component, version) pairs of a part; a server is named after its engine, not its node."""
    server = f"server of {title(str(part.factors.get('engine', '')))}"
    return [
        (server if str(name).partition(".")[0] == "server" else str(name), str(version))
        for name, version in (part.conditions.get("versions") or {}).items()
    ]


def host_of(conditions: Mapping[str, Any]) -> tuple[str, str]:
    """(host name, its hardware in words) from the conditions of a part."""
    host = conditions.get("host")
    if not isinstance(host, Mapping):
        return str(host or "unknown"), "unknown"
    memory = host.get("memory_bytes")
    shown = f"{round(float(memory) / 2**30)} GiB" if memory else "memory unknown"
    kind = f"{host.get('processor', 'unknown')}, {host.get('cpus', '?')} CPUs, {shown}"
    if instance := instance_of(conditions):
        kind += f", {instance.get('type', 'instance of unknown type')}"
    return str(host.get("name", "unknown")), kind


def instance_of(conditions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The EC2 instance of a part's host (``metrics.ec2_instance``); empty on other hosts."""
    host = conditions.get("host")
    instance = host.get("instance") if isinstance(host, Mapping) else None
    return instance if isinstance(instance, Mapping) else {}


def refused_by_workers(parts: Sequence[Part]) -> list[Quarantined]:
    """Input files that a write worker found to be bad after the manifest had accepted them."""
    files = {
        Quarantined(
            str(file.get("path", "unknown")),
            str(file.get("line") or ""),
            str(file.get("offset") or ""),
            str(file.get("reason", "unknown")),
        )
        for part in parts
        for file in part.conditions.get("quarantined") or ()
    }
    return sorted(files, key=lambda file: file.path)


def job_warnings(parts: Sequence[Part]) -> Iterator[StudyWarning]:
    """Warnings that jobs left in their conditions; texts that differ only in numbers are merged."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for part in parts:
        for warning in part.conditions.get("warnings") or ():
            code = "session" if part.phase == SESSION else "worker"
            alike.setdefault((code, re.sub(r"\d+", "#", warning)), []).append((warning, part.trial))
    of_session = {kind for code, kind in alike if code == "session"}
    for (code, kind), found in alike.items():
        # Warnings of the bootstrap are in the parts of the workers and of the session. Nodes that
        # share a host need no warning: the hosts of servers are shown.
        if kind.startswith(_SHARED) or (code == "worker" and kind in of_session):
            continue
        message, trial = min(found)
        if (number := len({trial for _, trial in found})) > 1:
            same = len({message for message, _ in found}) == 1
            message = f"in {number} trials{'' if same else ', such as'}: {message}"
        yield StudyWarning(code, trial if number == 1 else "", message, "")
