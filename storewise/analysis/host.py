"""What clients and hosts were busy with, and whether the client was the limit.

A run is *client-bound* when the figure says more about the client than about the store: a client
process of a store outside it used at least 0.9 of a core, or the rate reached at least 0.8 of the
null engine's at the same topology (the client's own ceiling). An embedded store works in the
client's process, so there a busy process is no sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from storewise.analysis.engines import CEILING, client_side, embedded, title
from storewise.analysis.frames import grouped, rows_of
from storewise.analysis.load import Results
from storewise.analysis.parts import SESSION
from storewise.analysis.throughput import STEP, durations
from storewise.analysis.warning import StudyWarning

BUSY_CLIENT = 0.9
NEAR_CEILING = 0.8
#: Host samples shorter than this many seconds are left out.
BRIEF = 0.25
#: Ratio of the fastest to the slowest canary above which a host is called unsteady.
UNSTEADY = 1.5

HOST_METRICS = {
    "cpu_user": "%",
    "cpu_system": "%",
    "cpu_iowait": "%",
    "cpu_steal": "%",
    "cpu_idle": "%",
    "memory_used": "B",
    "swap_in": "B/s",
    "swap_out": "B/s",
    "disk_read": "B/s",
    "disk_write": "B/s",
    "disk_busy": "%",
    "network_received": "B/s",
    "network_sent": "B/s",
    "loopback": "B/s",
}
COLUMNS = [*STEP, "host", "node", "metric", "mean", "max", "unit"]


def host_load(samples: pd.DataFrame) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, host and metric.

    Host figures are weighted with the length of their samples. ``client_cpu`` is in cores and of
    the busiest process, ``store_cpu`` (of embedded stores) and ``router_cpu`` in cores and of all
    workers, memory of processes is summed. `node` is empty: `nodes.node_load` has those of nodes.
    """
    lengths = _lengths(samples)
    rows = _long_enough(
        samples[samples["metric"].isin(HOST_METRICS) & samples["second"].notna()], lengths
    )
    frames = [_host_rows(rows, lengths)]
    walls = durations(samples).set_index(STEP)["wall"]
    for metric, summed in (("client_cpu", False), ("store_cpu", True), ("router_cpu", True)):
        frames.append(_cpu(samples, walls, metric, summed=summed))
    for metric in ("client_rss", "store_rss", "router_rss"):
        # At the end of a phase a process may be gone already when its memory is asked for.
        own = samples[
            (samples["metric"] == metric) & samples["second"].notna() & (samples["value"] > 0)
        ]
        total = own.groupby([*STEP, "host", "second"], observed=True)["value"].sum()
        frames.append(_mean_max(total, metric, "B"))
    filled = [frame for frame in frames if not frame.empty]
    if not filled:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(filled, ignore_index=True).sort_values(
        [*STEP, "host", "metric"], ignore_index=True
    )


def _lengths(samples: pd.DataFrame) -> pd.Series:
    rows = samples[samples["metric"] == "sample_length"]
    return rows.groupby([*STEP, "host", "second"], observed=True)["value"].max()


def _long_enough(rows: pd.DataFrame, lengths: pd.Series) -> pd.DataFrame:
    """`rows` without those of samples too brief to say anything: the kernel counts CPU time in
    ticks of 10 ms, so a sample of a few of them is mostly chance. A step's only sample stays."""
    brief = lengths[lengths < BRIEF].index
    kept = lengths[lengths >= BRIEF].reset_index()[[*STEP, "host"]].drop_duplicates()
    others = pd.MultiIndex.from_frame(kept)
    keys = [*STEP, "host", "second"]
    drop = pd.MultiIndex.from_frame(rows[keys]).isin(brief)
    drop &= pd.MultiIndex.from_frame(rows[keys[:-1]]).isin(others)
    return rows[~drop]


