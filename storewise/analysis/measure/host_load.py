"""What clients and hosts were busy with, and whether the client was the limit.

A run is *client-bound* when the figure says more about the client than about the store: a client
process of a store outside it used at least 0.9 of a core, the rate reached at least 0.8 of the
null engine's at the same topology (the client's own ceiling), or the clients spent at least a tenth
of their time on their own work between the store's calls. An embedded store works in the client's
process, so there a busy process is no sign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd

from storewise.analysis.common.engines import BASELINE, CEILING, client_side, embedded, title
from storewise.analysis.common.frames import keys_of, numbered, rows_of
from storewise.analysis.common.warnings import StudyWarning
from storewise.analysis.files.parts import SESSION
from storewise.analysis.measure.throughput import STEP, StepKey
from storewise.analysis.model.results import Results
from storewise.metrics.schema import METRICS

BUSY_CLIENT = 0.9
NEAR_CEILING = 0.8
OWN_WORK = 0.1
#: Host samples shorter than this many seconds are left out.
BRIEF = 0.25
#: Ratio of the fastest to the slowest canary above which a host is called unsteady.
UNSTEADY = 1.5

_CPU = ("cpu_user", "cpu_system", "cpu_iowait", "cpu_steal")
_DISK_AND_NETWORK = ("disk_read", "disk_write", "disk_busy", "network_received", "network_sent")
_OTHERS = ("cpu_idle", "memory_used", "swap_in", "swap_out", "loopback")
#: With their units.
HOST_METRICS = {name: METRICS[name] for name in (*_CPU, *_DISK_AND_NETWORK, *_OTHERS)}
COLUMNS = [*STEP, "host", "node", "metric", "mean", "max", "unit"]
_HOST = [*STEP, "host"]
PLACE = [*_HOST, "second"]
_LENGTH = "sample_length"


def host_load(samples: pd.DataFrame, sampled: pd.DataFrame, walls: pd.DataFrame) -> pd.DataFrame:
    """Mean and maximum per trial, phase, step, host and metric.

    `sampled` is `host_samples` of the samples, `walls` is `throughput.durations`.
    Host figures are weighted with the length of their samples. ``client_cpu`` is in cores and of
    the busiest process, ``store_cpu`` (of embedded stores) and ``router_cpu`` in cores and of all
    workers, memory of processes is summed. `node` is empty: `node_load` has those of nodes.
    """
    tables = [weighted(sampled, [*_HOST, "metric"])]
    tables[0]["unit"] = tables[0]["metric"].astype(str).map(HOST_METRICS)
    for metric, summed in (("client_cpu", False), ("store_cpu", True), ("router_cpu", True)):
        tables.append(_cpu(samples, walls, metric, summed=summed))
    tables += [_memory(samples, m) for m in ("client_rss", "store_rss", "router_rss")]
    texts = dict.fromkeys(("trial", "phase", "host", "metric"), str)
    filled = [table.assign(node="")[COLUMNS].astype(texts) for table in tables if len(table)]
    table = pd.concat(filled or [pd.DataFrame(columns=COLUMNS)], ignore_index=True)
    return table.sort_values([*_HOST, "metric"], ignore_index=True)


def host_samples(samples: pd.DataFrame) -> pd.DataFrame:
    """Rows per second of hosts' metrics, with the `length` of their sample in s (1 where no row has
    it), without those of samples too brief to say anything: the kernel counts CPU time in ticks
    of 10 ms, so a sample of a few of them is mostly chance. A step's only sample stays."""
    rows = samples.loc[
        samples["metric"].isin([*HOST_METRICS, _LENGTH]) & samples["second"].notna(),
        [*PLACE, "metric", "value"],
    ]
    places = numbered(rows, PLACE)
    lengths = (rows["metric"] == _LENGTH).to_numpy()
    length = np.full(places.groups, np.nan)
    np.fmax.at(length, places.number[lengths], rows["value"].to_numpy(dtype=float)[lengths])
    length = length[places.number]
    brief = (length < BRIEF) & numbered(rows, _HOST).any(length >= BRIEF)
    weight = np.where(np.isnan(length), 1.0, length)
    return rows.assign(length=weight)[~lengths & ~brief]


