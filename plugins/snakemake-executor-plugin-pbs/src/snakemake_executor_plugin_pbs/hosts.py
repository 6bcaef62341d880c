"""What ``pbsnodes`` prints of hosts, and PBS's sizes: pure functions.

Sources: recorded answers of OpenPBS; its manual pages pbsnodes(8B), pbs_node_attributes(7B) and
pbs_resources(7B).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: States in which a host cannot be reached. One that is `offline` runs its jobs to their end.
DOWN = frozenset({"down", "unreachable", "state-unknown", "stale"})
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_NODE = re.compile(r"^(\S+)\n((?:[ \t].*\n?)*)", re.MULTILINE)
_HAS = re.compile(r"^ +resources_available\.(\w+) = (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Host:
    """A host; memory in MB. None where the server does not say."""

    name: str
    cpus: int | None
    memory: int | None


def hosts_of(text: str) -> list[Host]:
    """Hosts from ``pbsnodes -a``; the vnodes of a host are added up."""
    hosts: dict[str, Host] = {}
    for vnode, body in _NODE.findall(text):
        has = dict(_HAS.findall(body))
        name = has.get("host", vnode)
        cpus, memory = has.get("ncpus", ""), megabytes(has.get("mem", ""))
        other = hosts.get(name, Host(name, 0, 0))
        hosts[name] = Host(
            name,
            None if other.cpus is None or not cpus.isdigit() else other.cpus + int(cpus),
            None if other.memory is None or memory is None else other.memory + memory,
        )
    return list(hosts.values())


def down_of(text: str) -> dict[str, str]:
    """Hosts that cannot be reached and their states, from ``pbsnodes -l``: lines of a name, its
    states with commas between them, and a comment."""
    down = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and not line[0].isspace() and set(words[1].lower().split(",")) & DOWN:
            down[words[0]] = words[1]
    return down


def names_of(exec_host: str) -> tuple[str, ...]:
    """The hosts of a job from its `exec_host` (``n1/0*4+n2/0*4``), each once."""
    names = (part.partition("/")[0].strip() for part in exec_host.split("+"))
    return tuple(dict.fromkeys(name for name in names if name))


def short(host: str) -> str:
    """A host's name without its domain: PBS cuts it off in some places."""
    return host.partition(".")[0]


def megabytes(text: str) -> int | None:
    """A size (``263770364kb``; ``w`` are words of 8 bytes) in MB, None where it is none."""
    match = re.fullmatch(r"(\d+)([kmgtp]?)([bw]?)", text.strip().lower())
    if match is None:
        return None
    scale = _UNITS[match[2]] * (8 if match[3] == "w" else 1)
    return int(match[1]) * scale // 2**20


def walltime(minutes: int) -> str:
    """``HH:MM:SS``"""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"
