"""What servers and their hosts were busy with in each phase, and how documents lay on them.

A node samples from its start to its end, in seconds of its own. Here each sample is given to the
steps of the trial's phases by Unix time, in proportion where it lies in two: all figures of a
second are taken to hold for all of it. The clock of a node's host is brought to that of the
session by the offset that the node measured, unless clients ran on the same host and so had the
same clock. What lies in no step (forming, pauses, verification, closing) stays phase "session".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storewise.analysis.frames import grouped, rows_of
from storewise.analysis.host import BRIEF, HOST_METRICS, PER_SECOND, by_second
from storewise.analysis.parts import SESSION
from storewise.analysis.throughput import STEP

#: Metrics of a server's own processes and directory; the others are its host's.
NODE_METRICS = {"store_cpu": "cores", "store_rss": "B", "store_bytes": "B"}
_PLACE = [*STEP, "host", "node", "second"]
COLUMNS = [*_PLACE, "metric", "value", "unit", "length"]


@dataclass(frozen=True, slots=True)
class _Span:
    phase: str
    step: int
    start: float
    end: float


def node_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Samples of nodes by phase and step of their trial.

    `samples` is the long table of results with phase "session". Columns: trial, phase, step, host,
    node, second (from the node's first one in the step), metric, value, unit, length (seconds of
    the sample within the step). ``store_cpu`` is in cores here, not in seconds.
    """
    own = samples[(samples["phase"] == SESSION) & samples["node"].notna()]
    frames = []
    clients = samples[samples["worker"].notna()]
    for (trial,), of_trial in grouped(own, ["trial"]):
        mine = clients[clients["trial"] == trial]
        spans, hosts = _spans(mine), set(mine["host"].astype(str))
        for (node,), rows in grouped(of_trial, ["node"]):
            frames += _spread(str(trial), str(node), rows, spans, hosts)
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(frames, ignore_index=True)[COLUMNS]


def _spread(
    trial: str, node: str, rows: pd.DataFrame, spans: Sequence[_Span], client_hosts: set[str]
) -> list[pd.DataFrame]:
    taken = rows[rows["second"].notna()]
    zero = _single(rows, "started_at")
    if taken.empty or zero is None:
        return []
    host = str(taken["host"].iloc[0])
    if host not in client_hosts:
        zero -= _single(rows, "clock_offset") or 0.0
    table = taken[["second", "metric", "value", "unit"]].astype({"metric": str, "unit": str})
    lengths = table[table["metric"] == "sample_length"].set_index("second")["value"]
    length = table["second"].map(lengths).fillna(1.0).to_numpy(dtype=float)
    table = table.assign(trial=trial, node=node, host=host, whole=length)
    cpu = (table["metric"] == "store_cpu").to_numpy()
    # A mean over its second, so that it can be weighted like the shares of the host's time.
    table.loc[cpu, "value"] = table.loc[cpu, "value"] / length[cpu]
    table.loc[cpu, "unit"] = NODE_METRICS["store_cpu"]
    start = zero + table["second"].to_numpy(dtype=float)
    end = start + length
    left = length.copy()
    frames = []
    for span in spans:
        inside = np.clip(np.minimum(end, span.end) - np.maximum(start, span.start), 0.0, None)
        left -= inside
        frames.append(_part_of(table, inside, span.phase, span.step))
    # A sample that a step touches is the step's; only the others are of the session as such.
    frames.append(_part_of(table, np.where(left > length - 1e-6, left, 0.0), SESSION, 0))
    return frames


def _part_of(
    table: pd.DataFrame, inside: NDArray[np.float64], phase: str, step: int
) -> pd.DataFrame:
    found = table.assign(phase=phase, step=step, length=inside)[inside > 1e-6]
    if found.empty:
        return found
    if (found["length"] >= BRIEF).any():
        found = found[found["length"] >= BRIEF]
    return found.assign(second=found["second"] - found["second"].min())