def weighted(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Mean, weighted with `length`, and maximum of the rows with equal `keys`."""
    groups = numbered(rows, keys)
    length = rows["length"].to_numpy(dtype=float)
    table = keys_of(rows, keys, groups.first)
    table["mean"] = groups.sums(rows["value"].to_numpy(dtype=float) * length) / groups.sums(length)
    table["max"] = groups.highest(rows["value"])
    return table


def _cpu(samples: pd.DataFrame, walls: pd.DataFrame, metric: str, *, summed: bool) -> pd.DataFrame:
    """CPU seconds per second: the mean over the wall time, the maximum over whole seconds."""
    rows = samples[(samples["metric"] == metric) & samples["second"].notna()]
    unit = _HOST if summed else [*_HOST, "worker", "process"]
    units = numbered(rows, unit)
    places = numbered(rows, [*unit, "second"])
    table = keys_of(rows, _HOST, units.first)
    used = places.sums(rows["value"])
    of_unit = units.number[places.first]
    wall = table.merge(walls, on=STEP, how="left")["wall"].to_numpy(dtype=float)
    wall = np.where(wall > 0, wall, np.bincount(of_unit, minlength=units.groups))
    mean = np.bincount(of_unit, weights=used, minlength=units.groups) / wall
    second = rows["second"].to_numpy(dtype=float)[places.first]
    full = second < np.floor(wall + 1e-9)[of_unit]
    top = np.full(units.groups, -np.inf)
    np.maximum.at(top, of_unit[full], used[full])
    top = np.where(np.isfinite(top), top, mean)
    # Of several processes the busiest one counts.
    hosts = numbered(table, _HOST)
    table = keys_of(table, _HOST, hosts.first)
    table["mean"], table["max"] = hosts.highest(mean), hosts.highest(top)
    return table.assign(metric=metric, unit="cores")


def _memory(samples: pd.DataFrame, metric: str) -> pd.DataFrame:
    # At the end of a phase a process may be gone already when its memory is asked for.
    rows = samples[
        (samples["metric"] == metric) & samples["second"].notna() & (samples["value"] > 0)
    ]
    seconds = numbered(rows, PLACE)
    total = keys_of(rows, _HOST, seconds.first)
    total["value"], total["length"] = seconds.sums(rows["value"]), 1.0
    return weighted(total, _HOST).assign(metric=metric, unit="B")


#: Metric -> its column in the table of what a host did each second.
PER_SECOND = {name: name.removeprefix("cpu_") for name in (*_CPU, *_DISK_AND_NETWORK)}


def by_second(rows: pd.DataFrame) -> pd.DataFrame:
    """What a host did each second: trial, phase, step, host, second; user, system, iowait, steal
    and disk_busy in %, disk and network in B/s (empty where not measured).

    `rows` is `host_samples`, or what is like it of nodes."""
    rows = rows[rows["metric"].isin(PER_SECOND)]
    places = numbered(rows, PLACE)
    table = keys_of(rows, PLACE, places.first)
    values = rows["value"].to_numpy(dtype=float)
    for metric, column in PER_SECOND.items():
        chosen = (rows["metric"] == metric).to_numpy()
        total = np.bincount(places.number[chosen], values[chosen], places.groups)
        number = np.bincount(places.number[chosen], minlength=places.groups)
        table[column] = total / np.where(number, number, np.nan)
    # Kinds of processor time that no sample has took none; no other figure is made up.
    return table.fillna({PER_SECOND[metric]: 0.0 for metric in _CPU})


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


def canary_warnings(table: pd.DataFrame) -> Iterator[StudyWarning]:
    """A warning per canary that differs much between trials: the machine was not the same."""
    for (metric, by), group in table.groupby(["metric", "taken_by"]):
        slow, fast = float(group["value"].min()), float(group["value"].max())
        if slow > 0 and fast / slow > UNSTEADY:
            yield StudyWarning(
                "unsteady_host",
                "",
                f"{metric} of hosts with {by} lay between {slow:,.3g} and {fast:,.3g} "
                f"{group['unit'].iloc[0]} before the trials: the machine was not equally fast all "
                "the time",
                "keep other work off the machine, or set more repeats",
            )
