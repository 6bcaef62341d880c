"""Load of clients, servers and their hosts, and how fast the hosts were before the trial."""

from __future__ import annotations

import pandas as pd

from storewise.analysis.common.warnings import StudyWarning, often
from storewise.analysis.files.parts import SESSION
from storewise.analysis.measure.reduction import STEP, Reduction
from storewise.metrics.schema import METRICS

#: Ratio of a canary to its median, up or down, from which on the host was not equally fast. By
#: chance a disk's canary may vary by a quarter.
MAX_CANARY_RATIO = 2.0

_UNITS = {**METRICS, **dict.fromkeys(("client_cpu", "store_cpu", "router_cpu"), "cores")}
COLUMNS = [*STEP, "host", "node", "metric", "mean", "max", "unit"]


def host_load(samples: Reduction) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, host, node and metric.

    Host figures are weighted with the length of their samples. ``client_cpu`` is in cores and of
    the busiest process, ``store_cpu`` (of embedded stores) and ``router_cpu`` in cores and of all
    workers, memory of processes is summed. `node` is set only for figures of a server's processes.
    ``canary_*`` were measured by the trial's first job on a host; those of servers are in phase
    "session", because servers may use other disks than clients.
    """
    canary = "trial, phase, step, host, '' AS node, metric, value AS mean, value AS max"
    table = samples.table(
        "FROM host_load UNION SELECT * FROM node_load UNION "
        f"SELECT {canary} FROM every_sample WHERE starts_with(metric, 'canary_') "
        "ORDER BY trial, phase, step, host, node, metric"
    )
    return table.assign(unit=table["metric"].map(_UNITS))[COLUMNS]


def cpu(samples: Reduction) -> pd.DataFrame:
    """The load of each host in each second: trial, phase, step, host, second; user, system, iowait,
    steal and disk_busy in %, disk and network in B/s (empty if not measured)."""
    return samples.table("FROM cpu ORDER BY trial, phase, step, host, second")


def canary_warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning if a canary was often far from its median (MAX_CANARY_RATIO)."""
    canary = table[table["metric"].str.startswith("canary_")]
    texts = []
    for (metric, nodes), group in canary.groupby(["metric", canary["phase"] == SESSION]):
        ratios = group["mean"] / group["mean"].median()
        off = int(((ratios < 1 / MAX_CANARY_RATIO) | (ratios > MAX_CANARY_RATIO)).sum())
        if often(off, len(group)):
            slow, fast = group["mean"].min(), group["mean"].max()
            who = "nodes" if nodes else "clients"
            texts.append(
                f"{metric} of hosts with {who} from {slow:,.3g} to {fast:,.3g} "
                f"{group['unit'].iloc[0]}, {off} of {len(group)} times off its median by a factor "
                f"of {MAX_CANARY_RATIO:g}"
            )
    if not texts:
        return []
    text = f"hosts were not equally fast before all trials: {'; '.join(texts)}"
    return [StudyWarning("unsteady_host", "", text, "keep other work off them and measure again")]
