"""The files of a study's trials: which there are, which are missing, what they say of themselves.

A trial's directory has one part per phase and worker, one for the verification, and where its
store was a server one per node of its session and one of the session itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from storewise.analysis.common.engines import title
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.inputs import Quarantined
from storewise.metrics.pack import PACK

_PART = re.compile(r"(?P<phase>[a-z][a-z0-9_]*)\.(?P<worker>\d+)\.parquet")
_NODE = re.compile(r"node\.(?P<node>[A-Za-z0-9_-]+)\.parquet")
_LOG = re.compile(r"(?P<phase>[a-z][a-z0-9_]*)\.(?P<worker>\d+)\.hlog")
#: Files of a trial that hold no samples: the write workers' lists of what they wrote.
_NO_PARTS = ("written",)
#: How the warning of a session begins whose nodes share a host.
_SHARED = "nodes share a host"
VERIFY = "verify"
#: Phase of what nodes measure: a session spans all phases of its trial.
SESSION = "session"


# A named tuple, as HdrLog: processes that read hand back a hundred thousand of them, and to pickle
# a dataclass takes five times as long.
class Part(NamedTuple):
    """One result file; `worker` is None for all but those of workers, `node` for all but those of
    nodes (a session's own part has neither).

    Parts of one trial share what their conditions have in common: these are not to be changed.
    """

    directory: Path
    name: str
    trial: str
    phase: str
    worker: int | None
    conditions: Mapping[str, Any]
    node: str | None = None

    @property
    def path(self) -> Path:
        return self.directory / self.name


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
    """The result files of one trial, by their names: nothing of them has been read.

    `part_bytes` is about the size of all parts, `packed` says whether there is a pack of them.
    """

    directory: Path
    parts: Sequence[str]
    logs: Sequence[HdrLog]
    part_bytes: int
    packed: bool = False

    @property
    def trial(self) -> str:
        return self.directory.name


def trial_files(directory: Path) -> TrialFiles:
    """What lies in a trial's directory, in the order of the names."""
    with os.scandir(directory) as entries:
        found = {entry.name: entry for entry in entries}
    packed = PACK in found
    parts, logs, size = [], [], 0
    if packed:
        # Of packed samples a byte holds about four times as many.
        size = 4 * found[PACK].stat().st_size
    for name in sorted(found):
        if log := _LOG.fullmatch(name):
            logs.append(HdrLog(directory, name, directory.name, log["phase"], int(log["worker"])))
        elif place_of(name) is not None:
            parts.append(name)
            if not packed:
                size += found[name].stat().st_size
    return TrialFiles(directory, parts, logs, size, packed)


def place_of(name: str) -> tuple[str, int | None, str | None] | None:
    """Phase, worker and node of a part by its file's name; None for what is no part."""
    if name in (f"{VERIFY}.parquet", f"{SESSION}.parquet"):
        return name.removesuffix(".parquet"), None, None
    if node := _NODE.fullmatch(name):
        return SESSION, None, node["node"]
    part = _PART.fullmatch(name)
    if part is None or part["phase"] in _NO_PARTS:
        return None
    return part["phase"], int(part["worker"]), None


def workers_of(part: Part) -> int:
    """How many workers the part's trial has."""
    trial = part.conditions.get("trial")
    if isinstance(trial, Mapping) and "workers" in trial:
        return int(trial["workers"])
    return int((part.conditions.get("factors") or {}).get("workers", 1))


def threads_of(part: Part) -> int:
    """Client threads of each process in the part's first step (a load has only one)."""
    steps = part.conditions.get("steps") or [{}]
    factors = part.conditions.get("factors") or {}
    return int(steps[0].get("threads", factors.get("threads", 1)))


def processes_of(part: Part) -> int:
    """Client processes of each worker of the part's trial."""
    return int((part.conditions.get("factors") or {}).get("processes", 1))


def missing_parts(parts: Sequence[Part], logs: Sequence[HdrLog]) -> list[StudyWarning]:
    """Phases of which a worker's file is missing; their sums would be too low."""
    found: list[StudyWarning] = []
    logged = {(log.trial, log.phase, log.worker) for log in logs}
    have: dict[tuple[str, str], set[int]] = {}
    wanted: dict[tuple[str, str], int] = {}
    for part in parts:
        if part.worker is None:
            continue
        key = (part.trial, part.phase)
        have.setdefault(key, set()).add(part.worker)
        wanted[key] = max(workers_of(part), wanted.get(key, 0))
        if (*key, part.worker) not in logged:
            found.append(
                StudyWarning(
                    "missing_log",
                    part.trial,
                    f"phase {part.phase}: worker {part.worker} has no Hdr log; "
                    "its latencies are left out",
                    "run the study again: it measures what is missing",
                )
            )
    for (trial, phase), workers in have.items():
        gone = [k for k in range(wanted[trial, phase]) if k not in workers]
        if gone:
            found.append(
                StudyWarning(
                    "missing_worker",
                    trial,
                    f"phase {phase}: no result of worker {', '.join(map(str, gone))}; "
                    "the phase is left out of all figures",
                    "run the study again: it measures what is missing",
                )
            )
    verified = {p.trial for p in parts if p.phase == VERIFY}
    return found + [
        StudyWarning(
            "not_verified",
            trial,
            "its stored documents were not verified",
            "run the study again: it verifies what is missing",
        )
        for trial in sorted({p.trial for p in parts} - verified)
    ]


def whole_phases(parts: Sequence[Part]) -> set[tuple[str, str]]:
    """(trial, phase) of which every worker's part is there."""
    have: dict[tuple[str, str], set[int]] = {}
    for part in parts:
        if part.worker is not None:
            have.setdefault((part.trial, part.phase), set()).add(part.worker)
    wanted = {(p.trial, p.phase): workers_of(p) for p in parts if p.worker is not None}
    return {key for key, workers in have.items() if workers >= set(range(wanted[key]))}


def mixed(parts: Sequence[Part]) -> list[StudyWarning]:
    """Conditions that should be the same in all trials and are not.

    Hosts of nodes are compared among themselves: a cluster may well have others for its stores
    than for its clients, and a study with the factor `node_class` others for each of its levels.
    """
    found: list[StudyWarning] = []
    versions: dict[str, set[str]] = {}
    systems: dict[str, set[str]] = {}
    seen: set[tuple[object, ...]] = set()
    for part in parts:
        # Parts share what their conditions have in common: a hundred thousand have few versions.
        told = part.conditions
        shared = (id(told.get("versions")), id(told.get("host")), id(told.get("factors")))
        key = (*shared, part.node is None, part.phase == SESSION)
        if key in seen:
            continue
        seen.add(key)
        for name, version in part_versions(part):
            versions.setdefault(name, set()).add(version)
        if part.phase == SESSION and part.node is None:
            continue
        who = "trials" if part.node is None else _nodes_alike(part)
        systems.setdefault(who, set()).add(host_of(part.conditions)[1])
    for name, different in sorted(versions.items()):
        if len(different) > 1:
            found.append(
                StudyWarning(
                    "mixed_versions",
                    "",
                    f"{name} differs between trials: {', '.join(sorted(different))}",
                    "delete the trials of the older version and measure them again",
                )
            )
    for who, kinds in sorted(systems.items()):
        if len(kinds) > 1:
            found.append(
                StudyWarning(
                    "mixed_hosts",
                    "",
                    f"{who} ran on different kinds of hosts: {'; '.join(sorted(kinds))}",
                    "compare engines only within one kind; ask the scheduler for one node type",
                )
            )
    return found


def _nodes_alike(part: Part) -> str:
    """What nodes whose hosts should be of one kind are called."""
    level = (part.conditions.get("factors") or {}).get("node_class")
    return f"nodes of class {level}" if level else "nodes"


def part_versions(part: Part) -> list[tuple[str, str]]:
    """(what, version) of a part; a server is called after its engine, whichever node it was."""
    engine = str((part.conditions.get("factors") or {}).get("engine", ""))
    found = []
    for name, version in (part.conditions.get("versions") or {}).items():
        server = name == "server" or str(name).startswith("server.")
        found.append((f"server of {title(engine)}" if server else str(name), str(version)))
    return found


def host_of(conditions: Mapping[str, Any]) -> tuple[str, str]:
    """(host name, what matters of it for speed) as the conditions of a part tell them."""
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
    """The EC2 instance that a part's host was (``metrics.instance.Instance``); empty elsewhere."""
    host = conditions.get("host")
    found = host.get("instance") if isinstance(host, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def refused_by_workers(parts: Sequence[Part]) -> list[Quarantined]:
    """Input files that passed the manifest and that a write worker found to be bad."""
    found = {
        Quarantined(
            str(file.get("path", "unknown")),
            str(file.get("line") or ""),
            str(file.get("offset") or ""),
            str(file.get("reason", "unknown")),
        )
        for part in parts
        for file in part.conditions.get("quarantined") or ()
    }
    return sorted(found, key=lambda one: one.path)


def own_warnings(parts: Sequence[Part]) -> list[StudyWarning]:
    """Warnings that jobs left in their conditions; one that several trials share is one finding."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for part in parts:
        for text in part.conditions.get("warnings") or ():
            code = "worker" if part.phase != SESSION else "session"
            if isinstance(text, Mapping):
                message, remedy = str(text.get("message", text)), str(text.get("remedy", ""))
                code = str(text.get("code", code))
            else:
                message, remedy = str(text), ""
            found.setdefault((message, remedy, code), set()).add(part.trial)
    # What forming found is in the parts of the workers and of the session, but for what
    # `sessions` finds itself over all trials.
    found = {key: trials for key, trials in found.items() if not key[0].startswith(_SHARED)}
    of_session = {message for message, _, code in found if code == "session"}
    warnings = []
    for (message, remedy, code), trials in found.items():
        if code == "worker" and message in of_session:
            continue
        if len(trials) > 1:
            warnings.append(StudyWarning(code, "", f"in {len(trials)} trials: {message}", remedy))
        else:
            warnings.append(StudyWarning(code, min(trials), message, remedy))
    return warnings
