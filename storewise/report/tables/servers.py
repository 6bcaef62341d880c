"""What the page says of servers: how work spread over them, and their sessions."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storewise.analysis.common.engines import guarded, title, varying_factors
from storewise.analysis.common.frames import grouped, missing, rows_of
from storewise.analysis.common.text import all_of, binary, number, setting, some_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import Mark, mark_of, with_trials
from storewise.report.tables import cells
from storewise.report.tables.cells import Cell, Row, Table
from storewise.study.factors import OF_SERVERS

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


def balance_table(tables: Tables) -> Table:
    """How operations spread over the owners of the documents, where there are several nodes."""
    factors = [f for f in tables.results.factors if f != "engine"]
    caption = "How work spread over the nodes that own the documents"
    balance = tables.balance[tables.balance["trial"].isin(set(tables.nodes["trial"]))]
    if balance.empty:
        return Table("balance", caption, [], [])
    several = balance.groupby(["trial", "phase", "step", "operation"])["node"].transform("nunique")
    balance = with_trials(balance[several > 1], tables.trials[["trial", "engine", *factors]])
    # `node` here is the owner's name; the factor `nodes` is among the keys where it varies.
    places = ["phase", "engine", *varying_factors(balance, factors), "operation"]
    rows: list[Row] = []
    origins: list[Mark] = []
    for place, groups in grouped(balance, places):
        nodes = list(grouped(groups, ["node"]))
        for (node,), group in nodes:
            row = {**dict(zip(places, place, strict=True)), "node": node}
            sums = {"operations": group["operations"].sum(), "share": group["share"].mean()}
            rows.append({**row, **sums, "even": 1 / len(nodes)})
            origins.append(mark_of("balance", group, **row))
    columns = [
        *cells.levels([*places, "node"]),
        *cells.figures(cells.whole, "operations"),
        *cells.figures("{:.1%}".format, "share", even="share if even"),
    ]
    return Table.of("balance", caption, rows, columns, origins)


def section(tables: Tables) -> Sessions | None:
    """All about sessions; None where the study has no servers."""
    warnings = [w for w in tables.warnings if w.code in _CODES]
    if tables.nodes.empty and not warnings:
        return None
    factors = [f for f in OF_SERVERS if f in tables.results.factors]
    of_trials = tables.trials[["trial", "engine", *factors]]
    sessions = with_trials(tables.sessions, of_trials, suffixes=("_count", ""))
    nodes = with_trials(tables.nodes, tables.trials[["trial", "engine"]])
    return Sessions(
        [t for t in (_times_table(sessions, nodes, factors), _kept_table(nodes)) if t.rows],
        [
            (title(str(key[0])), _facts(str(key[0]), g, tables))
            for key, g in grouped(nodes, ["engine"])
        ],
        warnings,
    )


_TIMES = {
    "queue_time": "queue, s",
    "ready_time": "start, s",
    "form_time": "forming, s",
    "formed_time": "open to formed, s",
    "close_time": "closing, s",
}


def _times_table(sessions: pd.DataFrame, nodes: pd.DataFrame, factors: Sequence[str]) -> Table:
    """One row per engine and topology: its shape and the median of each time with its range."""
    varying = varying_factors(sessions, factors)
    shown = [f for f in factors if f == "nodes" or f in varying]
    rows: list[Sequence[Cell]] = []
    origins: list[Mark] = []
    for key, group in grouped(sessions, ["engine", *factors]):
        first = dict(zip(("engine", *factors), key, strict=True))
        one = nodes[nodes["trial"] == group["trial"].iloc[0]]
        roles = one["role"].dropna().value_counts().sort_index()
        shape = setting(first, shown)
        if set(roles.index) - {"data"}:
            shape += f" ({', '.join(f'{n} {role}' for role, n in roles.items())})"
        line = [cells.level_cell("engine", first["engine"]), cells.text_cell(shape)]
        line += [cells.number_cell(len(group), str), *(_median(group[time]) for time in _TIMES)]
        rows.append(line)
        origins.append(mark_of("sessions", group, **first))
    heads = ["store", "cluster", "sessions", *_TIMES.values()]
    caption = "Sessions: median times (range) in seconds"
    return Table("session-times", caption, heads, rows, origins)


def _median(values: pd.Series) -> Cell:
    known = values.dropna().astype(float)
    spread = f" ({number(known.min())}–{number(known.max())})" if len(known) > 1 else ""
    return cells.number_cell(known.median(), lambda middle: number(middle) + spread)


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
