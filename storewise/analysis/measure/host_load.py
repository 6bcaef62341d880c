"""What clients, servers and their hosts were busy with, and how fast the hosts were before."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning, often
from storewise.analysis.files.parts import SESSION
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.metrics.schema import METRICS

#: How many times slower or faster than its median a canary is that tells of another machine. By
#: chance a disk's may spread by a quarter.
UNSTEADY = 2.0

_UNITS = {**METRICS, **dict.fromkeys(("client_cpu", "store_cpu", "router_cpu"), "cores")}
COLUMNS = [*STEP, "host", "node", "metric", "mean", "max", "unit"]


def host_load(samples: Reduction) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, host, node and metric.

    Host figures are weighted with the length of their samples. ``client_cpu`` is in cores and of
    the busiest process, ``store_cpu`` (of embedded stores) and ``router_cpu`` in cores and of all
    workers, memory of processes is summed. `node` is empty but for what servers used themselves.
    ``canary_*`` are what the trial's first job on a host found, of servers in phase "session":
    their directories may lie on other disks than those of clients.
    """
    canary = "trial, phase, step, host, '' AS node, metric, value AS mean, value AS max"
    table = samples.table(
        "FROM host_load UNION SELECT * FROM node_load UNION "
        f"SELECT {canary} FROM every_sample WHERE starts_with(metric, 'canary_') "
        "ORDER BY trial, phase, step, host, node, metric"
    )
    return table.assign(unit=table["metric"].map(_UNITS))[COLUMNS]


def cpu(samples: Reduction) -> pd.DataFrame:
    """What each host did each second: trial, phase, step, host, second; user, system, iowait, steal
    and disk_busy in %, disk and network in B/s (empty where not measured)."""
    return samples.table("FROM cpu ORDER BY trial, phase, step, host, second")


def canary_warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning where the machine was often much faster or slower than usual."""
    canary = table[table["metric"].str.startswith("canary_")]
    texts = []
    for (metric, nodes), group in canary.groupby(["metric", canary["phase"] == SESSION]):
        ratios = group["mean"] / group["mean"].median()
        off = int(((ratios < 1 / UNSTEADY) | (ratios > UNSTEADY)).sum())
        if often(off, len(group)):
            slow, fast = group["mean"].min(), group["mean"].max()
            who = "nodes" if nodes else "clients"
            texts.append(
                f"{metric} of hosts with {who} from {slow:,.3g} to {fast:,.3g} "
                f"{group['unit'].iloc[0]}, {off} of {len(group)} times off its median by a factor "
                f"of {UNSTEADY:g}"
            )
    if not texts:
        return []
    text = f"the machine was not equally fast before all trials: {'; '.join(texts)}"
    return [StudyWarning("unsteady_host", "", text, "keep other work off it, and measure again")]