def _host_rows(rows: pd.DataFrame, lengths: pd.Series) -> pd.DataFrame:
    if rows.empty:
        return pd.DataFrame(columns=COLUMNS)
    keys = [*STEP, "host", "second"]
    weighted = rows[[*keys, "metric", "value"]].merge(
        lengths.rename("length").reset_index(), on=keys, how="left"
    )
    weighted["length"] = weighted["length"].fillna(1.0)
    weighted["product"] = weighted["value"] * weighted["length"]
    groups = weighted.groupby([*STEP, "host", "metric"], observed=True)
    table = groups.agg(
        product=("product", "sum"), length=("length", "sum"), max=("value", "max")
    ).reset_index()
    table["mean"] = table["product"] / table["length"]
    table["unit"] = table["metric"].astype(str).map(HOST_METRICS)
    return _plain(table)


def _cpu(samples: pd.DataFrame, walls: pd.Series, metric: str, *, summed: bool) -> pd.DataFrame:
    """CPU seconds per second: the mean over the wall time, the maximum over whole seconds."""
    own = samples[(samples["metric"] == metric) & samples["second"].notna()]
    unit = [*STEP, "host"] if summed else [*STEP, "host", "worker", "process"]
    rows = []
    for key, group in grouped(own, unit):
        wall = float(walls.get(key[:3], np.nan))
        seconds = group.groupby("second")["value"].sum()
        if not wall > 0:
            wall = float(len(seconds))
        mean = float(seconds.sum()) / wall
        full = seconds[seconds.index < np.floor(wall + 1e-9)]
        top = float(full.max()) if len(full) else mean
        rows.append((*key[:4], "", metric, mean, top, "cores"))
    table = pd.DataFrame(rows, columns=COLUMNS)
    # Of several processes the busiest one counts.
    return _plain(
        table.groupby([*STEP, "host", "metric", "unit"], observed=True)[["mean", "max"]]
        .max()
        .reset_index()
    )


def _mean_max(values: pd.Series, metric: str, unit: str) -> pd.DataFrame:
    table = values.groupby([*STEP, "host"], observed=True).agg(["mean", "max"]).reset_index()
    table["metric"], table["unit"] = metric, unit
    return _plain(table)


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    table = table.assign(node="")[COLUMNS]
    for name in ("trial", "phase", "host", "metric"):
        table[name] = table[name].astype(str)
    return table


#: Metric -> its column in the table of what a host did each second.
PER_SECOND = {
    "cpu_user": "user",
    "cpu_system": "system",
    "cpu_iowait": "iowait",
    "cpu_steal": "steal",
    "disk_read": "disk_read",
    "disk_write": "disk_write",
    "disk_busy": "disk_busy",
    "network_received": "network_received",
    "network_sent": "network_sent",
}
#: Kinds of processor time that were not told are none; no other figure is made up.
CPU_KINDS = ("user", "system", "iowait", "steal")


def cpu_series(samples: pd.DataFrame) -> pd.DataFrame:
    """What a host did each second: trial, phase, step, host, second; user, system, iowait, steal
    and disk_busy in %, disk and network in B/s (empty where not measured)."""
    rows = samples[samples["metric"].isin(PER_SECOND) & samples["second"].notna()]
    rows = _long_enough(rows, _lengths(samples))
    keys = [*STEP, "host", "second"]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, *PER_SECOND.values()])
    rows = rows.assign(metric=rows["metric"].astype(str))
    table = rows.pivot_table(
        index=keys, columns="metric", values="value", aggfunc="mean", observed=True
    )
    return by_second(table)


def by_second(wide: pd.DataFrame) -> pd.DataFrame:
    """The columns of `cpu_series` from one row per place and second, one column per metric."""
    keys = [*STEP, "host", "second"]
    table = wide.rename(columns=PER_SECOND).reset_index()
    table = table.reindex(columns=[*keys, *PER_SECOND.values()])
    return table.fillna(dict.fromkeys(CPU_KINDS, 0.0))


