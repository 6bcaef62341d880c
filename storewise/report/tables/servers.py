"""What the page says of servers: how work spread over them, and their sessions."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storewise.analysis.common.engines import guarded, title
from storewise.analysis.common.frames import grouped, missing, rows_of
from storewise.analysis.common.text import all_of, binary, some_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import with_trials
from storewise.report.tables import cells
from storewise.report.tables.cells import Table

#: Hosts and addresses that a sentence names.
_HOSTS = 4
#: Warnings that are about servers.
_CODES = ("session", "shared_host", "missing_node", "missing_session")


@dataclass(frozen=True, slots=True)
class Sessions:
    """The section about sessions; `facts` are terms with their values, one per engine."""

    tables: Sequence[Table]
    facts: Sequence[tuple[str, Sequence[str]]]
    warnings: Sequence[StudyWarning]


def section(tables: Tables) -> Sessions | None:
    """All about sessions; None where the study has no servers."""
    warnings = [w for w in tables.warnings if w.code in _CODES]
    if tables.nodes.empty and not warnings:
        return None
    nodes = with_trials(tables.nodes, tables.trials[["trial", "engine"]])
    return Sessions(
        [t for t in (_kept_table(nodes),) if t.rows],
        [
            (title(str(key[0])), _facts(str(key[0]), g, tables))
            for key, g in grouped(nodes, ["engine"])
        ],
        warnings,
    )


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _facts(engine: str, nodes: pd.DataFrame, tables: Tables) -> list[str]:
    hosts = some_of(sorted(set(nodes["host"].dropna())), _HOSTS)
    local = {_loopback(str(address)) for address in nodes["address"].dropna()}
    ways = all_of([way for way, on in (("loopback", True), ("the network", False)) if on in local])
    facts = [
        f"servers: {all_of(sorted(set(nodes['version'].dropna())))}",
        f"on {hosts or 'unknown hosts'}, reached over {ways or 'an unknown way'}",
    ]
    clients = sorted(
        {
            f"{name.removeprefix(f'{engine}.')} {version}"
            for part in tables.results.parts
            if part.worker is not None
            for name, version in (part.conditions.get("versions") or {}).items()
            if str(name).startswith(f"{engine}.")
        }
    )
    if clients:
        facts.append(f"clients: {', '.join(clients)}")
    guards: dict[str, set[str]] = {}
    further: dict[str, set[str]] = {}
    for row in rows_of(nodes):
        if not missing(row.guard):
            role = str(row.role) if not missing(row.role) else str(row.node)
            guards.setdefault(str(row.guard), set()).add(role)
            if not missing(row.ports):
                further.setdefault(str(row.ports), set()).add(role)
    facts += [f"port of {all_of(sorted(roles))}: {guard}" for guard, roles in guards.items()]
    facts += [
        f"further ports of {all_of(sorted(roles))}: {ports}" for ports, roles in further.items()
    ]
    beside = {
        (str(role), str(guard))
        for part in tables.results.parts
        if (part.conditions.get("trial") or {}).get("engine") == engine
        for role, guard in (part.conditions.get("beside") or {}).items()
    }
    facts += [
        f"port of {role}, on loopback of each worker host: {guard}"
        for role, guard in sorted(beside)
    ]
    return facts + _open_ports(engine, nodes)


def _open_ports(engine: str, nodes: pd.DataFrame) -> list[str]:
    """Ports that nothing guards and what whoever reaches them could do: one sentence for those off
    loopback, one for the others."""
    unknown = "" if guarded(engine) else "client port: read and write"
    roles: dict[tuple[bool, str], set[str]] = {}
    outside: set[str] = set()
    for row in rows_of(nodes):
        ports = unknown if missing(row.open_ports) else str(row.open_ports)
        address = "" if missing(row.address) else str(row.address)
        off = bool(ports) and bool(address) and not _loopback(address)
        outside |= {address} if off else set()
        for port in filter(None, ports.split("; ")):
            roles.setdefault((off, port), set()).add(str(row.role))
    sentences = []
    for off, words in (
        (
            True,
            f"OPEN PORTS: {title(engine)} listened on {some_of(sorted(outside), _HOSTS)}, and "
            "nothing guarded these ports against anybody who reached that network",
        ),
        (
            False,
            f"nothing guards these ports of {title(engine)}; they listened on loopback only, where "
            "any user of the same host could do that",
        ),
    ):
        listed = [
            f"{all_of(sorted(names))}: {port}"
            for (where, port), names in roles.items()
            if where is off
        ]
        if listed:
            sentences.append(f"{words} ({'; '.join(listed)})")
    return sentences


def _kept_table(nodes: pd.DataFrame) -> Table:
    return cells.table_of(
        "kept",
        "Data directories that were kept; remove them by hand",
        nodes[nodes["kept"].notna()],
        "nodes",
        [
            *cells.texts("trial", "node", "host", kept="directory"),
            *cells.figures(binary, node_bytes="size"),
        ],
    )
