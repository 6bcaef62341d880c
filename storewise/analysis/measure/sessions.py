"""Sessions: the servers that trials had, where they ran, what guarded them, what they took.

A session is the life of one trial's servers. Each of them leaves a part of its own, its closing
another; ``docs/results.md`` has their metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.engines import node_names
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION, Part
from storewise.analysis.measure.reduction import INODE_METRICS, Reduction
from storewise.analysis.measure.storage import inode_measures
from storewise.layout import SESSION_PART

#: Times of each node, in s, what its data directory had in the end, in bytes, and files after the
#: load with the metadata operations until then.
_NODE_METRICS = ["queue_time", "ready_time", "stop_time", "clock_offset", "node_bytes"]
_NODE_METRICS += INODE_METRICS
_SESSION_METRICS = ["form_time", "formed_time", "close_time"]
NODE_COLUMNS = ["trial", "node", "role", "host", "address", "guard", "ports", "open_ports"]
NODE_COLUMNS += ["version", "threads", "memory_mb", *_NODE_METRICS, "kept"]
SESSION_COLUMNS = ["trial", "nodes", "hosts", "queue_time", "ready_time"]
_SUMS = ("node_bytes", "files", "inodes", "metadata_operations")
SESSION_COLUMNS += [*_SESSION_METRICS, *_SUMS]


def nodes(parts: Sequence[Part], samples: Reduction) -> pd.DataFrame:
    """One row per trial and node. Times in s, sizes in B; what no part tells is missing."""
    figures = _figures(samples, ["trial", "node"], _NODE_METRICS)
    rows = [
        {"trial": trial, "node": node, **facts, **figures.get((trial, node), {})}
        for trial, facts_of in sorted(_facts(parts).items())
        for node, facts in sorted(facts_of.items())
    ]
    return pd.DataFrame(rows, columns=NODE_COLUMNS)


def _figures(
    samples: Reduction, keys: list[str], metrics: Sequence[str]
) -> dict[Any, dict[str, float]]:
    """What sessions tell of themselves, by `keys` and metric."""
    names = ", ".join([*keys, "metric", "value"])
    rows = samples.table(
        f"SELECT {names} FROM every_sample WHERE phase = 'session' AND second IS NULL"
    )
    figures: dict[Any, dict[str, float]] = {}
    for *key, metric, value in rows[rows["metric"].isin(metrics)].itertuples(index=False):
        figures.setdefault(tuple(key), {})[metric] = value
    return figures


def _facts(parts: Sequence[Part]) -> dict[str, dict[str, dict[str, Any]]]:
    """What parts tell of each trial's nodes, by trial and node; a node's own part counts more."""
    facts: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        if part.phase == SESSION and part.node is None:
            for node, stored in (part.conditions.get("nodes") or {}).items():
                names = ["host", "address", "guard", "version"]
                facts.setdefault(part.trial, {})[node] = {name: stored.get(name) for name in names}
    for part in parts:
        if part.node is not None:
            names = ["role", "address", "guard", "threads", "memory_mb"]
            facts.setdefault(part.trial, {}).setdefault(part.node, {}).update(
                {name: part.conditions.get(name) for name in names},
                host=_host(part),
                ports=_ports(part),
                open_ports=_open_ports(part),
                version=(part.conditions.get("versions") or {}).get("server"),
                kept=part.conditions.get("kept") or None,
            )
    return facts


def _host(part: Part) -> Any:
    host = part.conditions.get("host")
    return host.get("name") if isinstance(host, Mapping) else host


def _ports(part: Part) -> str | None:
    """A server's further ports and what guards each: ``gossip (none), http (password)``."""
    ports = part.conditions.get("ports") or {}
    return ", ".join(f"{name} ({p.get('guard') or 'none'})" for name, p in ports.items()) or None


def _open_ports(part: Part) -> str | None:
    """What nobody guards and what who reaches it could do; empty where all is guarded, None where
    a result of an earlier version does not say."""
    ports = part.conditions.get("open_ports")
    if not isinstance(ports, Mapping):
        return None
    return "; ".join(f"{name}: {what}" for name, what in ports.items())


def sessions(table: pd.DataFrame, samples: Reduction) -> pd.DataFrame:
    """One row per trial with servers: how many on which hosts, and its times in s.

    `table` is `nodes`. Queue and ready times are those of the node that was last; `node_bytes`,
    `files`, `inodes` and `metadata_operations` are the sums over the data directories of all
    servers, missing where one of these does not tell its own.
    """
    figures = _figures(samples, ["trial"], _SESSION_METRICS)
    rows = [
        {
            "trial": trial,
            "nodes": len(group),
            "hosts": ", ".join(sorted(set(group["host"].dropna().map(str)))),
            "queue_time": group["queue_time"].max(),
            "ready_time": group["ready_time"].max(),
            "node_bytes": group["node_bytes"].sum(min_count=len(group)),
            **_inodes(group),
            **figures.get((trial,), {}),
        }
        for trial, group in table.groupby("trial", sort=True)
    ]
    return pd.DataFrame(rows, columns=SESSION_COLUMNS)


def _inodes(group: pd.DataFrame) -> dict[str, float]:
    """The measures of files of all nodes of a trial."""
    sums = {name: group[name].astype(float).sum(min_count=len(group)) for name in INODE_METRICS}
    return inode_measures(sums)


def session_warnings(parts: Sequence[Part]) -> Iterator[StudyWarning]:
    """Parts of servers that are missing."""
    facts = _facts(parts)
    remedy = "delete the trial's directory and run the study again"
    stored = {(part.trial, part.node) for part in parts if part.phase == SESSION}
    # Of the first part of each trial.
    trials = {part.trial: part.conditions.get("trial") for part in reversed(parts)}
    for name, trial in trials.items():
        expected = {*facts.get(name, ()), *node_names(trial if isinstance(trial, Mapping) else {})}
        missing = sorted(node for node in expected if (name, node) not in stored)
        if missing:
            yield StudyWarning(
                "missing_node",
                name,
                f"no result of {', '.join(missing)} (node.NAME.parquet); what that server used "
                "of its host is left out",
                remedy,
            )
        if expected and (name, None) not in stored:
            yield StudyWarning(
                "missing_node",
                name,
                f"no result of its session ({SESSION_PART}); the times of forming and "
                "closing are left out",
                remedy,
            )
