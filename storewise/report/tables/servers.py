"""What the page says of servers: their load, how work spread over them, and their sessions."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import guarded, title, varying_factors
from storewise.analysis.common.frames import grouped, missing, records, rows_of
from storewise.analysis.common.text import all_of, binary, number, setting
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION
from storewise.analysis.model.tables import Tables
from storewise.report.data.rows import Mark, mark_of, marks, with_trials
from storewise.report.tables.cells import Cell, Table, level_cell, number_cell, text_cell
from storewise.study.factors import OF_SERVERS

#: Warnings that are about servers.
_CODES = ("session", "shared_host", "missing_node", "missing_session")
#: Metric, heading, how it is shown, whether it is the host's.
_LOAD = (
    ("store_cpu", "server, cores", number, False),
    ("store_rss", "memory of the server", binary, False),
    ("store_bytes", "data directory", binary, False),
    ("cpu_user", "host's CPU user, %", number, True),
    ("cpu_system", "host's CPU system, %", number, True),
    ("cpu_iowait", "host's CPU iowait, %", number, True),
    ("memory_used", "host's memory used", binary, True),
    ("disk_write", "host's disk write per s", binary, True),
    ("disk_read", "host's disk read per s", binary, True),
    ("disk_busy", "host's disk busy, %", number, True),
    ("network_received", "host received per s", binary, True),
    ("network_sent", "host sent per s", binary, True),
)


@dataclass(frozen=True, slots=True)
class Sessions:
    """The section about sessions; `facts` are terms with their values, one per engine."""

    tables: Sequence[Table]
    facts: Sequence[tuple[str, Sequence[str]]]
    warnings: Sequence[StudyWarning]


def load_tables(tables: Tables) -> list[Table]:
    """Tables of nodes where the study has any."""
    return [t for t in (load_table(tables), balance_table(tables)) if t.rows]


def load_table(tables: Tables) -> Table:
    """Load of each node and of its host: the mean over a phase, the maximum in brackets."""
    host = tables.host[tables.host["phase"] != SESSION]
    keys = ["trial", "phase", "step", "host"]
    by_node = host[host["node"] != ""]
    by_host = host[(host["node"] == "") & host["host"].isin(by_node["host"].unique())]
    of_hosts = {(*(row[k] for k in keys), row["metric"]): row for row in records(by_host)}
    of_nodes = list(grouped(by_node, [*keys, "node"]))
    rows: list[list[Cell]] = []
    origins: list[Mark] = []
    for key, group in of_nodes:
        origins.append(mark_of("host", group, trial=key[0], phase=key[1]))
        own = {row["metric"]: row for row in records(group)}
        cells = [text_cell(key[0]), text_cell(key[1]), text_cell(key[4]), text_cell(key[3])]
        for metric, _, show, of_host in _LOAD:
            row = of_hosts.get((*key[:4], metric)) if of_host else own.get(metric)
            if row is None:
                cells.append(number_cell(math.nan))
            else:
                cells.append(number_cell(row["mean"], f"{show(row['mean'])} ({show(row['max'])})"))
        rows.append(cells)
    heads = ["trial", "phase", "node", "host", *(head for _, head, _, _ in _LOAD)]
    caption = "Load of servers and their hosts: mean (maximum)"
    return Table("node-load", caption, heads, rows, origins)


def balance_table(tables: Tables) -> Table:
    """How operations spread over the owners of the documents, where there are several nodes."""
    factors = [f for f in tables.results.factors if f != "engine"]
    servers = set(tables.nodes["trial"])
    found = tables.balance[tables.balance["trial"].isin(servers)]
    caption = "How work spread over the nodes that own the documents"
    if found.empty:
        return Table("balance", caption, [], [])
    several = found.groupby(["trial", "phase", "step", "operation"])["node"].transform("nunique")
    found = with_trials(found[several > 1], tables.trials[["trial", "engine", *factors]])
    names = varying_factors(found, factors)
    keys = ["phase", "engine", *names, "operation", "node"]
    rows = []
    origins = []
    for key, group in grouped(found, keys):
        row = dict(zip(keys, key, strict=True))
        # `node` here is the owner's name; the factor `nodes` is among the keys where it varies.
        origins.append(mark_of("balance", group, **row))
        share = group["operations"].sum()
        rows.append((row, share, group["share"].mean()))
    counts: dict[tuple[object, ...], int] = {}
    for row, _, _ in rows:
        place = tuple(row[k] for k in keys[:-1])
        counts[place] = counts.get(place, 0) + 1
    lines = [
        [
            *(level_cell(k, row[k]) for k in keys),
            number_cell(operations, f"{operations:,.0f}"),
            number_cell(share, f"{share:.1%}"),
            number_cell(even := 1 / counts[tuple(row[k] for k in keys[:-1])], f"{even:.1%}"),
        ]
        for row, operations, share in rows
    ]
    heads = [*keys, "operations", "share", "share if even"]
    return Table("balance", caption, heads, lines, origins)


def section(tables: Tables) -> Sessions | None:
    """All about sessions; None where the study has no servers."""
    warnings = [w for w in tables.warnings if w.code in _CODES]
    if tables.nodes.empty and not warnings:
        return None
    factors = [f for f in OF_SERVERS if f in tables.results.factors]
    of_trials = tables.trials[["trial", "engine", *factors]]
    found = with_trials(tables.sessions, of_trials, suffixes=("_count", ""))
    nodes = with_trials(tables.nodes, tables.trials[["trial", "engine"]])
    made = [_times_table(found, nodes, factors), _kept_table(nodes)]
    return Sessions(
        [t for t in made if t.rows],
        [
            (title(str(key[0])), _facts(str(key[0]), g, tables))
            for key, g in grouped(nodes, ["engine"])
        ],
        warnings,
    )


_TIMES = (
    ("queue_time", "queue, s"),
    ("ready_time", "start, s"),
    ("form_time", "forming, s"),
    ("formed_time", "open to formed, s"),
    ("close_time", "closing, s"),
)


def _times_table(found: pd.DataFrame, nodes: pd.DataFrame, factors: Sequence[str]) -> Table:
    """One row per engine and topology: its shape and the median of each time with its range."""
    varying = varying_factors(found, factors)
    shown = [f for f in factors if f == "nodes" or f in varying]
    rows = []
    origins = []
    for _, group in grouped(found, ["engine", *factors]):
        first = records(group)[0]
        origins.append(mark_of("sessions", group, **{n: first[n] for n in ("engine", *factors)}))
        mine = nodes[nodes["trial"].isin(group["trial"])]
        roles = mine[mine["trial"] == first["trial"]]["role"].dropna().value_counts().sort_index()
        shape = setting(first, shown)
        if set(roles.index) - {"data"}:
            shape += f" ({', '.join(f'{n} {role}' for role, n in roles.items())})"
        rows.append(
            [
                text_cell(title(str(first["engine"]))),
                text_cell(shape),
                number_cell(len(group), str(len(group))),
                *(_median(group[metric]) for metric, _ in _TIMES),
            ]
        )
    heads = ["store", "cluster", "sessions"]
    heads += [head for _, head in _TIMES]
    caption = "Sessions: median times (range) in seconds"
    return Table("session-times", caption, heads, rows, origins)


def _some(names: Sequence[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _median(values: pd.Series) -> Cell:
    known = values.dropna().astype(float)
    if known.empty:
        return number_cell(None)
    middle, low, high = float(known.median()), float(known.min()), float(known.max())
    text = number(middle)
    if len(known) > 1:
        text += f" ({number(low)}–{number(high)})"
    return number_cell(middle, text)


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _reach(address: str) -> str:
    return "loopback" if _loopback(str(address)) else "the network"


def _facts(engine: str, nodes: pd.DataFrame, tables: Tables) -> list[str]:
    hosts = _some(sorted(set(nodes["host"].dropna())))
    ways = all_of(sorted({_reach(address) for address in nodes["address"].dropna()}))
    found = [
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
        found.append(f"clients: {', '.join(clients)}")
    guards: dict[str, set[str]] = {}
    further: dict[str, set[str]] = {}
    for row in rows_of(nodes):
        if not missing(row.guard):
            role = str(row.role) if not missing(row.role) else str(row.node)
            guards.setdefault(str(row.guard), set()).add(role)
            if not missing(row.ports):
                further.setdefault(str(row.ports), set()).add(role)
    found += [f"port of {all_of(sorted(roles))}: {guard}" for guard, roles in guards.items()]
    found += [
        f"further ports of {all_of(sorted(roles))}: {ports}" for ports, roles in further.items()
    ]
    beside = {
        (str(role), str(guard))
        for part in tables.results.parts
        if (part.conditions.get("trial") or {}).get("engine") == engine
        for role, guard in (part.conditions.get("beside") or {}).items()
    }
    found += [
        f"port of {role}, on loopback of each worker host: {guard}"
        for role, guard in sorted(beside)
    ]
    return found + _open_ports(engine, nodes)


def _open_ports(engine: str, nodes: pd.DataFrame) -> list[str]:
    """Ports that nothing guards and what whoever reaches them could do: one sentence for those off
    loopback, one for the others."""
    unknown = "" if guarded(engine) else "client port: read and write"
    roles: dict[tuple[bool, str], set[str]] = {}
    outside: set[str] = set()
    for row in rows_of(nodes):
        text = unknown if missing(row.open_ports) else str(row.open_ports)
        address = "" if missing(row.address) else str(row.address)
        off = bool(text) and bool(address) and not _loopback(address)
        outside |= {address} if off else set()
        for port in filter(None, text.split("; ")):
            roles.setdefault((off, port), set()).add(str(row.role))
    found = []
    for off, words in (
        (
            True,
            f"OPEN PORTS: {title(engine)} listened on {_some(sorted(outside))}, and nothing "
            "guarded these ports against anybody who reached that network",
        ),
        (
            False,
            f"nothing guards these ports of {title(engine)}; they listened on loopback only, where "
            "any user of the same host could do that",
        ),
    ):
        ports = [
            f"{all_of(sorted(own))}: {port}" for (where, port), own in roles.items() if where is off
        ]
        if ports:
            found.append(f"{words} ({'; '.join(ports)})")
    return found


def _kept_table(nodes: pd.DataFrame) -> Table:
    kept = nodes[nodes["kept"].notna()]
    rows = [_kept(row) for row in records(kept)]
    heads = ["trial", "node", "host", "directory", "size"]
    caption = "Data directories that were kept; remove them by hand"
    return Table("kept", caption, heads, rows, marks("nodes", kept))


def _kept(row: Mapping[str, Any]) -> list[Cell]:
    size = float(row["node_bytes"])
    return [
        *(text_cell(row[name]) for name in ("trial", "node", "host", "kept")),
        number_cell(size, binary(size) if math.isfinite(size) else None),
    ]
