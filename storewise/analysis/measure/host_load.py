"""What clients and hosts were busy with, and whether the client was the limit.

A run is *client-bound* when the figure says more about the client than about the store: a client
process of a store outside it used at least 0.9 of a core, or the rate reached at least 0.8 of the
null engine's at the same topology (the client's own ceiling). An embedded store works in the
client's process, so there a busy process is no sign.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import CEILING, client_side, embedded, title
from storewise.analysis.common.frames import keys_of, numbered, rows_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION
from storewise.analysis.measure.throughput import STEP, durations
from storewise.analysis.model.results import Results

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
PLACE = [*STEP, "host", "second"]
_LENGTH = "sample_length"


def host_load(
    samples: pd.DataFrame, taken: pd.DataFrame | None = None, walls: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, host and metric.

    `taken` is `host_samples` of the samples, `walls` is `throughput.durations` of them.

    Host figures are weighted with the length of their samples. ``client_cpu`` is in cores and of
    the busiest process, ``store_cpu`` (of embedded stores) and ``router_cpu`` in cores and of all
    workers, memory of processes is summed. `node` is empty: `nodes.node_load` has those of nodes.
    """
    frames = [_host_rows(host_samples(samples) if taken is None else taken)]
    walls = durations(samples) if walls is None else walls
    for metric, summed in (("client_cpu", False), ("store_cpu", True), ("router_cpu", True)):
        frames.append(_cpu(samples, walls, metric, summed=summed))
    frames += [_memory(samples, m) for m in ("client_rss", "store_rss", "router_rss")]
    filled = [frame for frame in frames if not frame.empty]
    if not filled:
        return pd.DataFrame(columns=COLUMNS)
    return pd.concat(filled, ignore_index=True).sort_values(
        [*STEP, "host", "metric"], ignore_index=True
    )


def host_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Rows per second of hosts' metrics, with the `length` of their sample in s (1 where it is not
    told), without those of samples too brief to say anything: the kernel counts CPU time in ticks
    of 10 ms, so a sample of a few of them is mostly chance. A step's only sample stays."""
    rows = samples.loc[
        samples["metric"].isin([*HOST_METRICS, _LENGTH]) & samples["second"].notna(),
        [*PLACE, "metric", "value"],
    ]
    places = numbered(rows, [*STEP, "host", "second"])
    steps = numbered(rows, [*STEP, "host"])
    told = (rows["metric"] == _LENGTH).to_numpy()
    length = np.full(places.groups, np.nan)
    np.fmax.at(length, places.number[told], rows["value"].to_numpy(dtype=float)[told])
    brief, long = length < BRIEF, length >= BRIEF
    others = np.zeros(steps.groups, dtype=bool)
    others[steps.number[places.first[long]]] = True
    keep = ~told & ~(brief[places.number] & others[steps.number])
    weight = np.where(np.isnan(length), 1.0, length)[places.number]
    return rows.assign(length=weight)[keep]


def _host_rows(rows: pd.DataFrame) -> pd.DataFrame:
    keys = [*STEP, "host", "metric"]
    groups = numbered(rows, keys)
    value, length = rows["value"].to_numpy(dtype=float), rows["length"].to_numpy(dtype=float)
    table = keys_of(rows, keys, groups.first)
    table["mean"] = groups.sums(value * length) / groups.sums(length)
    table["max"] = groups.highest(value)
    table["unit"] = table["metric"].astype(str).map(HOST_METRICS)
    return _plain(table)


def _cpu(samples: pd.DataFrame, walls: pd.DataFrame, metric: str, *, summed: bool) -> pd.DataFrame:
    """CPU seconds per second: the mean over the wall time, the maximum over whole seconds."""
    own = samples[(samples["metric"] == metric) & samples["second"].notna()]
    unit = [*STEP, "host"] if summed else [*STEP, "host", "worker", "process"]
    units = numbered(own, unit)
    places = numbered(own, [*unit, "second"])
    table = keys_of(own, [*STEP, "host"], units.first)
    used = places.sums(own["value"])
    of_unit = units.number[places.first]
    wall = table.merge(walls, on=STEP, how="left")["wall"].to_numpy(dtype=float)
    seconds = np.bincount(of_unit, minlength=units.groups)
    wall = np.where(wall > 0, wall, seconds)
    mean = np.bincount(of_unit, weights=used, minlength=units.groups) / wall
    second = own["second"].to_numpy(dtype=float)[places.first]
    full = second < np.floor(wall + 1e-9)[of_unit]
    top = np.full(units.groups, -np.inf)
    np.maximum.at(top, of_unit[full], used[full])
    table = table.assign(mean=mean, max=np.where(np.isfinite(top), top, mean))
    # Of several processes the busiest one counts.
    hosts = numbered(table, [*STEP, "host"])
    found = keys_of(table, [*STEP, "host"], hosts.first)
    found["mean"], found["max"] = hosts.highest(table["mean"]), hosts.highest(table["max"])
    return _plain(found.assign(metric=metric, unit="cores"))


