"""What pbsnodes says of hosts: pure functions.

Sources: recorded answers of OpenPBS; its manual pages pbsnodes(8B) and pbs_node_attributes(7B);
Torque's pbsnodes(8), whose hosts have ``np`` CPUs and ``physmem`` in their ``status``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snakemake_executor_plugin_pbs.sizes import megabytes

#: States in which a host cannot be reached. One that is `offline` runs its jobs to their end.
DOWN = frozenset({"down", "unreachable", "state-unknown", "stale"})
#: States in which a host gets no jobs.
CLOSED = DOWN | {"offline", "provisioning", "resv-exclusive", "job-exclusive"}


@dataclass(frozen=True, slots=True)
class Host:
    """A host; None where the server does not say. Memory in MB.

    `reserved` is whether only some jobs may run there (a queue's own host), `has` are its
    resources as texts.
    """

    name: str
    cpus: int | None
    memory: int | None
    assigned_cpus: int = 0
    up: bool = True
    reserved: bool = False
    has: Mapping[str, str] = field(default_factory=dict)

    @property
    def free_cpus(self) -> int:
        return (self.cpus or 0) - self.assigned_cpus


def hosts_of(text: str) -> list[Host]:
    """Hosts from ``pbsnodes -a -F json`` or from the text of ``pbsnodes -a``; those of several
    vnodes are added up. ValueError where it is neither."""
    if text.lstrip().startswith("{"):
        nodes = json.loads(text, strict=False).get("nodes", {})
    else:
        nodes = _nodes_of_text(text)
    hosts: dict[str, Host] = {}
    for name, node in nodes.items():
        host = _host(name, node)
        hosts[host.name] = _together(hosts[host.name], host) if host.name in hosts else host
    return list(hosts.values())


def _nodes_of_text(text: str) -> dict[str, dict[str, Any]]:
    nodes: dict[str, dict[str, Any]] = {}
    node: dict[str, Any] | None = None
    for line in text.splitlines():
        if line and not line[0].isspace():
            node = nodes.setdefault(line.strip(), {})
            continue
        name, equals, value = line.strip().partition(" = ")
        if not equals:
            continue
        if node is None:
            raise ValueError(f"pbsnodes: {line!r} belongs to no host")
        group, dot, key = name.partition(".")
        if dot:
            node.setdefault(group, {})[key] = value
        else:
            node[name] = value
    return nodes


def _host(name: str, node: Mapping[str, Any]) -> Host:
    has = {key: str(value) for key, value in node.get("resources_available", {}).items()}
    cpus = has.get("ncpus", str(node.get("np", "")))
    memory = has.get("mem")
    if memory is None:
        found = re.search(r"\bphysmem=(\w+)", str(node.get("status", "")))
        memory = found[1] if found else ""
    assigned = str(node.get("resources_assigned", {}).get("ncpus", "0"))
    states = set(re.split(r"[,\s]+", str(node.get("state", "")).lower()))
    return Host(
        has.get("host", name),
        int(cpus) if cpus.isdigit() else None,
        megabytes(memory),
        int(assigned) if assigned.isdigit() else 0,
        up=not states & CLOSED,
        reserved="queue" in node or "Qlist" in has,
        has=has,
    )


def _together(one: Host, other: Host) -> Host:
    """One host of two vnodes."""

    def total(first: int | None, second: int | None) -> int | None:
        return None if first is None or second is None else first + second

    return Host(
        one.name,
        total(one.cpus, other.cpus),
        total(one.memory, other.memory),
        one.assigned_cpus + other.assigned_cpus,
        up=one.up and other.up,
        reserved=one.reserved or other.reserved,
        has={**other.has, **one.has},
    )


def matches(host: Host, select: str | None) -> bool:
    """Whether the host has what the words of a chunk ask for, as ``host_type=bigmem:ngpus=1``."""
    for word in (select or "").split(":"):
        key, equals, wanted = word.partition("=")
        if not equals or key in {"mpiprocs", "ompthreads"}:
            continue
        own = host.has.get(key, "")
        if wanted.isdigit():
            if int(wanted) > (int(own) if own.isdigit() else 0):
                return False
        elif wanted not in own.split(","):
            return False
    return True


def down_of(text: str) -> dict[str, str]:
    """Hosts that cannot be reached and in which state they are, from ``pbsnodes -l``:
    lines of a name, its states with commas between them, and a comment."""
    down = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and not line[0].isspace() and set(words[1].lower().split(",")) & DOWN:
            down[words[0]] = words[1]
    return down


def names_of(exec_host: str) -> tuple[str, ...]:
    """The hosts of a job from its `exec_host`, each once: ``n1/0*4+n2/0*4``, in Torque
    ``n1/0-3+n2/0``. Names come without their domain where PBS cuts it off."""
    names: Iterable[str] = (part.partition("/")[0].strip() for part in exec_host.split("+"))
    return tuple(dict.fromkeys(name for name in names if name))


def short(host: str) -> str:
    """A host's name without its domain: PBS cuts it off in some places."""
    return host.partition(".")[0]
