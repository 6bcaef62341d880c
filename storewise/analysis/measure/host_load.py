"""What clients and hosts were busy with, and whether the client was the limit.

A run is *client-bound* when the figure says more about the client than about the store: a client
process of a store outside it used at least 0.9 of a core, the rate reached at least 0.8 of the
null engine's at the same topology (the client's own ceiling), or the clients spent at least a tenth
of their time on their own work between the store's calls. An embedded store works in the client's
process, so there a busy process is no sign.
"""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side, embedded, title
from storewise.analysis.common.frames import rows_of
from storewise.analysis.common.text import all_of
from storewise.analysis.common.warnings import StudyWarning, often
from storewise.analysis.measure.reduction import HOST_METRICS, STEP, Reduction
from storewise.analysis.measure.throughput import StepKey
from storewise.analysis.model.results import Results
from storewise.metrics.schema import METRICS

BUSY_CLIENT = 0.9
NEAR_CEILING = 0.8
OWN_WORK = 0.1
#: Share of a store's steps from which on that is an alarm.
MOSTLY = 0.75
#: How many times slower or faster than its median a canary is that tells of another machine. By
#: chance a disk's may spread by a quarter.
UNSTEADY = 2.0

COLUMNS = [*STEP, "host", "node", "metric", "mean", "max", "unit"]
_UNITS = {name: METRICS[name] for name in HOST_METRICS}
_UNITS |= {f"{who}_cpu": "cores" for who in ("client", "store", "router")}
_UNITS |= {f"{who}_rss": "B" for who in ("client", "store", "router")} | {"store_bytes": "B"}


def host_load(samples: Reduction) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, host and metric, of hosts with clients.

    Host figures are weighted with the length of their samples. ``client_cpu`` is in cores and of
    the busiest process, ``store_cpu`` (of embedded stores) and ``router_cpu`` in cores and of all
    workers, memory of processes is summed. `node` is empty: `node_load` has those of nodes.
    """
    order = "ORDER BY trial, phase, step, host, metric"
    return _with_units(samples.table(f"FROM host_load {order}"))


def node_load(samples: Reduction) -> pd.DataFrame:
    """The same of nodes, and of hosts that had no clients in a step (without a node)."""
    order = "ORDER BY trial, phase, step, host, node, metric"
    return _with_units(samples.table(f"SELECT DISTINCT * FROM node_load {order}"))


def _with_units(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(unit=table["metric"].map(_UNITS))[COLUMNS]


def cpu(samples: Reduction) -> pd.DataFrame:
    """What each host did each second: trial, phase, step, host, second; user, system, iowait, steal
    and disk_busy in %, disk and network in B/s (empty where not measured)."""
    return samples.table("FROM cpu ORDER BY trial, phase, step, host, second")


def client_bound(
    host: pd.DataFrame,
    rates: pd.DataFrame,
    summary: pd.DataFrame,
    results: Results,
    paced: Collection[StepKey] = (),
) -> pd.DataFrame:
    """Runs that the client limited: trial, phase, step, reason.

    `rates` is `throughput.throughput`, `summary` its means over repeats, `paced` the trial, phase
    and step of open loops.
    """
    if "engine" not in results.factors or rates.empty:
        return pd.DataFrame(columns=[*STEP, "reason"])
    engines = dict(zip(results.trials["trial"], results.trials["engine"], strict=True))
    busy = host[(host["metric"] == "client_cpu") & (host["mean"] >= BUSY_CLIENT)]
    rows = [
        (row.trial, row.phase, row.step, f"a client process used {row.mean:.2f} of a core")
        for row in rows_of(busy)
        if engines[row.trial] != CEILING and not embedded(engines[row.trial])
    ]
    # An open loop is as fast as its target rate, with a store or without.
    nobody = f"of the rate of no store at all ({title(CEILING)})"
    rows += [
        (row.trial, row.phase, row.step, f"it reached {row.value / row.top:.0%} {nobody}")
        for row in rows_of(_near_ceiling(rates, summary, results))
        if (row.trial, row.phase, row.step) not in paced
    ]
    own = rates[(rates["measure"] == "client_share") & (rates["value"] >= OWN_WORK)]
    rows += [
        (row.trial, row.phase, row.step, f"{row.value:.0%} of the time was the client's own work")
        for row in rows_of(own)
        if engines[row.trial] not in (CEILING, BASELINE)
        and (row.trial, row.phase, row.step) not in paced
    ]
    return pd.DataFrame(rows, columns=[*STEP, "reason"]).drop_duplicates(ignore_index=True)


def _near_ceiling(rates: pd.DataFrame, summary: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Rates near the highest of the null engine (`top`) at the same levels."""
    factors = list(results.factors)
    alike = [*client_side(factors), "phase", "step"]
    ceiling = summary[(summary["engine"] == CEILING) & (summary["measure"] == "operations_per_s")]
    if ceiling.empty:
        return ceiling
    top = ceiling.groupby(alike, dropna=False, observed=True)["mean"].max().rename("top")
    rates = rates[rates["measure"] == "operations_per_s"]
    rates = rates.merge(results.trials[["trial", *factors]], on="trial")
    # The files store nothing either, when a study loads.
    stores = rates[~rates["engine"].isin([CEILING, BASELINE])]
    joined = stores.merge(top.reset_index(), on=alike)
    return joined[joined["value"] >= NEAR_CEILING * joined["top"]]


def bound_warnings(
    bound: pd.DataFrame, rates: pd.DataFrame, results: Results
) -> list[StudyWarning]:
    """One warning for the phases of which the client limited most of a store's steps; fewer may be
    chance. `rates` as for `client_bound`."""
    if bound.empty:
        return []
    engines = results.trials.set_index("trial")["engine"]

    def steps(table: pd.DataFrame) -> pd.Series:
        every = table[list(STEP)].drop_duplicates()
        return every.groupby([every["trial"].map(engines), every["phase"].astype(str)]).size()

    share = (steps(bound) / steps(rates)).dropna()
    names = [f"{title(engine)} ({phase})" for engine, phase in share.index[share >= MOSTLY]]
    if not names:
        return []
    return [
        StudyWarning(
            "client_bound",
            "",
            f"the client was the limit of most steps of {all_of(names)}, the first time because "
            f"{bound['reason'].iloc[0]}",
            "the stores may do more than their figures say: use more processes or workers",
        )
    ]


def canary(samples: Reduction) -> pd.DataFrame:
    """The canary of each trial and host: trial, taken_by ("clients" or "nodes": their directories
    may lie on different disks), host, metric, value, unit."""
    table = samples.table("FROM canary ORDER BY trial")
    return table.assign(unit=table["metric"].map(METRICS))


def canary_warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """One warning where the machine was often much faster or slower than usual."""
    texts = []
    for (metric, by), group in table.groupby(["metric", "taken_by"]):
        ratios = group["value"] / group["value"].median()
        off = int(((ratios < 1 / UNSTEADY) | (ratios > UNSTEADY)).sum())
        if often(off, len(group)):
            slow, fast = group["value"].min(), group["value"].max()
            texts.append(
                f"{metric} of hosts with {by} from {slow:,.3g} to {fast:,.3g} "
                f"{group['unit'].iloc[0]}, {off} of {len(group)} times off its median by a factor "
                f"of {UNSTEADY:g}"
            )
    if not texts:
        return []
    text = f"the machine was not equally fast before all trials: {'; '.join(texts)}"
    return [StudyWarning("unsteady_host", "", text, "keep other work off it, and measure again")]