def _single(rows: pd.DataFrame, metric: str) -> float | None:
    values = rows.loc[(rows["metric"] == metric) & rows["second"].isna(), "value"]
    return float(values.iloc[0]) if len(values) else None


def _spans(clients: pd.DataFrame) -> list[_Span]:
    """When each step ran, from the first worker's start to the last one's end, in Unix time."""
    keys = ["phase", "step", "worker"]
    starts = clients[clients["metric"] == "started_at"]
    lasted = clients[(clients["metric"] == "duration") & clients["operation"].isna()]
    columns = {
        "start": starts.groupby(keys, observed=True)["value"].min(),
        "lasted": lasted.groupby(keys, observed=True)["value"].max(),
    }
    both = pd.DataFrame(columns).dropna().reset_index()
    return [
        _Span(
            str(phase),
            int(step),
            float(group["start"].min()),
            float((group["start"] + group["lasted"]).max()),
        )
        for (phase, step), group in grouped(both, ["phase", "step"])
    ]


def node_load(taken: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, node and metric, and of the nodes' hosts.

    `taken` is `node_samples`, `of_clients` is `host.host_load`: a host that had clients too was
    sampled by these in their phases, which is not told twice. Rows of a host have no node.
    """
    columns = list(of_clients.columns)
    if taken.empty:
        return pd.DataFrame(columns=columns)
    known = _places(of_clients[of_clients["metric"] == "cpu_user"])
    rows: list[dict[str, Any]] = []
    for key, group in grouped(taken, [*STEP, "host", "node", "metric"]):
        trial, phase, step, host, node, metric = key
        own = metric in NODE_METRICS
        if not own and metric not in HOST_METRICS:
            continue
        if not own and (trial, phase, step, host) in known:
            continue
        value = group["value"].to_numpy(dtype=float)
        rows.append(
            {
                "trial": trial,
                "phase": phase,
                "step": step,
                "host": host,
                "node": node if own else "",
                "metric": metric,
                "mean": float(np.average(value, weights=group["length"])),
                "max": float(value.max()),
                "unit": group["unit"].iloc[0],
            }
        )
    return pd.DataFrame(rows, columns=columns)


def node_cpu(taken: pd.DataFrame, of_clients: pd.DataFrame) -> pd.DataFrame:
    """What hosts that had nodes only did each second; `of_clients` is `host.cpu_series`."""
    known = _places(of_clients)
    rows = taken[taken["metric"].isin(PER_SECOND) & (taken["phase"] != SESSION)]
    columns = list(of_clients.columns)
    if rows.empty:
        return pd.DataFrame(columns=columns)
    wide = rows.pivot_table(
        index=[*STEP, "host", "second"], columns="metric", values="value", aggfunc="mean"
    )
    wide = by_second(wide.reset_index())
    keep = [(r.trial, r.phase, r.step, r.host) not in known for r in rows_of(wide)]
    return wide[keep]


def _places(table: pd.DataFrame) -> set[tuple[Any, ...]]:
    return set(table[[*STEP, "host"]].itertuples(index=False, name=None))


def balance(samples: pd.DataFrame) -> pd.DataFrame:
    """How the operations of each step spread over the nodes (or stores) that own the documents.

    Columns: trial, phase, step, operation, node, operations, errors, share (of all operations of
    the step whose owner is known).
    """
    rows = samples[samples["metric"].isin(["owner_operations", "owner_errors"])]
    names = ["operations", "errors", "share"]
    keys = [*STEP, "operation", "node"]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, *names])
    rows = rows.astype({"metric": str, "trial": str, "phase": str, "operation": str, "node": str})
    table = rows.pivot_table(
        index=keys, columns="metric", values="value", aggfunc="sum", fill_value=0.0
    )
    table = table.rename(columns={f"owner_{name}": name for name in names}).reset_index()
    table = table.reindex(columns=[*keys, "operations", "errors"]).fillna({"errors": 0.0})
    total = table.groupby(keys[:-1])["operations"].transform("sum")
    table["share"] = table["operations"] / total.where(total > 0)
    table.columns.name = None
    return table[[*keys, *names]]