def _memory(samples: pd.DataFrame, metric: str) -> pd.DataFrame:
    # At the end of a phase a process may be gone already when its memory is asked for.
    own = samples[
        (samples["metric"] == metric) & samples["second"].notna() & (samples["value"] > 0)
    ]
    seconds = numbered(own, [*STEP, "host", "second"])
    total = keys_of(own, [*STEP, "host"], seconds.first)
    total["value"] = seconds.sums(own["value"])
    hosts = numbered(total, [*STEP, "host"])
    found = keys_of(total, [*STEP, "host"], hosts.first)
    found["mean"], found["max"] = hosts.means(total["value"]), hosts.highest(total["value"])
    return _plain(found.assign(metric=metric, unit="B"))


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


def cpu_series(samples: pd.DataFrame, taken: pd.DataFrame | None = None) -> pd.DataFrame:
    """What a host did each second: trial, phase, step, host, second; user, system, iowait, steal
    and disk_busy in %, disk and network in B/s (empty where not measured).

    `taken` is `host_samples` of these samples."""
    rows = host_samples(samples) if taken is None else taken
    return by_second(per_second(rows[rows["metric"].isin(PER_SECOND)]))


def per_second(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per PLACE with the mean of each metric in a column of its name."""
    places = numbered(rows, PLACE)
    metric = rows["metric"].astype("category").cat.remove_unused_categories().cat
    wide = len(metric.categories)
    cell = places.number * wide + metric.codes.to_numpy()
    number = np.bincount(cell, minlength=places.groups * wide)
    total = np.bincount(cell, weights=rows["value"], minlength=len(number))
    mean = (total / np.where(number, number, np.nan)).reshape(places.groups, wide)
    table = keys_of(rows, PLACE, places.first)
    for code, name in enumerate(metric.categories):
        table[name] = mean[:, code]
    return table


def by_second(wide: pd.DataFrame) -> pd.DataFrame:
    """The columns of `cpu_series` from one row per place and second, one column per metric."""
    table = wide.rename(columns=PER_SECOND).reindex(columns=[*PLACE, *PER_SECOND.values()])
    return table.fillna(dict.fromkeys(CPU_KINDS, 0.0))


def client_bound(
    host: pd.DataFrame,
    rates: pd.DataFrame,
    summary: pd.DataFrame,
    results: Results,
    paced: Collection[tuple[str, str, int]] = (),
) -> pd.DataFrame:
    """Runs that the client limited: trial, phase, step, reason.

    `rates` is `throughput.throughput`, `summary` its means over repeats, `paced` the trial, phase
    and step of open loops.
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
        for trial, phase, step, share in _near_ceiling(rates, summary, results, paced)
    ]
    return pd.DataFrame(rows, columns=[*STEP, "reason"]).drop_duplicates(ignore_index=True)


def _near_ceiling(
    rates: pd.DataFrame,
    summary: pd.DataFrame,
    results: Results,
    paced: Collection[tuple[str, str, int]],
) -> list[tuple[str, str, int, float]]:
    factors = list(results.factors)
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
    near = near.loc[[(r.trial, r.phase, r.step) not in paced for r in rows_of(near)]]
    return [
        (str(r.trial), str(r.phase), int(r.step), float(r.value / r.top)) for r in rows_of(near)
    ]


def paced_steps(samples: pd.DataFrame) -> set[tuple[str, str, int]]:
    """Trial, phase and step of open loops."""
    rows = samples.loc[samples["metric"] == "target_rate", STEP].drop_duplicates()
    return {
        (str(trial), str(phase), int(step)) for trial, phase, step in rows.itertuples(index=False)
    }


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
