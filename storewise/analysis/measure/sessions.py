"""Sessions: the servers that trials had, where they ran, what guarded them, what they took.

A session is the life of one trial's servers. Each of them leaves a part of its own, its closing
another; ``docs/results.md`` has their metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import node_names
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION, Part

#: Times of each node, in s, and what its data directory had in the end, in bytes.
_NODE_METRICS = ("queue_time", "ready_time", "stop_time", "clock_offset", "node_bytes")
_SESSION_METRICS = ("form_time", "formed_time", "close_time")
NODE_COLUMNS = [
    "trial",
    "node",
    "role",
    "host",
    "address",
    "guard",
    "ports",
    "open_ports",
    "version",
    "threads",
    "memory_mb",
    *_NODE_METRICS,
    "kept",
]
SESSION_COLUMNS = [
    "trial",
    "nodes",
    "hosts",
    "queue_time",
    "ready_time",
    "form_time",
    "formed_time",
    "close_time",
    "node_bytes",
]


def nodes(parts: Sequence[Part], samples: pd.DataFrame) -> pd.DataFrame:
    """One row per trial and node. Times in s, sizes in B; what no part tells is missing."""
    rows = []
    figures = samples[(samples["phase"] == SESSION) & samples["second"].isna()]
    figures = figures[figures["metric"].isin(_NODE_METRICS)]
    values = {
        (str(trial), str(node), str(metric)): float(value)
        for trial, node, metric, value in figures[["trial", "node", "metric", "value"]].itertuples(
            index=False
        )
    }
    for trial, known in sorted(_known(parts).items()):
        for node, facts in sorted(known.items()):
            row = {"trial": trial, "node": node, **facts}
            row |= {m: values.get((trial, node, m)) for m in _NODE_METRICS}
            rows.append(row)
    return pd.DataFrame(rows, columns=NODE_COLUMNS)


def _known(parts: Sequence[Part]) -> dict[str, dict[str, dict[str, Any]]]:
    """What is known of each trial's nodes, by trial and node."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        if part.phase != SESSION or part.node is not None:
            continue
        for node, facts in (part.conditions.get("nodes") or {}).items():
            keys = ("host", "address", "guard", "version")
            found.setdefault(part.trial, {})[node] = {k: facts.get(k) for k in keys}
    for part in parts:
        if part.node is None:
            continue
        own = part.conditions
        host = own.get("host")
        found.setdefault(part.trial, {}).setdefault(part.node, {}).update(
            {
                "role": own.get("role"),
                "host": host.get("name") if isinstance(host, Mapping) else host,
                "address": own.get("address"),
                "guard": own.get("guard"),
                "ports": _ports(own.get("ports")),
                "open_ports": _open(own.get("open_ports")),
                "version": (own.get("versions") or {}).get("server"),
                "threads": own.get("threads"),
                "memory_mb": own.get("memory_mb"),
                "kept": own.get("kept") or None,
            }
        )
    return found


def _ports(found: Any) -> str | None:
    """A server's further ports and what guards each: ``gossip (none), http (password)``."""
    if not isinstance(found, Mapping) or not found:
        return None
    return ", ".join(f"{name} ({port.get('guard') or 'none'})" for name, port in found.items())


def _open(found: Any) -> str | None:
    """What nobody guards and what who reaches it could do; empty where all is guarded, None where
    a result of an earlier version does not tell."""
    if not isinstance(found, Mapping):
        return None
    return "; ".join(f"{name}: {what}" for name, what in found.items())


def sessions(table: pd.DataFrame, samples: pd.DataFrame) -> pd.DataFrame:
    """One row per trial with servers: how many on which hosts, and its times in s.

    `table` is `nodes`. Queue and ready times are those of the node that was last; `node_bytes` is
    the sum over the data directories of all servers.
    """
    figures = samples[(samples["phase"] == SESSION) & samples["metric"].isin(_SESSION_METRICS)]
    values = {
        (str(trial), str(metric)): float(value)
        for trial, metric, value in figures[["trial", "metric", "value"]].itertuples(index=False)
    }
    rows = []
    for trial, group in table.groupby("trial", sort=True):
        row: dict[str, Any] = {
            "trial": trial,
            "nodes": len(group),
            "hosts": ", ".join(sorted(set(group["host"].dropna().map(str)))),
            "queue_time": group["queue_time"].max(),
            "ready_time": group["ready_time"].max(),
            "node_bytes": group["node_bytes"].sum(min_count=len(group)),
        }
        rows.append(row | {m: values.get((str(trial), m)) for m in _SESSION_METRICS})
    return pd.DataFrame(rows, columns=SESSION_COLUMNS)


def session_warnings(parts: Sequence[Part]) -> list[StudyWarning]:
    """Parts of servers that are missing, and servers that shared a host with others."""
    return [*_missing(parts), *_shared(parts)]


def _missing(parts: Sequence[Part]) -> list[StudyWarning]:
    known = _known(parts)
    have = {(p.trial, p.node) for p in parts if p.phase == SESSION}
    told: dict[str, Any] = {}
    for part in parts:
        told.setdefault(part.trial, part.conditions.get("trial"))
    found = []
    for trial, stored in sorted(told.items()):
        expected = set(known.get(trial, {}))
        expected |= set(node_names(stored if isinstance(stored, Mapping) else {}))
        if not expected:
            continue
        gone = sorted(node for node in expected if (trial, node) not in have)
        if gone:
            found.append(
                StudyWarning(
                    "missing_node",
                    trial,
                    f"no result of {', '.join(gone)} (node.NAME.parquet); what that server used "
                    "of its host is left out",
                    "delete the trial's directory and run the study again",
                )
            )
        if (trial, None) not in have:
            found.append(
                StudyWarning(
                    "missing_session",
                    trial,
                    "no result of its session (session.parquet); the times of forming and "
                    "closing are left out",
                    "delete the trial's directory and run the study again",
                )
            )
    return found


def _shared(parts: Sequence[Part]) -> list[StudyWarning]:
    """One finding for all trials in which a host had more than one server, or clients beside."""
    clients: dict[str, set[str]] = {}
    for part in parts:
        if part.worker is not None:
            host = part.conditions.get("host")
            name = str(host.get("name")) if isinstance(host, Mapping) else str(host)
            clients.setdefault(part.trial, set()).add(name)
    known = _known(parts)
    worst: list[str] = []
    trials = 0
    for trial, by_node in sorted(known.items()):
        on: dict[str, list[str]] = {}
        for node, facts in sorted(by_node.items()):
            on.setdefault(str(facts.get("host")), []).append(node)
        for host in sorted(clients.get(trial, set()) & set(on)):
            on[host].append("clients")
        shared = [f"{host}: {', '.join(who)}" for host, who in on.items() if len(who) > 1]
        if shared:
            trials += 1
            worst = max(worst, shared, key=lambda texts: sum(map(len, texts)))
    if not trials:
        return []
    return [
        StudyWarning(
            "shared_host",
            "",
            f"in {trials} of {len(known)} trials with servers a host was shared (at most "
            f"{'; '.join(worst)}): each had less of it than a host of its own would give, and "
            "the host's figures are of all of them",
            "for figures that count give each server and the clients a host of their own",
        )
    ]
