"""Sessions: the servers of trials, their hosts, ports, authentication, times and sizes.

A session is the lifetime of one trial's servers. Each server writes a part, and so does the end of
the session; ``docs/results.md`` lists their metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION, Part
from storewise.analysis.measure.reduction import INODE_METRICS, Reduction
from storewise.analysis.model.columns import SETUP
from storewise.layout import SESSION_PART

#: Per node: times and clock offset in s, final size of its data directory in bytes.
_NODE_METRICS = ["queue_time", "ready_time", "stop_time", "clock_offset", "node_bytes"]
_NODE_METRICS += INODE_METRICS
_SESSION_METRICS = ["form_time", "formed_time", "close_time"]
_SUMS = ["node_bytes", *INODE_METRICS]
NODE_COLUMNS = ["trial", "node", "role", "host", "address", "guard", "ports", "open_ports"]
NODE_COLUMNS += ["version", "threads", "memory_mb", *_NODE_METRICS, "kept"]


def nodes(parts: Sequence[Part], samples: Reduction) -> pd.DataFrame:
    """One row per trial and node. Times in s, sizes in B; missing if not recorded."""
    rows = [_facts(part) for part in parts if part.node is not None]
    facts = pd.DataFrame(rows, columns=[n for n in NODE_COLUMNS if n not in _NODE_METRICS])
    figures = _figures(samples, ["trial", "node"], _NODE_METRICS)
    table = facts.merge(figures, on=["trial", "node"], how="left")
    return table.sort_values(["trial", "node"], ignore_index=True)[NODE_COLUMNS]


def _figures(samples: Reduction, keys: list[str], metrics: list[str]) -> pd.DataFrame:
    """The metrics of sessions: `keys`, and a column for each metric."""
    rows = samples.table("FROM every_sample WHERE phase = 'session' AND second IS NULL")
    rows = rows[rows["metric"].isin(metrics)]
    wide = rows.pivot_table("value", keys, "metric", aggfunc="last").reindex(columns=metrics)
    return wide.reset_index()


def _facts(part: Part) -> dict[str, Any]:
    """The unmeasured columns of a node: role, host, address, ports and authentication."""
    told = part.conditions
    host = told.get("host")
    ports, open_ports = told.get("ports") or {}, told.get("open_ports")
    guards = [f"{name} ({port.get('guard') or 'none'})" for name, port in ports.items()]
    names = ("role", "address", "guard", "threads", "memory_mb")
    return {
        **{name: told.get(name) for name in names},
        "trial": part.trial,
        "node": part.node,
        "host": host.get("name") if isinstance(host, Mapping) else host,
        # Further ports with their authentication: ``gossip (none), http (password)``.
        "ports": ", ".join(guards) or None,
        # Ports without authentication and what a stranger could do there; empty if there are none,
        # None for results of an earlier version that did not record it.
        "open_ports": "; ".join(f"{name}: {what}" for name, what in open_ports.items())
        if isinstance(open_ports, Mapping)
        else None,
        "version": (told.get("versions") or {}).get("server"),
        "kept": told.get("kept") or None,
    }


def sessions(table: pd.DataFrame, samples: Reduction) -> pd.DataFrame:
    """One row per trial with servers: its times in s, and the final sizes of its nodes.

    `table` is `nodes`. Queue and ready times are those of the last node; SETUP excludes the queue
    and is missing if 0. Sizes and files are sums over the data directories of all servers, missing
    if one of them is unknown.
    """
    of_trial = table.groupby("trial")
    told = of_trial[_SUMS].count().eq(of_trial.size(), axis=0)
    sums = of_trial[_SUMS].sum().where(told)
    times = of_trial[["queue_time", "ready_time"]].max().join(sums).reset_index()
    times = times.merge(_figures(samples, ["trial"], _SESSION_METRICS), on="trial", how="left")
    # Jobs without a queue time did not wait in a queue.
    ready = times["formed_time"].astype(float) - times["queue_time"].astype(float).fillna(0)
    return times.assign(**{SETUP: ready.where(ready > 0)})


def session_warnings(parts: Sequence[Part]) -> Iterator[StudyWarning]:
    """Warnings about missing parts of servers and sessions."""
    stored: dict[str, set[str | None]] = {}
    expected: dict[str, set[str]] = {}
    for part in parts:
        if part.phase == SESSION:
            stored.setdefault(part.trial, set()).add(part.node)
            expected.setdefault(part.trial, set()).update(part.conditions.get("nodes") or ())
    remedy = "delete the trial's directory and run the study again"
    for trial, found in stored.items():
        if missing := sorted(expected[trial] - found):
            text = f"no result of {', '.join(missing)} (node.NAME.parquet); what that server used "
            text += "of its host is left out"
            yield StudyWarning("missing_node", trial, text, remedy)
        if None not in found:
            text = f"no result of its session ({SESSION_PART}); the times of bootstrap and "
            yield StudyWarning("missing_node", trial, f"{text}shutdown are left out", remedy)