def client_bound(
    host: pd.DataFrame, rates: pd.DataFrame, summary: pd.DataFrame, results: Results
) -> pd.DataFrame:
    """Runs that the client limited: trial, phase, step, reason.

    `rates` is `throughput.throughput`, `summary` its means over repeats.
    """
    factors = list(results.factors)
    if "engine" not in factors or rates.empty:
        return pd.DataFrame(columns=[*STEP, "reason"])
    engines = dict(zip(results.trials["trial"], results.trials["engine"], strict=True))
    busy = host[(host["metric"] == "client_cpu") & (host["mean"] >= BUSY_CLIENT)]
    rows = [
        (row.trial, row.phase, row.step, f"a client process used {row.mean:.2f} of a core")
        for row in rows_of(busy)
        if engines[row.trial] != CEILING and not embedded(engines[row.trial])
    ]
    rows += [
        (
            trial,
            phase,
            step,
            f"it reached {share:.0%} of the rate of no store at all ({title(CEILING)})",
        )
        for trial, phase, step, share in _near_ceiling(rates, summary, results, factors)
    ]
    return pd.DataFrame(rows, columns=[*STEP, "reason"]).drop_duplicates(ignore_index=True)


def _near_ceiling(
    rates: pd.DataFrame, summary: pd.DataFrame, results: Results, factors: Sequence[str]
) -> list[tuple[str, str, int, float]]:
    same = [*client_side(factors), "phase", "step"]
    ceiling = summary[(summary["engine"] == CEILING) & (summary["measure"] == "operations_per_s")]
    if ceiling.empty:
        return []
    top = ceiling.groupby(same, dropna=False, observed=True)["mean"].max().rename("top")
    mine = rates[rates["measure"] == "operations_per_s"].merge(
        results.trials[["trial", *factors]], on="trial"
    )
    joined = mine[mine["engine"] != CEILING].merge(top.reset_index(), on=same, how="inner")
    near = joined[joined["value"] >= NEAR_CEILING * joined["top"]]
    # An open loop is as fast as it was told to be, with a store or without.
    paced = results.samples[results.samples["metric"] == "target_rate"]
    told = set(paced[STEP].drop_duplicates().itertuples(index=False, name=None))
    near = near[[(r.trial, r.phase, r.step) not in told for r in rows_of(near)]]
    return [
        (str(r.trial), str(r.phase), int(r.step), float(r.value / r.top)) for r in rows_of(near)
    ]


def bound_warnings(bound: pd.DataFrame) -> list[StudyWarning]:
    """One warning per trial and phase that the client limited."""
    return [
        StudyWarning(
            "client_bound",
            str(row.trial),
            f"phase {row.phase}: limited by the client: {row.reason}",
            "the store may do more than this figure says: use more processes or workers",
        )
        for row in rows_of(bound)
    ]


def canary(samples: pd.DataFrame) -> pd.DataFrame:
    """The canary of each trial and host: trial, taken_by ("clients" or "nodes": their directories
    may lie on different disks), host, metric, value, unit."""
    rows = samples[samples["metric"].astype(str).str.startswith("canary_")]
    by = np.where(rows["phase"].astype(str) == SESSION, "nodes", "clients")
    columns = ["trial", "taken_by", "host", "metric", "value", "unit"]
    return (
        rows.assign(taken_by=by)[columns]
        .astype({"trial": str, "taken_by": str, "host": str, "metric": str, "unit": str})
        .reset_index(drop=True)
    )


def canary_warnings(table: pd.DataFrame) -> list[StudyWarning]:
    """A warning per canary that differs much between trials: the machine was not the same."""
    found = []
    for (metric, by), group in table.groupby(["metric", "taken_by"]):
        values = group["value"].astype(float).to_numpy()
        slow, fast = float(values.min()), float(values.max())
        if slow > 0 and fast / slow > UNSTEADY:
            found.append(
                StudyWarning(
                    "unsteady_host",
                    "",
                    f"{metric} of hosts with {by} lay between {slow:,.3g} and {fast:,.3g} "
                    f"{group['unit'].iloc[0]} before the trials: the machine was not equally fast "
                    "all the time",
                    "keep other work off the machine, or set more repeats",
                )
            )
    return found
